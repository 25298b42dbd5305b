//! Where exceptions land: the tables that `.eh_frame` points to (LSDA).
use super::Image;

/// `DW_EH_PE_omit`.
const OMIT: u8 = 0xff;
/// Landing pads of one function that are read at most: a limit for damaged tables.
const MAX_CALL_SITES: usize = 1 << 20;

/// Calls `found` with the stated address of every landing pad of the file.
pub(super) fn each(image: &Image<'_>, mut found: impl FnMut(u64)) {
    for function in image.described() {
        if let Some(table) = function.landing_pads {
            // A table that is cut short ends there: it would end there for the unwinder, too.
            let _ = pads(image, table, function.start, &mut found);
        }
    }
}

fn pads(image: &Image<'_>, table: u64, function: u64, found: &mut impl FnMut(u64)) -> Option<()> {
    let mut reader = Reader {
        bytes: image.file().bytes_from(table)?,
        stated: table,
    };
    let base = match reader.byte()? {
        OMIT => function,
        encoding => reader.pointer(encoding)?,
    };
    if reader.byte()? != OMIT {
        reader.uleb128()?;
    }
    let encoding = reader.byte()?;
    let len = usize::try_from(reader.uleb128()?).ok()?;
    let mut sites = Reader {
        bytes: reader.bytes.get(..len)?,
        stated: reader.stated,
    };
    for _ in 0..MAX_CALL_SITES {
        sites.pointer(encoding)?;
        sites.pointer(encoding)?;
        let pad = sites.pointer(encoding)?;
        sites.uleb128()?;
        if pad != 0 {
            found(base.wrapping_add(pad));
        }
    }
    None
}

struct Reader<'data> {
    bytes: &'data [u8],
    /// Stated address of the next byte.
    stated: u64,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[b]| b)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = tail;
        self.stated += N as u64;
        Some(*head)
    }

    fn uleb128(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A pointer of the encodings that compilers use: absolute or relative to itself.
    fn pointer(&mut self, encoding: u8) -> Option<u64> {
        let at = self.stated;
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => u64::from_le_bytes(self.take()?),
            0x01 => self.uleb128()?,
            0x02 => u64::from(u16::from_le_bytes(self.take()?)),
            0x03 => u64::from(u32::from_le_bytes(self.take()?)),
            0x0b => i64::from(i32::from_le_bytes(self.take()?)) as u64,
            _ => return None,
        };
        match encoding & 0x70 {
            0x00 => Some(value),
            0x10 if value != 0 => Some(at.wrapping_add(value)),
            0x10 => Some(0),
            _ => None,
        }
    }
}
