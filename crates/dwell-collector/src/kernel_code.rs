//! Code that comes and goes while the kernel runs: BPF programs (our own too), trampolines. By the
//! time names are looked for it may be gone, so its names are taken down when it comes.
use std::collections::BTreeMap;

/// A piece of such code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// When it came or went, ns of CLOCK_BOOTTIME.
    pub time: u64,
    /// First address.
    pub start: u64,
    /// First address past the end.
    pub end: u64,
    /// Its name, as in `/proc/kallsyms`.
    pub name: String,
}

/// All of it that was there at some time of the recording.
#[derive(Default)]
pub struct KernelCode(BTreeMap<u64, KernelSymbol>);

impl KernelCode {
    /// Takes down pieces, in the order of their times.
    pub fn extend(&mut self, mut symbols: Vec<KernelSymbol>) {
        symbols.sort_by_key(|s| s.time);
        symbols.into_iter().for_each(|symbol| self.add(symbol));
    }

    /// Takes down a piece. Each processor reports for itself, and one may tell late, perhaps after others have been
    /// asked again: who came later keeps its place.
    fn add(&mut self, symbol: KernelSymbol) {
        let mut later = self.overlapping(&symbol);
        later.retain(|piece| piece.time > symbol.time);
        later.sort_by_key(|piece| piece.time);
        self.put(symbol);
        later.into_iter().for_each(|piece| self.put(piece));
    }

    /// The pieces, or what is left of them, at a piece's place.
    fn overlapping(&self, symbol: &KernelSymbol) -> Vec<KernelSymbol> {
        let before = self.0.range(..symbol.end).rev();
        let overlapping = before.take_while(|(_, piece)| piece.end > symbol.start);
        overlapping.map(|(_, piece)| piece.clone()).collect()
    }

    /// Puts a piece to its place. Of others there, what is outside of it is left.
    fn put(&mut self, symbol: KernelSymbol) {
        for piece in self.overlapping(&symbol) {
            self.0.remove(&piece.start);
            if piece.start < symbol.start {
                let end = symbol.start;
                let left = KernelSymbol {
                    end,
                    ..piece.clone()
                };
                self.0.insert(left.start, left);
            }
            if piece.end > symbol.end {
                let start = symbol.end;
                self.0.insert(start, KernelSymbol { start, ..piece });
            }
        }
        self.0.insert(symbol.start, symbol);
    }

    /// The piece that holds an address.
    pub fn find(&self, address: u64) -> Option<&KernelSymbol> {
        let (_, symbol) = self.0.range(..=address).next_back()?;
        (address < symbol.end).then_some(symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(start: u64, end: u64, name: &str) -> KernelSymbol {
        let name = name.into();
        KernelSymbol {
            time: 0,
            start,
            end,
            name,
        }
    }

    #[test]
    fn an_address_belongs_to_the_last_piece_that_held_it() {
        let mut code = KernelCode::default();
        code.add(symbol(100, 200, "first"));
        code.add(symbol(300, 400, "other"));
        let name = |code: &KernelCode, at| code.find(at).map(|s| s.name.clone());
        assert_eq!(name(&code, 99), None);
        assert_eq!(name(&code, 100).as_deref(), Some("first"));
        assert_eq!(name(&code, 200), None);
        code.add(symbol(150, 320, "second"));
        assert_eq!(name(&code, 120).as_deref(), Some("first"), "gone by then");
        assert_eq!(name(&code, 150).as_deref(), Some("second"));
        assert_eq!(name(&code, 319).as_deref(), Some("second"));
        assert_eq!(name(&code, 350).as_deref(), Some("other"));
        code.add(symbol(200, 210, "inmost"));
        assert_eq!(name(&code, 199).as_deref(), Some("second"));
        assert_eq!(name(&code, 205).as_deref(), Some("inmost"));
        assert_eq!(name(&code, 210).as_deref(), Some("second"));
        code.add(symbol(400, 500, "behind"));
        assert_eq!(name(&code, 319).as_deref(), Some("second"));
        assert_eq!(name(&code, 400).as_deref(), Some("behind"));
    }

    #[test]
    fn reports_count_in_the_order_of_their_times() {
        let mut code = KernelCode::default();
        let at = |time, name| KernelSymbol {
            time,
            ..symbol(100, 200, name)
        };
        code.extend(vec![at(2, "probe gone"), at(3, "program"), at(1, "probe")]);
        assert_eq!(code.find(150).expect("a piece").name, "program");
        // Another processor's report, read later.
        code.extend(vec![at(2, "probe gone")]);
        assert_eq!(code.find(150).expect("a piece").name, "program");
        code.extend(vec![at(4, "next")]);
        assert_eq!(code.find(150).expect("a piece").name, "next");
    }
}
