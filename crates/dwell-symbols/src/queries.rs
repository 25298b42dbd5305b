//! The addresses that want names, sorted, and a limit on the work their answers may cost.
use std::ops::Range;

/// Most visits to single addresses that one file may cause.
///
/// Real tables visit each address a few times. A hostile one whose entries all cover everything
/// would cost entries × addresses; it is cut off here, at about a tenth of a second of work.
const MAX_VISITS: u64 = 50_000_000;

/// Distinct addresses in ascending order.
pub(crate) struct Queries {
    sorted: Vec<u64>,
    visits_left: u64,
}

impl Queries {
    /// The distinct ones of `addresses`, sorted.
    pub(crate) fn new(addresses: &[u64]) -> Self {
        let mut sorted = addresses.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        Self {
            sorted,
            visits_left: MAX_VISITS,
        }
    }

    /// All addresses.
    pub(crate) fn all(&self) -> &[u64] {
        &self.sorted
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Index of the first address that is not below `address`; `len()` when there is none.
    pub(crate) fn first_from(&self, address: u64) -> usize {
        self.sorted.partition_point(|&a| a < address)
    }

    /// Indices of the addresses in `start..end`.
    pub(crate) fn within(&self, start: u64, end: u64) -> Range<usize> {
        let first = self.first_from(start);
        if end <= start {
            return first..first;
        }
        let count = self.sorted[first..].partition_point(|&a| a < end);
        first..first + count
    }

    /// As [`within`](Self::within), counting towards the limit: empty once that is used up.
    pub(crate) fn visit(&mut self, start: u64, end: u64) -> Range<usize> {
        let range = self.within(start, end);
        match self.visits_left.checked_sub(range.len() as u64) {
            Some(left) => {
                self.visits_left = left;
                range
            }
            None => {
                self.visits_left = 0;
                range.start..range.start
            }
        }
    }

    /// Index of `address`, which must be one of them.
    pub(crate) fn index(&self, address: u64) -> Option<usize> {
        self.sorted.binary_search(&address).ok()
    }

    /// Spreads answers given in sorted order over `addresses` in their own order.
    pub(crate) fn spread<T: Clone + Default>(&self, addresses: &[u64], answers: &[T]) -> Vec<T> {
        addresses
            .iter()
            .map(|&a| {
                self.index(a)
                    .and_then(|i| answers.get(i))
                    .cloned()
                    .unwrap_or_default()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open() {
        let q = Queries::new(&[30, 10, 20, 20]);
        assert_eq!(q.all(), [10, 20, 30]);
        assert_eq!(q.within(10, 30), 0..2);
        assert_eq!(q.within(11, 20), 1..1);
        assert_eq!(q.within(30, 10), 2..2);
        assert_eq!(q.within(0, u64::MAX), 0..3);
        assert_eq!(q.spread(&[30, 10, 30], &["a", "b", "c"]), ["c", "a", "c"]);
    }

    #[test]
    fn visits_are_limited() {
        let mut q = Queries::new(&(0..1000).collect::<Vec<_>>());
        let mut total = 0u64;
        for _ in 0..MAX_VISITS / 1000 + 10 {
            total += q.visit(0, 1000).len() as u64;
        }
        assert_eq!(total, MAX_VISITS);
    }
}
