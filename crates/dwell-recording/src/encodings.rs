//! Decoders for the encodings that recordings use: plain, run-length, dictionary, delta.
//!
//! The Parquet crate's own decoders are made for well-formed pages: a number longer than allowed,
//! or a count of zero in the wrong place, makes them panic. These take any bytes. Each decodes
//! exactly `count` values, appends them to `out`, and fails when the bytes do not hold them.

/// What is wrong with a page.
pub type Result<T> = std::result::Result<T, &'static str>;

const SHORT: &str = "a page ends within its values";

/// Values per block of delta encoding at most; writers use 128 or 256.
const MAX_BLOCK: u64 = 1 << 12;

/// Cuts `length` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(SHORT)?;
    *bytes = rest;
    Ok(taken)
}

/// Cuts off bytes that have their length in four bytes before them.
pub fn take_prefixed<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = take(bytes, 4)?
        .try_into()
        .map(u32::from_le_bytes)
        .map_err(|_| SHORT)?;
    take(bytes, usize::try_from(length).map_err(|_| SHORT)?)
}

/// Cuts off an unsigned LEB128 number.
fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number is longer than ten bytes")
}

/// Cuts off a signed LEB128 number, zigzag-encoded.
fn zigzag(bytes: &mut &[u8]) -> Result<i64> {
    let value = varint(bytes)?;
    Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

/// Unpacks `count` numbers of `width` (at most 64) bits each, lowest bit first.
fn unpack(packed: &[u8], width: usize, count: usize, mut each: impl FnMut(u64)) -> Result<()> {
    if packed.len() < (width * count).div_ceil(8) {
        return Err(SHORT);
    }
    let mask = if width == 64 {
        u64::MAX
    } else {
        (1 << width) - 1
    };
    for bit in (0..count).map(|index| index * width) {
        // A number of 64 bits that does not start at a byte lies in nine.
        let window = match packed[bit / 8..].first_chunk::<16>() {
            Some(window) => u128::from_le_bytes(*window),
            None => {
                let mut window = [0; 16];
                let rest = &packed[bit / 8..];
                window[..rest.len()].copy_from_slice(rest);
                u128::from_le_bytes(window)
            }
        };
        each((window >> (bit % 8)) as u64 & mask);
    }
    Ok(())
}

/// Run-length encoding: runs of one value, mixed with groups of eight packed values.
pub fn run_length(mut bytes: &[u8], width: u8, count: usize, out: &mut Vec<u32>) -> Result<()> {
    if width > 32 {
        return Err("run-length encoded values have more than 32 bits");
    }
    let mut left = count;
    while left > 0 {
        let header = varint(&mut bytes)?;
        let length = header >> 1;
        if length == 0 {
            return Err("a run of no values");
        }
        if header & 1 == 0 {
            let mut value = [0; 4];
            let encoded = take(&mut bytes, usize::from(width).div_ceil(8))?;
            value[..encoded.len()].copy_from_slice(encoded);
            let run = usize::try_from(length).unwrap_or(left).min(left);
            out.extend(std::iter::repeat_n(u32::from_le_bytes(value), run));
            left -= run;
        } else {
            // The last group may be cut after the values that count.
            let run = usize::try_from(length.saturating_mul(8))
                .unwrap_or(left)
                .min(left);
            unpack(bytes, usize::from(width), run, |value| {
                out.push(value as u32)
            })?;
            let groups = usize::try_from(length)
                .unwrap_or(usize::MAX)
                .saturating_mul(usize::from(width));
            bytes = bytes.get(groups..).unwrap_or_default();
            left -= run;
        }
    }
    Ok(())
}

/// Dictionary encoding: the width of an index in one byte, then run-length encoded indices.
pub fn dictionary(bytes: &[u8], count: usize, out: &mut Vec<u32>) -> Result<()> {
    let (width, indices) = bytes.split_first().ok_or(SHORT)?;
    run_length(indices, *width, count, out)
}

/// Plain truth values: one bit each.
pub fn plain_bools(bytes: &[u8], count: usize, out: &mut Vec<bool>) -> Result<()> {
    unpack(bytes, 1, count, |bit| out.push(bit != 0))
}

/// Delta encoding: a first value, then blocks of packed differences. The arithmetic wraps, as the
/// encoder's does; numbers of 32 bits are the low halves of the results.
pub fn delta(mut bytes: &[u8], count: usize, mut push: impl FnMut(i64)) -> Result<()> {
    let (block, parts, stated) = (
        varint(&mut bytes)?,
        varint(&mut bytes)?,
        varint(&mut bytes)?,
    );
    let first = zigzag(&mut bytes)?;
    if count == 0 {
        return Ok(());
    }
    let sizes = (1..=MAX_BLOCK).contains(&block)
        && parts > 0
        && block % parts == 0
        && (block / parts) % 32 == 0;
    if !sizes || stated < count as u64 {
        return Err("the header of delta-encoded values is implausible");
    }
    let (parts, part) = (parts as usize, (block / parts) as usize);
    let (mut last, mut left) = (first, count - 1);
    push(first);
    while left > 0 {
        let least = zigzag(&mut bytes)?;
        for width in take(&mut bytes, parts)? {
            let values = left.min(part);
            if values == 0 {
                break;
            }
            let width = usize::from(*width);
            if width > 64 {
                return Err("a difference has more than 64 bits");
            }
            unpack(bytes, width, values, |difference| {
                last = last
                    .wrapping_add(least)
                    .wrapping_add(difference.cast_signed());
                push(last);
            })?;
            bytes = bytes.get(width * part / 8..).unwrap_or_default();
            left -= values;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(bytes: &[u8], width: u8, count: usize) -> Result<Vec<u32>> {
        let mut out = Vec::new();
        run_length(bytes, width, count, &mut out).map(|()| out)
    }

    fn deltas(bytes: &[u8], count: usize) -> Result<Vec<i64>> {
        let mut out = Vec::new();
        delta(bytes, count, |value| out.push(value)).map(|()| out)
    }

    #[test]
    fn runs_and_packed_groups_mix() {
        // Four times 5, then 0..8 in three bits each (the example of the format's description).
        let bytes = [8, 5, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(
            runs(&bytes, 3, 12).unwrap(),
            [5, 5, 5, 5, 0, 1, 2, 3, 4, 5, 6, 7]
        );
        assert_eq!(runs(&bytes, 3, 6).unwrap(), [5, 5, 5, 5, 0, 1]);
        assert_eq!(
            runs(&bytes[..4], 3, 6).unwrap(),
            [5, 5, 5, 5, 0, 1],
            "a group cut after the values that count"
        );
        assert!(runs(&bytes[..4], 3, 7).is_err());
        assert!(runs(&bytes, 3, 13).is_err());
        assert!(runs(&[0, 5], 3, 1).is_err());
        assert!(runs(&[2, 5], 33, 1).is_err());
        assert!(runs(&[0xff; 20], 3, 1).is_err());
        assert_eq!(runs(&[], 3, 0).unwrap(), [0; 0]);
        assert_eq!(runs(&[6], 0, 3).unwrap(), [0, 0, 0], "no bits, all zero");
    }

    #[test]
    fn deltas_are_added_up() {
        // 7, 5, 3, 1, 2, 3, 4, 5: the example of the format's description, in blocks of 128 and 4 parts.
        let bytes = [
            128,
            1,
            4,
            8,
            14,
            3,
            2,
            0,
            0,
            0,
            0b1100_0000,
            0b0011_1111,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        assert_eq!(deltas(&bytes, 8).unwrap(), [7, 5, 3, 1, 2, 3, 4, 5]);
        assert!(deltas(&bytes[..11], 8).is_err());
        assert!(deltas(&bytes, 9).is_err(), "more than the header says");
        assert_eq!(deltas(&[128, 1, 4, 0, 0], 0).unwrap(), [0; 0]);
        for header in [
            [0, 0, 0, 8, 14],
            [128, 1, 0, 8, 14],
            [128, 1, 8, 8, 14],
            [127, 0, 1, 8, 14],
        ] {
            assert!(deltas(&header, 8).is_err(), "{header:?}");
        }
    }

    #[test]
    fn numbers_of_64_bits_are_unpacked_at_any_bit() {
        let mut out = Vec::new();
        unpack(&[0xff; 17], 63, 2, |value| out.push(value)).unwrap();
        assert_eq!(out, [u64::MAX >> 1; 2]);
        assert!(unpack(&[0xff; 15], 64, 2, |_| ()).is_err());
    }
}
