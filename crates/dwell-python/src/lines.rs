//! Lines of instructions.

/// How code has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Until CPython 3.9: `Objects/lnotab_notes.txt` of these versions.
    Pairs,
    /// CPython 3.10: `Objects/lnotab_notes.txt`.
    Ranges,
    /// Since 3.11: `InternalDocs/code_objects.md`, "Format of the locations table".
    Locations,
}

impl Lines {
    /// The line of an instruction (a code unit of 2 bytes, by its index) of code whose first line is known. None: it has none.
    pub fn line(self, table: &[u8], first_line: i32, instruction: u32) -> Option<i32> {
        match self {
            Lines::Pairs => by_pairs(table, first_line, instruction),
            Lines::Ranges => by_ranges(table, first_line, instruction),
            Lines::Locations => by_locations(table, first_line, instruction),
        }
    }
}

/// Pairs: how many bytes further on in the instructions the next line begins, and how far that line is from the one before.
fn by_pairs(table: &[u8], first_line: i32, instruction: u32) -> Option<i32> {
    let at = u64::from(instruction) * 2;
    let mut line = first_line;
    let mut start = 0;
    for [bytes, distance] in table.as_chunks().0 {
        start += u64::from(*bytes);
        if start > at {
            break;
        }
        line = line.checked_add((*distance as i8).into())?;
    }
    Some(line)
}

/// Pairs: bytes of instructions, and how far their line is from the one before.
fn by_ranges(table: &[u8], first_line: i32, instruction: u32) -> Option<i32> {
    /// They have no line.
    const NO_LINE: i8 = -128;
    let at = u64::from(instruction) * 2;
    let mut line = first_line;
    let mut end = 0;
    for [bytes, distance] in table.as_chunks().0 {
        let distance = *distance as i8;
        end += u64::from(*bytes);
        if distance != NO_LINE {
            line = line.checked_add(distance.into())?;
        }
        if at < end {
            return (distance != NO_LINE).then_some(line);
        }
    }
    None
}

/// No line.
const NONE: u8 = 15;
const LONG: u8 = 14;
const NO_COLUMN: u8 = 13;
/// Those of one line and more, up to this one: the line's distance is in the kind.
const ONE_LINE: std::ops::RangeInclusive<u8> = 10..=12;

fn by_locations(table: &[u8], first_line: i32, instruction: u32) -> Option<i32> {
    let mut line = first_line;
    let mut end = 0;
    let mut rest = table;
    while let Some((head, behind)) = rest.split_first() {
        rest = behind;
        let kind = head >> 3 & 15;
        let distance = match kind {
            NONE => 0,
            LONG | NO_COLUMN => signed(&mut rest)?,
            _ if ONE_LINE.contains(&kind) => i32::from(kind - *ONE_LINE.start()),
            _ => 0,
        };
        line = line.checked_add(distance)?;
        end += u32::from(head & 7) + 1;
        if instruction < end {
            return (kind != NONE).then_some(line);
        }
        // Columns, in bytes whose upper bit is not set.
        let next = rest.iter().position(|byte| byte & 0x80 != 0);
        rest = &rest[next.unwrap_or(rest.len())..];
    }
    None
}

/// A number in groups of 6 bits, lowest first, each but the last with bit 6 set; its lowest bit is the sign.
fn signed(rest: &mut &[u8]) -> Option<i32> {
    let mut number = 0u32;
    let mut shift = 0;
    loop {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u32::from(byte & 63).checked_shl(shift)?;
        if byte & 64 == 0 {
            let size = (number >> 1) as i32;
            return Some(if number & 1 == 1 { -size } else { size });
        }
        shift += 6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_each_kind() {
        let table = [
            0x80 | 1 << 3 | 1,
            0x10, // short: 2 units, the same line
            0x80 | 11 << 3,
            3,
            9, // one line: 1 unit, the next line
            0x80 | 13 << 3 | 7,
            0x14, // no columns: 8 units, 10 lines on
            0x80 | 14 << 3,
            0x4b,
            0x01,
            0,
            5,
            9,                  // long: 1 unit, -37 lines
            0x80 | 15 << 3 | 2, // 3 units without a line
        ];
        let line = |instruction| Lines::Locations.line(&table, 100, instruction);
        assert_eq!(
            [0, 1, 2, 3, 10, 11].map(line),
            [100, 100, 101, 111, 111, 74].map(Some)
        );
        assert_eq!([12, 14, 15, u32::MAX].map(line), [None; 4]);
        assert_eq!(by_locations(&[], 1, 0), None);
        assert_eq!(by_locations(&[0x80 | 14 << 3], 1, 0), None);
    }

    #[test]
    fn lines_of_pairs() {
        // 3 units on the first line, 150 on the third, then two lines back, in two steps of code and lines.
        let table = [6, 2, 255, 0, 45, 127, 0, 3, 2, 0xfe];
        let line = |instruction| Lines::Pairs.line(&table, 100, instruction);
        let expected = [100, 100, 102, 102, 232, 230, 230].map(Some);
        assert_eq!([0, 2, 3, 152, 153, 154, u32::MAX].map(line), expected);
        assert_eq!(by_pairs(&[], 7, 3), Some(7));
        assert_eq!(by_pairs(&[0, 1], i32::MAX, 0), None);
    }

    #[test]
    fn lines_of_ranges() {
        // 2 units on the first line, 3 on the next, none, 1 unit without a line, 1 unit 5 lines back.
        let table = [4, 0, 6, 1, 0, 9, 2, 0x80, 2, 0xf2, 7];
        let line = |instruction| Lines::Ranges.line(&table, 100, instruction);
        assert_eq!([0, 1, 2, 4].map(line), [100, 100, 101, 101].map(Some));
        assert_eq!([5, 6, 7, u32::MAX].map(line), [None, Some(96), None, None]);
    }
}
