//! The relocations that are left for the loader.
use super::symbols::SymbolTables;
use crate::layout::Layout;
use crate::values::{Value, Values};
use object::elf;

/// What is left to do at start.
#[derive(Debug, Default)]
pub(crate) struct Relocations {
    /// Entries of `DT_RELR`.
    pub relr: Vec<u64>,
    /// (place, type, symbol, addend) of `DT_RELA`: those without symbol first.
    pub rela: Vec<(u64, u32, u32, u64)>,
    /// How many of `rela` are relative.
    pub relative: usize,
    /// How many places `relr` covers.
    pub packed: usize,
    /// (place, number) to be written into the file.
    pub words: Vec<(u64, u64)>,
}

impl Relocations {
    /// `packing`: whether the loader knows `DT_RELR`.
    pub(crate) fn of(
        values: &Values,
        layout: &Layout,
        tables: &SymbolTables<'_>,
        packing: bool,
    ) -> Self {
        let mut left = Relocations::default();
        let mut packed = Vec::new();
        let (mut bound, mut indirect) = (Vec::new(), Vec::new());
        for (&place, &value) in &values.places {
            match value {
                Value::Constant(number) => left.words.push((place, number)),
                Value::Image(address) => {
                    left.words.push((place, address));
                    match packing && place % 8 == 0 {
                        _ if layout.fixed => {}
                        true => packed.push(place),
                        false => {
                            let kind = elf::R_X86_64_RELATIVE.0;
                            left.rela.push((place, kind, 0, address));
                        }
                    }
                }
                Value::Indirect(address) => {
                    indirect.push((place, elf::R_X86_64_IRELATIVE.0, 0, address));
                }
                Value::TlsDescriptor(offset) => {
                    bound.push((place, elf::R_X86_64_TLSDESC.0, 0, offset));
                }
                Value::Import {
                    kind,
                    import,
                    addend,
                } => {
                    let name = &values.imports[import].name;
                    let copied = kind == elf::R_X86_64_COPY.0;
                    let symbol = tables.export(name).filter(|_| copied);
                    let symbol = symbol.unwrap_or_else(|| tables.import(import));
                    bound.push((place, kind, symbol, addend as u64));
                }
            }
        }
        left.relative = left.rela.len();
        left.packed = packed.len();
        left.relr = pack(&packed);
        // The loader remembers its last lookup: one symbol's places stand together. Resolvers run
        // when all else is in place.
        bound.sort_by_key(|&(place, kind, symbol, _)| (symbol, kind, place));
        left.rela.extend(bound);
        left.rela.extend(indirect);
        left
    }

    /// `.rela.dyn`.
    pub(crate) fn rela_bytes(&self) -> Vec<u8> {
        let entry = |&(place, kind, symbol, addend): &(u64, u32, u32, u64)| {
            let info = u64::from(symbol) << 32 | u64::from(kind);
            [place, info, addend]
        };
        let words = self.rela.iter().flat_map(entry);
        words.flat_map(u64::to_le_bytes).collect()
    }
}

/// Places as `DT_RELR`: an address, then bitmaps of the 63 words that follow.
fn pack(places: &[u64]) -> Vec<u64> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(&place) = places.get(at) {
        words.push(place);
        at += 1;
        let mut next = place + 8;
        loop {
            let mut bits = 0u64;
            while let Some(&place) = places.get(at).filter(|&&p| p - next < 8 * 63) {
                bits |= 1 << ((place - next) / 8);
                at += 1;
            }
            if bits == 0 {
                break;
            }
            words.push(bits << 1 | 1);
            next += 8 * 63;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::pack;

    /// Unpacks by the specification's own words.
    fn unpack(words: &[u64]) -> Vec<u64> {
        let (mut places, mut next) = (Vec::new(), 0);
        for &word in words {
            if word & 1 == 0 {
                places.push(word);
                next = word + 8;
            } else {
                let bits = (0..63).filter(|bit| word >> (bit + 1) & 1 != 0);
                places.extend(bits.map(|bit| next + 8 * bit));
                next += 8 * 63;
            }
        }
        places
    }

    #[test]
    fn packed_places_unpack() {
        let places: Vec<u64> = (0..4000u64)
            .map(|i| 0x1000 + 8 * (i * i % 977 + i * 7))
            .collect();
        let mut places: Vec<u64> = places;
        places.sort_unstable();
        places.dedup();
        let words = pack(&places);
        assert_eq!(unpack(&words), places);
        assert!(words.len() < places.len() / 4);
    }
}
