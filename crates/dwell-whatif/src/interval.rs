//! A figure that is known within bounds.

/// A figure with the bounds it lies within, by the runs of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Lower bound: one in twenty runs is below it.
    pub low: f64,
    /// The median.
    pub likely: f64,
    /// Upper bound: one in twenty runs is above it.
    pub high: f64,
}

impl Interval {
    /// Of what several runs came to. Of few runs the bounds are wider than the least and the most of
    /// them, since few do not show the extremes.
    pub fn of(mut values: Vec<f64>) -> Interval {
        values.sort_by(f64::total_cmp);
        let Some(last) = values.len().checked_sub(1) else {
            return Interval::default();
        };
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, part) = (place.floor() as usize, place.fract());
            values[below] * (1.0 - part) + values[(below + 1).min(last)] * part
        };
        let likely = at(0.5);
        // The range of n normal values is, on average, this much narrower than 5 % to 95 % of them.
        let widen = match values.len() {
            1 => 1.0,
            n if n < 20 => 1.0 + 2.0 / n as f64,
            _ => 1.0,
        };
        let positive = values[0] >= 0.0;
        let low = likely - (likely - at(0.05)) * widen;
        Interval {
            low: if positive { low.max(0.0) } else { low },
            likely,
            high: likely + (at(0.95) - likely) * widen,
        }
    }

    /// All three times this.
    pub fn scaled(&self, factor: f64) -> Interval {
        Interval {
            low: self.low * factor,
            likely: self.likely * factor,
            high: self.high * factor,
        }
    }

    /// With wider bounds: for what this relative standard deviation, independent of the rest, adds.
    pub fn widened(&self, deviation: f64) -> Interval {
        /// Standard deviations on each side of nine in ten normal values.
        const NINE_IN_TEN: f64 = 1.645;
        let factor = (NINE_IN_TEN * deviation).exp();
        let apart = |bound: f64, other: f64| (bound - self.likely).hypot(other - self.likely);
        Interval {
            low: self.likely - apart(self.low, self.likely / factor).min(self.likely.abs()),
            likely: self.likely,
            high: self.likely + apart(self.high, self.likely * factor),
        }
    }

    /// True when the value lies within the bounds.
    pub fn has(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_enclose_the_runs_of_few() {
        let interval = Interval::of(vec![3.0, 1.0, 2.0]);
        assert_eq!(interval.likely, 2.0);
        assert!(interval.low <= 1.0 && interval.high >= 3.0, "{interval:?}");
        let one = Interval::of(vec![7.0]);
        assert_eq!((one.low, one.likely, one.high), (7.0, 7.0, 7.0));
        assert!(Interval::of(vec![0.0, 0.0, 9.0]).low >= 0.0);
    }
}
