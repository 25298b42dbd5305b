//! Work on many items with all processors, whose outcome does not depend on how many there are.
use std::num::NonZero;
use std::thread::{available_parallelism, scope};

/// Fewest items that are worth a thread of their own.
const WORTH_A_THREAD: usize = 256;

/// What `work` makes of the items, part by part, in their order.
///
/// The items are cut into as many parts as there are processors: what is made of a part must not depend on where it ends.
pub(crate) fn by_parts<T: Sync, R: Send>(items: &[T], work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let threads = available_parallelism().map_or(1, NonZero::get);
    let part = items.len().div_ceil(threads).max(WORTH_A_THREAD);
    let mut parts = items.chunks(part);
    let Some(first) = parts.next() else {
        return Vec::new();
    };
    scope(|scope| {
        let others: Vec<_> = parts.map(|part| scope.spawn(|| work(part))).collect();
        let mut made = vec![work(first)];
        for other in others {
            made.push(
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        made
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_in_order() {
        let items: Vec<usize> = (0..10_000).collect();
        let doubled = by_parts(&items, |part| {
            part.iter().map(|i| 2 * i).collect::<Vec<_>>()
        });
        assert!(
            doubled
                .concat()
                .iter()
                .copied()
                .eq((0..10_000).map(|i| 2 * i))
        );
        assert!(by_parts(&[0; 0], <[i32]>::len).is_empty());
    }
}
