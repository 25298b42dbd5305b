//! Medians, and bootstrap intervals of medians.

/// A median with the interval that holds it with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// Median of the observations.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Resamples drawn for an interval: enough that its ends move by less than what is printed.
const RESAMPLES: usize = 4000;

/// Median of the values; NaN when there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Median and its 95 % percentile bootstrap interval. The same values give the same answer.
pub fn estimate(values: &[f64]) -> Estimate {
    let mut random = SplitMix(values.len() as u64);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let resample: Vec<f64> = values
                .iter()
                .map(|_| values[random.below(values.len())])
                .collect();
            median(&resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians[(share * (RESAMPLES - 1) as f64).round() as usize];
    Estimate {
        median: median(values),
        low: at(0.025),
        high: at(0.975),
    }
}

/// Each run divided by, and each run less, the mean of its two neighbours.
pub struct Paired {
    /// run ÷ neighbours.
    pub ratios: Vec<f64>,
    /// run − neighbours, in the unit of the values.
    pub differences: Vec<f64>,
}

/// Pairs each `(before, run, after)`.
pub fn pair(triples: &[(f64, f64, f64)]) -> Paired {
    let base = |t: &(f64, f64, f64)| (t.0 + t.2) / 2.0;
    Paired {
        ratios: triples.iter().map(|t| t.1 / base(t)).collect(),
        differences: triples.iter().map(|t| t.1 - base(t)).collect(),
    }
}

/// A small generator of random numbers (splitmix64), seeded so that reports can be reproduced.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn an_interval_holds_the_median_and_narrows_with_more_values() {
        let spread = |n: usize| {
            let values: Vec<f64> = (0..n)
                .map(|i| 1.0 + (i * 7 % n) as f64 / n as f64 / 10.0)
                .collect();
            let e = estimate(&values);
            assert!(e.low <= e.median && e.median <= e.high, "{e:?}");
            e.high - e.low
        };
        assert!(spread(200) < spread(8));
    }

    #[test]
    fn a_steady_drift_cancels_out() {
        // Each run is 1 % slower than the one before; the tool costs nothing.
        let triples: Vec<_> = (0..5)
            .map(|i| (100.0 - i as f64, 99.5 - i as f64, 99.0 - i as f64))
            .collect();
        let paired = pair(&triples);
        assert_eq!(median(&paired.ratios), 1.0);
        assert_eq!(median(&paired.differences), 0.0);
    }
}
