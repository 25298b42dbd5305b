//! Call frame information: all modules' in one section, with one sorted table.
//!
//! Debuggers and profilers read one `.eh_frame` from its beginning to its end, so every module's
//! entries are copied behind each other. What is told by distances is corrected for the move.
use crate::closure::Closure;
use crate::layout::Layout;
use crate::module::Module;
use crate::u32_at;
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection as _};

/// Call frame information of all modules, for a certain address.
#[derive(Debug, Default)]
pub(crate) struct CallFrames {
    /// `.eh_frame`, ended by a zero word.
    pub bytes: Vec<u8>,
    /// (first instruction, entry), image addresses, sorted.
    pub table: Vec<(u64, u64)>,
}

/// One module's entries in its own file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'data> {
    pub stated: u64,
    pub bytes: &'data [u8],
}

const PC_RELATIVE: u8 = 0x10;
const OMITTED: u8 = 0xff;

impl CallFrames {
    /// Copies the entries of all merged modules to the image address `at`, and those of functions that are copied:
    /// (original, copy), image addresses.
    pub(crate) fn at(
        at: u64,
        closure: &Closure<'_>,
        layout: &Layout,
        copies: impl Iterator<Item = (u64, u64)>,
    ) -> Result<Self, (usize, &'static str)> {
        let mut frames = CallFrames::default();
        for (index, base) in layout.placed() {
            let module = &closure.modules[index];
            let Some(block) = block(module).map_err(|why| (index, why))? else {
                continue;
            };
            frames
                .append(module, block, base, at)
                .map_err(|why| (index, why))?;
        }
        frames.table.sort_unstable();
        for (original, copy) in copies {
            frames.copy(at, original, copy).map_err(|why| (0, why))?;
        }
        frames.bytes.extend([0; 4]);
        frames.table.sort_unstable();
        Ok(frames)
    }

    fn append(
        &mut self,
        module: &Module<'_>,
        block: Block<'_>,
        base: u64,
        at: u64,
    ) -> Result<(), &'static str> {
        // No padding: zeroes between two modules' entries would end the section.
        let start = self.bytes.len();
        self.bytes.extend_from_slice(block.bytes);
        let mover = Mover {
            old: block.stated + base,
            new: at + start as u64,
        };
        let mut position = 0;
        while let Some(entry) = Entry::at(block.bytes, position)? {
            if let Some(pc) = mover.entry(&mut self.bytes[start..], &entry)? {
                let stated = pc.wrapping_sub(base);
                if module
                    .segments
                    .iter()
                    .any(|s| s.executable && s.stated_address <= stated && stated < s.stated_end())
                {
                    self.table.push((pc, mover.new + position as u64));
                }
            }
            position = entry.end;
        }
        Ok(())
    }

    /// Adds an entry for a copied function: the original's, for another first instruction. What it says in distances
    /// from that, as handler tables do, stays.
    fn copy(&mut self, at: u64, original: u64, copy: u64) -> Result<(), &'static str> {
        let found = self.table.partition_point(|&(pc, _)| pc < original);
        let &(_, entry) = self
            .table
            .get(found)
            .filter(|e| e.0 == original)
            .ok_or(DAMAGED)?;
        let old = (entry - at) as usize;
        let Some(entry) = Entry::at(&self.bytes, old)? else {
            return Err(DAMAGED);
        };
        let cie = entry.cie.ok_or(DAMAGED)?;
        let new = self.bytes.len();
        self.bytes.extend_from_within(old..entry.end);
        let moved = Entry {
            id: new + 4,
            end: self.bytes.len(),
            cie: Some(cie),
        };
        let back = (moved.id - cie) as u32;
        self.bytes[moved.id..moved.id + 4].copy_from_slice(&back.to_le_bytes());
        let mover = Mover {
            old: at + old as u64 - new as u64,
            new: at,
        };
        mover.entry(&mut self.bytes, &moved)?;
        let width = width(encodings(&self.bytes, cie)?.code)?;
        let word = &mut self.bytes[moved.id + 4..moved.id + 4 + width];
        let mut pc = [0; 8];
        pc[..width].copy_from_slice(word);
        let pc = u64::from_le_bytes(pc).wrapping_add(copy.wrapping_sub(original));
        word.copy_from_slice(&pc.to_le_bytes()[..width]);
        self.table.push((copy, at + new as u64));
        Ok(())
    }

    /// `.eh_frame_hdr` for the image address `at`, of a section at `frames`.
    pub(crate) fn header(&self, at: u64, frames: u64) -> Vec<u8> {
        let mut bytes = vec![1, 0x1b, 0x03, 0x3b];
        let distance = |to: u64, from: u64| (to.wrapping_sub(from) as u32).to_le_bytes();
        bytes.extend(distance(frames, at + 4));
        bytes.extend((self.table.len() as u32).to_le_bytes());
        for &(pc, entry) in &self.table {
            bytes.extend(distance(pc, at));
            bytes.extend(distance(entry, at));
        }
        bytes
    }
}

/// A module's entries, without the zero word that ends them.
pub(crate) fn block<'data>(module: &Module<'data>) -> Result<Option<Block<'data>>, &'static str> {
    let bad = "its .eh_frame_hdr is damaged";
    let Some(at) = module.eh_frame_hdr else {
        return Ok(None);
    };
    let header = module.elf.bytes_at(at, 8).ok_or(bad)?;
    if header[0] != 1 || header[1] != 0x1b {
        return Err("its .eh_frame_hdr has an unusual encoding");
    }
    let distance = i32::from_le_bytes(header[4..8].try_into().expect("4 bytes"));
    let stated = (at + 4).wrapping_add_signed(distance.into());
    let bytes = module.elf.bytes_from(stated).ok_or(bad)?;
    let mut end = 0;
    while let Some(entry) = Entry::at(bytes, end)? {
        end = entry.end;
    }
    let bytes = &bytes[..end];
    Ok(Some(Block { stated, bytes }))
}

/// An entry's place within its block.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where the word is that is 0 in a CIE, and leads to the CIE in an FDE.
    id: usize,
    end: usize,
    /// The CIE of an FDE.
    cie: Option<usize>,
}

const DAMAGED: &str = "its call frame information is damaged";

impl Entry {
    fn at(bytes: &[u8], position: usize) -> Result<Option<Entry>, &'static str> {
        let Some(length) = u32_at(bytes, position) else {
            return Ok(None);
        };
        if length == 0 {
            return Ok(None);
        }
        if length == u32::MAX {
            return Err("its call frame information has 64-bit lengths");
        }
        let id = position + 4;
        let end = id + length as usize;
        let back = u32_at(bytes, id)
            .filter(|_| end <= bytes.len())
            .ok_or(DAMAGED)? as usize;
        let cie = match back {
            0 => None,
            _ => Some(id.checked_sub(back).ok_or(DAMAGED)?),
        };
        Ok(Some(Entry { id, end, cie }))
    }
}

/// What a CIE says about the pointers of its FDEs.
#[derive(Clone, Copy, Debug)]
struct Encodings {
    code: u8,
    handler_table: u8,
    /// Whether FDEs have augmentation data.
    augmented: bool,
    /// Encoding and place of the personality function.
    personality: Option<(u8, usize)>,
}

/// Corrects the pointers of a block that was moved.
struct Mover {
    old: u64,
    new: u64,
}

impl Mover {
    /// Corrects an entry in the copy; tells the image address of an FDE's first instruction.
    fn entry(&self, bytes: &mut [u8], entry: &Entry) -> Result<Option<u64>, &'static str> {
        let Some(cie) = entry.cie else {
            let encodings = encodings(bytes, entry.id - 4)?;
            if let Some((encoding, at)) = encodings.personality {
                self.pointer(bytes, at, encoding)?;
            }
            return Ok(None);
        };
        let encodings = encodings(bytes, cie)?;
        let at = entry.id + 4;
        let (pc, width) = self.pointer(bytes, at, encodings.code)?;
        if encodings.augmented && encodings.handler_table != OMITTED {
            let mut cursor = Cursor {
                bytes,
                at: at + 2 * width,
            };
            let len = cursor.uleb().ok_or(DAMAGED)?;
            let at = cursor.at;
            if len > 0 {
                self.pointer(bytes, at, encodings.handler_table)?;
            }
        }
        Ok(Some(pc))
    }

    /// Corrects one pointer; gives its image address and its width in bytes.
    fn pointer(
        &self,
        bytes: &mut [u8],
        at: usize,
        encoding: u8,
    ) -> Result<(u64, usize), &'static str> {
        let width = width(encoding)?;
        let raw = bytes.get_mut(at..at + width).ok_or(DAMAGED)?;
        let value = match width {
            4 => {
                let word = u32::from_le_bytes((&*raw).try_into().expect("4 bytes"));
                match encoding & 0x0f {
                    0x0b => i64::from(word as i32) as u64,
                    _ => word.into(),
                }
            }
            _ => u64::from_le_bytes((&*raw).try_into().expect("8 bytes")),
        };
        if value == 0 {
            return Ok((0, width));
        }
        if encoding & 0x70 != PC_RELATIVE {
            return Ok((value, width));
        }
        let place = self.old + at as u64;
        let moved = value.wrapping_add(self.old).wrapping_sub(self.new);
        raw.copy_from_slice(&moved.to_le_bytes()[..width]);
        Ok((place.wrapping_add(value), width))
    }
}

fn width(encoding: u8) -> Result<usize, &'static str> {
    let relative = matches!(encoding & 0x70, 0 | PC_RELATIVE);
    match encoding & 0x0f {
        0x03 | 0x0b if relative => Ok(4),
        0x00 | 0x04 | 0x0c if relative => Ok(8),
        _ => Err("its call frame information has pointers of an unusual encoding"),
    }
}

fn encodings(bytes: &[u8], cie: usize) -> Result<Encodings, &'static str> {
    let mut cursor = Cursor { bytes, at: cie + 8 };
    cursor.encodings().ok_or(DAMAGED)
}

/// Reads a CIE.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn encodings(&mut self) -> Option<Encodings> {
        let mut found = Encodings {
            code: 0,
            handler_table: OMITTED,
            augmented: false,
            personality: None,
        };
        let version = self.byte()?;
        let mut letters = Vec::new();
        loop {
            match self.byte()? {
                0 => break,
                letter => letters.push(letter),
            }
        }
        self.uleb()?;
        self.uleb()?;
        match version {
            1 => u64::from(self.byte()?),
            _ => self.uleb()?,
        };
        if letters.first() != Some(&b'z') {
            return Some(found);
        }
        found.augmented = true;
        self.uleb()?;
        for letter in &letters[1..] {
            match letter {
                b'R' => found.code = self.byte()?,
                b'L' => found.handler_table = self.byte()?,
                b'P' => {
                    let encoding = self.byte()?;
                    found.personality = Some((encoding, self.at));
                    self.at += width(encoding).ok()?;
                }
                // Signal frames, and pointers' keys of other processors: no data.
                b'S' | b'B' | b'G' => {}
                _ => return None,
            }
        }
        Some(found)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// What an entry of call frame information says that a move could spoil: first instruction, bytes of
/// code, handler table, personality function.
pub(crate) type Frame = (u64, u64, Option<gimli::Pointer>, Option<gimli::Pointer>);

/// The entries of a module as gimli reads them, moved by `base`.
pub(crate) fn frames(module: &Module<'_>, base: u64) -> Result<Vec<Frame>, String> {
    let Some(block) = block(module).map_err(str::to_owned)? else {
        return Ok(Vec::new());
    };
    let mut section = EhFrame::from(EndianSlice::new(block.bytes, LittleEndian));
    section.set_address_size(8);
    // The section is read where it will be, so that all distances lead to image addresses.
    let bases = BaseAddresses::default().set_eh_frame(block.stated.wrapping_add(base));
    let mut entries = section.entries(&bases);
    let mut frames = Vec::new();
    while let Some(entry) = entries.next().map_err(|e| e.to_string())? {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let fde = partial
            .parse(EhFrame::cie_from_offset)
            .map_err(|e| e.to_string())?;
        frames.push((
            fde.initial_address(),
            fde.len(),
            fde.lsda(),
            fde.personality(),
        ));
    }
    Ok(frames)
}
