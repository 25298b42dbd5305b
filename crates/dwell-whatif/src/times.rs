//! How long something takes, from one time to the next.
use crate::random::Random;

/// A distribution of durations.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// A constant and an exponential part: `cv` is the standard deviation over the mean, 0 to 1.
    Spread {
        /// Mean, ns.
        mean_ns: f64,
        /// Standard deviation ÷ mean: 0 is a constant, 1 exponential.
        cv: f64,
    },
    /// One of these, each as likely, ns.
    Observed(Vec<f64>),
}

impl Times {
    /// Always the same.
    pub fn fixed(ns: f64) -> Times {
        Times::Spread {
            mean_ns: ns,
            cv: 0.0,
        }
    }

    /// Exponential.
    pub fn exponential(mean_ns: f64) -> Times {
        Times::Spread { mean_ns, cv: 1.0 }
    }

    /// The mean, ns.
    pub fn mean_ns(&self) -> f64 {
        match self {
            Times::Spread { mean_ns, .. } => *mean_ns,
            Times::Observed(values) => values.iter().sum::<f64>() / values.len().max(1) as f64,
        }
    }

    /// All durations times this.
    pub fn scaled(&self, factor: f64) -> Times {
        match self {
            Times::Spread { mean_ns, cv } => Times::Spread {
                mean_ns: mean_ns * factor,
                cv: *cv,
            },
            Times::Observed(values) => Times::Observed(values.iter().map(|v| v * factor).collect()),
        }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> f64 {
        match self {
            Times::Spread { mean_ns, cv } if *cv <= 0.0 => *mean_ns,
            Times::Spread { mean_ns, cv } => {
                mean_ns * (1.0 - cv).max(0.0) + mean_ns * cv.min(1.0) * random.exponential()
            }
            Times::Observed(values) if values.is_empty() => 0.0,
            Times::Observed(values) => values[random.below(values.len())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_has_the_mean_and_the_spread() {
        let mut random = Random::new(2);
        for cv in [0.0, 0.3, 1.0] {
            let times = Times::Spread { mean_ns: 50.0, cv };
            let drawn: Vec<f64> = (0..1_000_000).map(|_| times.draw(&mut random)).collect();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            let square = drawn.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
            let deviation = (square / drawn.len() as f64).sqrt();
            assert!((mean - 50.0).abs() < 0.2, "{cv}: mean {mean}");
            assert!((deviation - 50.0 * cv).abs() < 0.7, "{cv}: {deviation}");
        }
        let times = Times::Observed(vec![1.0, 3.0]);
        assert_eq!((times.mean_ns(), times.scaled(2.0).mean_ns()), (2.0, 4.0));
    }
}
