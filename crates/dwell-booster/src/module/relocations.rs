//! What the loader would write where.
use super::{Array, Module};
use object::elf;

/// One relocation of a module. Those of `DT_RELR` come as `R_X86_64_RELATIVE` with their addend read
/// from the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relocation {
    /// Stated address of the place.
    pub stated: u64,
    pub kind: u32,
    /// Index in the module's dynamic symbol table; 0 for none.
    pub symbol: u32,
    pub addend: i64,
}

const ENTRY: u64 = 24;
/// Most relocations that are read of one file; the largest compiler's libraries have 600 000. Packed ones
/// take 63 times the memory that they take in the file.
const MAX_RELOCATIONS: usize = 1 << 22;
const TOO_MANY: &str = "it has more relocations than any real file";

/// All relocations of a module, in the loader's order.
pub(crate) fn relocations(module: &Module<'_>) -> Result<Vec<Relocation>, &'static str> {
    let mut found = relative(module)?;
    let dynamic = &module.dynamic;
    // Some linkers let DT_RELA cover the PLT's relocations as well.
    let shared = dynamic.jump_rela.size > 0
        && dynamic.jump_rela.stated >= dynamic.rela.stated
        && dynamic.jump_rela.stated < dynamic.rela.stated.saturating_add(dynamic.rela.size);
    let rela_size = if shared {
        dynamic.jump_rela.stated - dynamic.rela.stated
    } else {
        dynamic.rela.size
    };
    let rela = Array {
        size: rela_size,
        ..dynamic.rela
    };
    read_table(module, rela, &mut found)?;
    read_table(module, dynamic.jump_rela, &mut found)?;
    Ok(found)
}

fn read_table(
    module: &Module<'_>,
    table: Array,
    found: &mut Vec<Relocation>,
) -> Result<(), &'static str> {
    if table.size == 0 {
        return Ok(());
    }
    let len = usize::try_from(table.size).map_err(|_| "its relocations lie outside of the file")?;
    let bytes = module.elf.bytes_at(table.stated, len);
    let bytes = bytes.ok_or("its relocations lie outside of the file")?;
    let (entries, _) = bytes.as_chunks::<{ ENTRY as usize }>();
    if entries.len() > MAX_RELOCATIONS {
        return Err(TOO_MANY);
    }
    found.extend(entries.iter().map(|entry| {
        let (words, _) = entry.as_chunks::<8>();
        let info = u64::from_le_bytes(words[1]);
        Relocation {
            stated: u64::from_le_bytes(words[0]),
            kind: info as u32,
            symbol: (info >> 32) as u32,
            addend: i64::from_le_bytes(words[2]),
        }
    }));
    Ok(())
}

/// The relocations of `DT_RELR`: an address, then bitmaps of the 63 words after the last place.
fn relative(module: &Module<'_>) -> Result<Vec<Relocation>, &'static str> {
    let table = module.dynamic.relr;
    if table.size == 0 {
        return Ok(Vec::new());
    }
    let outside = "its relative relocations lie outside of the file";
    let len = usize::try_from(table.size).map_err(|_| outside)?;
    let bytes = module.elf.bytes_at(table.stated, len).ok_or(outside)?;
    let (words, _) = bytes.as_chunks::<8>();
    let mut found = Vec::new();
    let mut place = |stated: u64| {
        found.push(Relocation {
            stated,
            kind: elf::R_X86_64_RELATIVE.0,
            symbol: 0,
            addend: module.word(stated) as i64,
        });
    };
    let mut next = 0u64;
    let ones = |w: &[u8; 8]| u64::from_le_bytes(*w).count_ones() as usize;
    if words.iter().map(ones).sum::<usize>() > MAX_RELOCATIONS {
        return Err(TOO_MANY);
    }
    for word in words.iter().map(|w| u64::from_le_bytes(*w)) {
        if word & 1 == 0 {
            place(word);
            next = word.wrapping_add(8);
            continue;
        }
        for bit in 1..64 {
            if word >> bit & 1 != 0 {
                place(next.wrapping_add(8 * (bit - 1)));
            }
        }
        next = next.wrapping_add(8 * 63);
    }
    Ok(found)
}
