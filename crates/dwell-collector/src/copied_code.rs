//! Code that a program has copied from its file into memory without one, at the same place, to back it by huge pages: as
//! Node.js does (`--use-largepages`), ClickHouse, and what preloads do for others. It is the file's code still.
use crate::modules::Module;
use dwell_maps::Mapping;

/// Of each mapping without a file or a name those next below and above it that have a file, if both have the same: then what
/// lies between them was of that file. (Memory that merely lies where a library was once, as code made at run time may, has
/// none of its parts on both sides.)
pub fn between(all: &[Mapping]) -> Vec<Option<[&Mapping; 2]>> {
    let mut found = vec![None; all.len()];
    let mut files = all.iter().enumerate().filter(|(_, m)| m.inode != 0);
    let Some(mut below) = files.next() else {
        return found;
    };
    for above in files {
        let is_same = (below.1.device, below.1.inode) == (above.1.device, above.1.inode);
        if is_same {
            for at in below.0 + 1..above.0 {
                found[at] = all[at].path.is_empty().then_some([below.1, above.1]);
            }
        }
        below = above;
    }
    found
}

/// Offset in the file of the code that lies in `copy`, between two mappings of the file. None if no code of
/// it belongs there.
pub fn file_offset(copy: &Mapping, [below, above]: [&Mapping; 2], module: &Module) -> Option<u64> {
    let bias = |m: &Mapping| Some(m.start.wrapping_sub(module.stated_address(m.file_offset)?));
    let bias = bias(below).filter(|found| bias(above) == Some(*found))?;
    module.code_offset(copy.start.wrapping_sub(bias)..copy.end.wrapping_sub(bias))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mappings(lines: &[&str]) -> Vec<Mapping> {
        let parse = |line: &&str| Mapping::parse(line).expect("a line");
        lines.iter().map(parse).collect()
    }

    #[test]
    fn only_between_parts_of_one_file() {
        let all = mappings(&[
            "1000-2000 r--p 0 fe:00 7 /a",
            "2000-3000 r-xp 0 00:00 0",
            "3000-4000 rwxp 0 00:00 0",
            "4000-5000 r--p 3000 fe:00 7 /a",
            "5000-6000 rw-p 0 00:00 0 [heap]",
            "7000-8000 r-xp 0 00:00 0",
            "8000-9000 r-xp 0 fe:00 8 /b",
        ]);
        let starts = between(&all);
        let starts: Vec<_> = starts
            .iter()
            .map(|s| s.map(|b| b.map(|m| m.start)))
            .collect();
        let inside = Some([0x1000, 0x4000]);
        assert_eq!(starts, [None, inside, inside, None, None, None, None]);
        let named = mappings(&[
            "1000-2000 r--p 0 fe:00 7 /a",
            "2000-3000 rw-p 0 00:00 0 [stack]",
            "4000-5000 r--p 3000 fe:00 7 /a",
        ]);
        assert_eq!(between(&named), [None; 3]);
        assert_eq!(between(&[]), []);
    }
}
