//! Perf map files (`/tmp/perf-PID.map`): lines `START SIZE NAME`, in hex, that a JIT compiler
//! appends to as it makes code.
use std::io::{self, BufRead, Read};

use crate::queries::Queries;

/// Most that is read of one file, bytes: some ten million lines.
const MAX_FILE: u64 = 512 << 20;
/// Longest line that is kept, bytes.
const MAX_LINE: u64 = 64 << 10;

/// One line.
struct Line<'a> {
    start: u64,
    size: u64,
    name: &'a str,
}

/// For each of the sorted addresses the name of the last line that covers it: code at an address
/// is replaced by appending.
///
/// The file is streamed past the addresses; only names of hits are kept.
pub(crate) fn names(file: impl Read, queries: &mut Queries) -> io::Result<Vec<Option<String>>> {
    let mut reader = io::BufReader::with_capacity(1 << 16, file.take(MAX_FILE));
    let mut names: Vec<Option<String>> = vec![None; queries.len()];
    let mut bytes = Vec::new();
    while read_line(&mut reader, &mut bytes)? {
        let Some(line) = parse_line(&bytes) else {
            continue;
        };
        for i in queries.visit(line.start, line.start.saturating_add(line.size)) {
            names[i].get_or_insert_default().clone_from_str(line.name);
        }
    }
    Ok(names)
}

/// Replaces a string's contents and keeps its buffer.
trait CloneFromStr {
    fn clone_from_str(&mut self, s: &str);
}

impl CloneFromStr for String {
    fn clone_from_str(&mut self, s: &str) {
        self.clear();
        self.push_str(s);
    }
}

/// Reads a line without its end into `bytes`; false at the end of the file. What is not (yet)
/// ended by a newline is no line: its name may be cut. Lines that are too long come out empty.
fn read_line(reader: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    reader.by_ref().take(MAX_LINE).read_until(b'\n', bytes)?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        return Ok(true);
    }
    bytes.clear();
    let skipped = reader.skip_until(b'\n')?;
    Ok(skipped > 0)
}

fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let line = std::str::from_utf8(line).ok()?.trim_ascii();
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.trim_start().split_once(' ')?;
    let name = name.trim_start();
    (!name.is_empty()).then_some(Line {
        start: hex(start)?,
        size: hex(size)?,
        name,
    })
}

fn hex(digits: &str) -> Option<u64> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    // `from_str_radix` would take a sign.
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// The name that the perf map `contents` gives to `address`, the last line winning. For one
/// address; fuzzing and tools use it.
pub fn name_from_perf_map(contents: &[u8], address: u64) -> Option<String> {
    names(contents, &mut Queries::new(&[address])).ok()?.pop()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_lines_replace_earlier_ones_where_they_overlap() {
        let map = b"1000 100 old one\n1080 100 new\n0x2000 10 prefixed\n";
        let name = |address| name_from_perf_map(map, address);
        assert_eq!(name(0x1000).as_deref(), Some("old one"));
        assert_eq!(name(0x107f).as_deref(), Some("old one"));
        assert_eq!(name(0x1080).as_deref(), Some("new"));
        assert_eq!(name(0x117f).as_deref(), Some("new"));
        assert_eq!(name(0x1180), None);
        assert_eq!(name(0x200f).as_deref(), Some("prefixed"));
    }

    #[test]
    fn an_unfinished_line_is_not_used() {
        assert_eq!(
            name_from_perf_map(b"1000 10 whole\n1000 10 who", 0x1000).as_deref(),
            Some("whole")
        );
    }

    #[test]
    fn damaged_lines_are_passed_over() {
        let mut map =
            b"\n \n1000\n1000 10\n1000 10 \n+1000 10 sign\nxyz 10 a\n1000 -1 b\n".to_vec();
        map.extend_from_slice(b"1000 10 \xff\xfe\n10000000000000000 10 too wide\n");
        map.extend_from_slice(format!("1000 10 {}\n", "x".repeat(MAX_LINE as usize)).as_bytes());
        assert_eq!(name_from_perf_map(&map, 0x1000), None);
        map.extend_from_slice(b"1000 10 good\n");
        assert_eq!(name_from_perf_map(&map, 0x1000).as_deref(), Some("good"));
        assert_eq!(
            name_from_perf_map(b"fffffffffffffff0 ffffffffffffffff top\n", u64::MAX - 1).as_deref(),
            Some("top")
        );
    }
}
