//! The probability with which a wait is sampled, and so what it stands for.

/// Probability that a wait of `duration` ns covers at least one cut of its thread's time.
///
/// Cuts are a stationary renewal process with gaps uniform in [P/2, 3P/2]; the forward recurrence
/// time has density (1 − F(u)) / P, whose integral up to the duration this is (Cox, Renewal Theory,
/// 1962, section 5.1).
pub fn inclusion_probability(duration: u64, period: u64) -> f64 {
    let x = duration as f64 / period as f64;
    if x <= 0.5 {
        x
    } else if x < 1.5 {
        // 1/2 plus the integral of (3/2 - u) from 1/2 to x.
        0.5 + 1.5 * (x - 0.5) - (x * x - 0.25) / 2.0
    } else {
        1.0
    }
}

/// Thread time, ns, that a sampled wait stands for (Horvitz-Thompson).
pub fn weight(duration: u64, period: u64) -> u64 {
    if duration == 0 {
        return 0;
    }
    (duration as f64 / inclusion_probability(duration, period)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probability_is_continuous_and_rises_to_one() {
        let p = 1_000_000;
        assert!((inclusion_probability(p / 2, p) - 0.5).abs() < 1e-9);
        assert!((inclusion_probability(p / 2 + 1, p) - 0.5).abs() < 1e-5);
        assert!((inclusion_probability(p * 3 / 2 - 1, p) - 1.0).abs() < 1e-5);
        assert_eq!(inclusion_probability(p * 3, p), 1.0);
        assert_eq!(weight(1000, p), p, "a short wait stands for a period");
        assert_eq!(weight(5 * p, p), 5 * p, "a long wait stands for itself");
    }

    /// The kernel side's cuts, simulated: every interval is met with the stated probability.
    #[test]
    fn renewal_process_meets_intervals_with_that_probability() {
        let (period, mut seed) = (1_000_000u64, 88172645463325252u64);
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 11) as f64 / (1u64 << 53) as f64
        };
        for duration in [100_000u64, 400_000, 700_000, 1_000_000, 1_400_000] {
            let (mut hits, trials) = (0, 60_000);
            let mut next = random() * period as f64;
            let mut now = 0.0;
            for _ in 0..trials {
                now += 3_000_000.0 * random(); // some other activity
                while next <= now {
                    next += period as f64 * (0.5 + random());
                }
                let end = now + duration as f64;
                if next <= end {
                    hits += 1;
                }
                now = end;
                while next <= now {
                    next += period as f64 * (0.5 + random());
                }
            }
            let (p, q) = (
                inclusion_probability(duration, period),
                hits as f64 / trials as f64,
            );
            let error = 4.0 * (p * (1.0 - p) / trials as f64).sqrt() + 1e-9;
            assert!((p - q).abs() < error, "{duration}: {p} {q}");
        }
    }
}
