//! Code that a program has copied from its file into memory without one, at the same place, to back it by huge pages: as
//! Node.js does (`--use-largepages`), ClickHouse, and what preloads do for others. It is the file's code still.
use crate::modules::Module;
use dwell_maps::Mapping;

/// The mappings next below and above one without a file, if both are of the same file: then what lies between them was
/// of that file. (Memory that merely lies where a library was once, as code made at run time may, has none of its parts
/// on both sides.)
pub fn between(all: &[Mapping], at: usize) -> Option<[&Mapping; 2]> {
    let (below, rest) = all.split_at_checked(at)?;
    let (this, above) = rest.split_first()?;
    let has_file = |m: &&Mapping| m.inode != 0;
    let (below, above) = (below.iter().rfind(has_file)?, above.iter().find(has_file)?);
    let same = (below.device, below.inode) == (above.device, above.inode);
    (this.path.is_empty() && same).then_some([below, above])
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
        let starts = |at| between(&all, at).map(|both| both.map(|m| m.start));
        assert_eq!(starts(1), Some([0x1000, 0x4000]));
        assert_eq!(starts(2), Some([0x1000, 0x4000]));
        assert_eq!(starts(5), None, "of two files");
        assert_eq!(starts(0), None, "nothing below");
        assert_eq!(starts(7), None, "not there");
        let named = mappings(&[
            "1000-2000 r--p 0 fe:00 7 /a",
            "2000-3000 rw-p 0 00:00 0 [stack]",
            "4000-5000 r--p 3000 fe:00 7 /a",
        ]);
        assert_eq!(between(&named, 1), None);
    }
}
