//! Dividing an exact sum among weights without losing a nanosecond.

/// Divides `total` in proportion to `weights`, in equal shares when all weights are 0.
///
/// The shares add up to `total` exactly: each is the difference of two neighbouring rounded partial
/// sums, so no share is off by more than 1. Without weights there are no shares.
pub fn apportion(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|w| u128::from(*w)).sum();
    if sum == 0 {
        return equal_shares(total, weights.len());
    }
    // `total * partial` has to fit 128 bits.
    let shift = (128 - sum.leading_zeros()).saturating_sub(64);
    let whole = sum >> shift;
    let mut partial = 0u128;
    let mut given = 0u64;
    weights
        .iter()
        .map(|weight| {
            partial += u128::from(*weight);
            // Rounded to the nearest: a last weight of next to nothing gets nothing.
            let upto = ((u128::from(total) * (partial >> shift) + whole / 2) / whole) as u64;
            let share = upto - given;
            given = upto;
            share
        })
        .collect()
}

/// `amount * part / whole`, rounded down; none when the whole is 0, and as much as fits.
pub fn scaled(amount: u64, part: u64, whole: u64) -> Option<u64> {
    let product = u128::from(amount) * u128::from(part);
    let scaled = product.checked_div(u128::from(whole))?;
    Some(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// The sum, or as much as fits: numbers of damaged recordings may be anything.
pub fn total(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}

fn equal_shares(total: u64, count: usize) -> Vec<u64> {
    let count_wide = count as u128;
    let upto = |i: usize| (u128::from(total) * i as u128 / count_wide) as u64;
    (0..count).map(|i| upto(i + 1) - upto(i)).collect()
}

/// One piece of a [`transport`]: `amount` of supply `from` goes to demand `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Position in the supplies.
    pub from: usize,
    /// Position in the demands.
    pub to: usize,
    /// How much, never 0.
    pub amount: u64,
}

/// Matches supplies with demands of the same sum, in order, in at most `supplies + demands` pieces:
/// every supply is used up and every demand is met exactly.
pub fn transport(supplies: &[u64], demands: &[u64]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(supplies.len() + demands.len());
    let mut to = 0;
    let mut wanted = demands.first().copied().unwrap_or(0);
    for (from, supply) in supplies.iter().enumerate() {
        let mut left = *supply;
        while left > 0 && to < demands.len() {
            let amount = left.min(wanted);
            if amount > 0 {
                pieces.push(Piece { from, to, amount });
            }
            left -= amount;
            wanted -= amount;
            if wanted == 0 {
                to += 1;
                wanted = demands.get(to).copied().unwrap_or(0);
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_follow_the_weights() {
        assert_eq!(apportion(100, &[1, 1, 2]), [25, 25, 50]);
        assert_eq!(apportion(10, &[1, 1, 1]), [3, 4, 3]);
        assert_eq!(apportion(10, &[999, 0, 1]), [10, 0, 0]);
        assert_eq!(apportion(10, &[0, 0, 0]).iter().sum::<u64>(), 10);
        assert!(apportion(10, &[]).is_empty());
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let weights = [u64::MAX, u64::MAX, 1, u64::MAX];
        let shares = apportion(u64::MAX, &weights);
        assert_eq!(
            shares.iter().map(|s| u128::from(*s)).sum::<u128>(),
            u128::from(u64::MAX)
        );
        assert!(shares[0].abs_diff(u64::MAX / 3) < 4);
    }

    #[test]
    fn transport_meets_both_margins() {
        let pieces = transport(&[5, 0, 7], &[3, 4, 0, 5]);
        for (i, supply) in [5, 0, 7].iter().enumerate() {
            assert_eq!(
                pieces
                    .iter()
                    .filter(|p| p.from == i)
                    .map(|p| p.amount)
                    .sum::<u64>(),
                *supply
            );
        }
        for (i, demand) in [3, 4, 0, 5].iter().enumerate() {
            assert_eq!(
                pieces
                    .iter()
                    .filter(|p| p.to == i)
                    .map(|p| p.amount)
                    .sum::<u64>(),
                *demand
            );
        }
        assert!(pieces.len() <= 7);
    }
}
