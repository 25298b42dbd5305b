//! Whether a difference is more than chance.
use super::Change;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Probability that the true difference lies within the noise told.
const CONFIDENCE: f64 = 0.95;

/// What was measured on one side: a value and the variance that its sampling brings, for each recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Values {
    values: Vec<f64>,
    sampling: f64,
}

impl Values {
    pub fn push(&mut self, value: f64, sampling_variance: f64) {
        self.values.push(value);
        self.sampling += sampling_variance;
    }

    fn count(&self) -> f64 {
        self.values.len() as f64
    }

    fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.count().max(1.0)
    }

    /// Variance of the values; none of a single one.
    fn variance(&self) -> Option<f64> {
        let mean = self.mean();
        let squares: f64 = self.values.iter().map(|v| (v - mean).powi(2)).sum();
        (self.values.len() > 1).then(|| squares / (self.count() - 1.0))
    }

    /// Variance of the mean that sampling brings.
    fn sampling_of_mean(&self) -> f64 {
        self.sampling / self.count().max(1.0).powi(2)
    }
}

/// Compares both sides.
pub(super) fn change(before: &Values, after: &Values) -> Change {
    let (was, is) = (before.mean(), after.mean());
    let difference = is - was;
    let tests = [by_recordings(before, after), by_samples(before, after)];
    // Samples that happen to agree do not make the difference any surer than their number allows.
    let tests = tests.iter().flatten();
    let noise = tests
        .clone()
        .map(|test| test.half_width(CONFIDENCE))
        .reduce(f64::max);
    let chance = tests
        .map(|test| test.chance_of(difference))
        .reduce(f64::max);
    Change {
        before: was,
        after: is,
        difference,
        share: (was != 0.0).then(|| difference / was),
        noise,
        chance,
        significant: difference != 0.0 && chance.is_none_or(|chance| chance < 1.0 - CONFIDENCE),
    }
}

/// Of many changes looked at together, the greatest chance of those that are told as real, so that of these one in twenty
/// is not (Benjamini and Hochberg 1995). Changes that nothing is known of count as real.
pub(super) fn limit(changes: impl Iterator<Item = Option<f64>>) -> f64 {
    let mut chances: Vec<f64> = changes.flatten().collect();
    chances.sort_unstable_by(f64::total_cmp);
    let count = chances.len() as f64;
    let fits = |(place, chance): (usize, &f64)| {
        (*chance <= (1.0 - CONFIDENCE) * (place + 1) as f64 / count).then_some(*chance)
    };
    chances
        .iter()
        .enumerate()
        .rev()
        .find_map(fits)
        .unwrap_or(0.0)
}

/// How a difference that is chance alone is distributed: its standard error, and the degrees of freedom that this is known
/// with (none: it is known).
struct Test {
    error: f64,
    freedom: Option<f64>,
}

impl Test {
    fn half_width(&self, confidence: f64) -> f64 {
        let upper = 0.5 + confidence / 2.0;
        self.error
            * match self.freedom.and_then(student) {
                Some(t) => t.inverse_cdf(upper),
                None => Normal::standard().inverse_cdf(upper),
            }
    }

    /// Probability of a difference of this size or a greater one.
    fn chance_of(&self, difference: f64) -> f64 {
        if self.error == 0.0 {
            return if difference == 0.0 { 1.0 } else { 0.0 };
        }
        let errors = -(difference / self.error).abs();
        2.0 * match self.freedom.and_then(student) {
            Some(t) => t.cdf(errors),
            None => Normal::standard().cdf(errors),
        }
    }
}

fn student(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok()
}

/// Welch's t-test where both sides were repeated; where one was, the other's recordings are taken to differ as much.
fn by_recordings(before: &Values, after: &Values) -> Option<Test> {
    let (error, freedom) = match (before.variance(), after.variance()) {
        (Some(a), Some(b)) => {
            let (a, b) = (a / before.count(), b / after.count());
            let freedom = a.powi(2) / (before.count() - 1.0) + b.powi(2) / (after.count() - 1.0);
            ((a + b).sqrt(), (a + b).powi(2) / freedom)
        }
        (Some(variance), None) | (None, Some(variance)) => {
            let counts = 1.0 / before.count() + 1.0 / after.count();
            let freedom = before.count().max(after.count()) - 1.0;
            ((variance * counts).sqrt(), freedom)
        }
        (None, None) => return None,
    };
    Some(Test {
        error,
        freedom: Some(freedom),
    })
}

fn by_samples(before: &Values, after: &Values) -> Option<Test> {
    let variance = before.sampling_of_mean() + after.sampling_of_mean();
    (variance > 0.0).then(|| Test {
        error: variance.sqrt(),
        freedom: None,
    })
}

/// Variance of a time of `ns` that samples tell which stand for `sample_ns` each. Their number varies like a Poisson
/// distribution; one sample more, since few samples vary more than the normal distribution says.
pub(super) fn sampling_variance(ns: f64, sample_ns: f64) -> f64 {
    (ns + sample_ns) * sample_ns
}

/// Whether chance explains the difference of two sampled times.
pub(super) fn is_chance(before_ns: f64, after_ns: f64, variance: f64) -> bool {
    let test = Test {
        error: variance.sqrt(),
        freedom: None,
    };
    test.chance_of(after_ns - before_ns) > 1.0 - CONFIDENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(of: &[f64]) -> Values {
        let mut values = Values::default();
        of.iter().for_each(|v| values.push(*v, 0.0));
        values
    }

    /// Table of Student's t at 97.5 %: 2.776 for 4 degrees of freedom, 12.706 for 1.
    #[test]
    fn the_interval_is_welchs() {
        let got = change(&values(&[9.0, 10.0, 11.0]), &values(&[19.0, 20.0, 21.0]));
        let expected = 2.776 * (1.0f64 / 3.0 + 1.0 / 3.0).sqrt();
        assert!((got.noise.unwrap() - expected).abs() < 0.002, "{got:?}");
        assert_eq!((got.difference, got.share), (10.0, Some(1.0)));
        assert!(got.significant);
        let one = change(&values(&[9.0, 11.0]), &values(&[20.0]));
        let expected = 12.706 * (2.0f64 * 1.5).sqrt();
        assert!((one.noise.unwrap() - expected).abs() < 0.01, "{one:?}");
        assert!(!one.significant);
    }

    #[test]
    fn what_nothing_tells_of_has_no_noise() {
        let got = change(&values(&[1.0]), &values(&[3.0]));
        assert_eq!((got.noise, got.significant), (None, true));
        let same = change(&values(&[0.0]), &values(&[0.0]));
        assert_eq!((same.share, same.significant), (None, false));
        let equal = change(&values(&[2.0, 2.0]), &values(&[2.0, 2.0]));
        assert_eq!((equal.noise, equal.significant), (Some(0.0), false));
        let sure = change(&values(&[2.0, 2.0]), &values(&[3.0, 3.0]));
        assert_eq!((sure.noise, sure.significant), (Some(0.0), true));
    }

    #[test]
    fn few_samples_are_noise_however_well_they_agree() {
        let mut before = Values::default();
        let mut after = Values::default();
        for _ in 0..3 {
            before.push(100.0, 300.0);
            after.push(110.0, 300.0);
        }
        let got = change(&before, &after);
        let expected = 1.96 * (900.0f64 / 9.0 * 2.0).sqrt();
        assert!((got.noise.unwrap() - expected).abs() < 1e-3, "{got:?}");
        assert!(!got.significant);
    }

    /// Of differences that are chance alone, one in twenty is told as real.
    #[test]
    fn false_alarms_are_as_many_as_promised() {
        use dwell_analysis::testing::Rng;
        let mut random = Rng::new(7);
        let mut alarms = 0;
        const TRIES: usize = 4000;
        for _ in 0..TRIES {
            let mut draw = || {
                // Near enough a normal distribution: the sum of twelve even ones.
                let of: Vec<f64> = (0..5)
                    .map(|_| 100.0 + (0..12).map(|_| random.unit()).sum::<f64>())
                    .collect();
                values(&of)
            };
            alarms += usize::from(change(&draw(), &draw()).significant);
        }
        let share = alarms as f64 / TRIES as f64;
        assert!((0.03..0.065).contains(&share), "{share}");
    }

    /// The exact probability is that of a coin: of n samples all fall on one side once in 2^(n-1) times.
    #[test]
    fn a_handful_of_samples_is_no_change() {
        for samples in 1..20 {
            let of = |n: f64| {
                let mut values = Values::default();
                values.push(n, sampling_variance(n, 1.0));
                values
            };
            let got = change(&of(0.0), &of(f64::from(samples)));
            let exact = 0.5f64.powi(samples - 1);
            assert_eq!(got.significant, exact < 0.05, "{samples}: {got:?}");
        }
    }

    #[test]
    fn of_many_changes_few_are_false() {
        let chances = |all: &[f64]| limit(all.iter().map(|c| Some(*c)));
        assert_eq!(chances(&[0.04]), 0.04);
        assert_eq!(chances(&[0.04, 0.5, 0.6, 0.9]), 0.0);
        assert_eq!(chances(&[0.001, 0.02, 0.03, 0.9]), 0.03);
        assert_eq!(limit([None, None].into_iter()), 0.0);
    }
}
