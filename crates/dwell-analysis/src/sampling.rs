//! The rule stacks are taken by.
//!
//! Each thread's time is cut at instants that do not depend on what the thread does: the gaps between
//! cuts are independent and uniform in [P/2, 3P/2], P being the mean period. A stay (a wait, or a run)
//! that a cut falls into has its stack taken. A stay of length `d` is therefore taken with probability
//! [`inclusion_probability`] π(d), and stands for `d / π(d)` of thread time (Horvitz-Thompson), which
//! makes every sum of weights unbiased.

/// Probability that a stay of `d_ns` is taken when the mean period is `period_ns`.
///
/// In the steady state the time to the next cut has the density `(1 - F(x)) / P`, F being the
/// distribution of the gaps, so π(d) = ∫₀ᵈ (1 - F(x)) / P dx:
///
/// - `d / P` up to P/2,
/// - `1 - (3P/2 - d)² / 2P²` up to 3P/2,
/// - 1 beyond.
pub fn inclusion_probability(d_ns: u64, period_ns: u64) -> f64 {
    if period_ns == 0 {
        return 1.0;
    }
    let ratio = d_ns as f64 / period_ns as f64;
    if ratio <= 0.5 {
        ratio
    } else if ratio < 1.5 {
        1.0 - (1.5 - ratio).powi(2) / 2.0
    } else {
        1.0
    }
}

/// Thread time that a taken stay of `d_ns` stands for, ns: `d / π(d)`, and a whole period for a stay
/// too short to measure.
pub fn weight_ns(d_ns: u64, period_ns: u64) -> u64 {
    match inclusion_probability(d_ns, period_ns) {
        p if p > 0.0 => (d_ns as f64 / p).round() as u64,
        _ => period_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probability_is_continuous_and_grows_to_one() {
        assert_eq!(inclusion_probability(0, 1000), 0.0);
        assert!((inclusion_probability(500, 1000) - 0.5).abs() < 1e-12);
        assert!((inclusion_probability(501, 1000) - 0.501).abs() < 1e-4);
        assert!((inclusion_probability(1499, 1000) - 1.0).abs() < 1e-5);
        assert_eq!(inclusion_probability(1500, 1000), 1.0);
    }

    #[test]
    fn short_stays_weigh_a_period_and_long_ones_themselves() {
        assert_eq!(weight_ns(0, 1000), 1000);
        assert_eq!(weight_ns(3, 1000), 1000);
        assert_eq!(weight_ns(9000, 1000), 9000);
    }
}
