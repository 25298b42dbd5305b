//! `llquantize`: magnitudes (powers of a factor), each cut into steps of the same width.

use std::cmp::Ordering;

use crate::schema::Aggregate;

/// The buckets of an `llquantize`.
///
/// A magnitude m holds the values from `factor^m` to `factor^(m+1) - 1`. It is cut into `steps` parts counted from 0,
/// of which the first `steps / factor` would lie below `factor^m` and do not exist. In the middle is the bucket of
/// all values nearer to 0 than `factor^low`; at both ends are those from `factor^(high+1)` on. Negative values have
/// the mirrored buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLinear {
    /// The base of the logarithm; at least 2.
    pub factor: u64,
    /// The least magnitude.
    pub low: u32,
    /// The greatest magnitude; `factor^(high+1)` fits 64 bits.
    pub high: u32,
    /// Parts of a magnitude; at least 1.
    pub steps: u64,
}

impl LogLinear {
    /// Those of a function; `None` if it is no `llquantize`, or one that no checked script can contain.
    pub fn of(function: Aggregate) -> Option<LogLinear> {
        let Aggregate::Llquantize {
            factor,
            low,
            high,
            steps,
        } = function
        else {
            return None;
        };
        let shape = LogLinear {
            factor: u64::from(factor),
            low: u32::from(low),
            high: u32::from(high),
            steps: u64::from(steps),
        };
        let ranges = shape.factor >= 2 && shape.steps >= 1 && low <= high;
        (ranges && shape.has_whole_steps()).then_some(shape)
    }

    /// Whether all bounds are whole numbers of 64 bits, as the language demands: fewer steps than the factor divide
    /// it; more are a multiple of it and divide the first magnitude that is cut so finely.
    fn has_whole_steps(&self) -> bool {
        let (factor, steps) = (self.factor, self.steps);
        let cut = factor.checked_pow(self.low.max(1) + 1);
        let even = match steps.cmp(&factor) {
            Ordering::Less => factor % steps == 0,
            Ordering::Equal => true,
            Ordering::Greater => steps % factor == 0 && cut.is_some_and(|cut| cut % steps == 0),
        };
        even && factor.checked_pow(self.high + 1).is_some()
    }

    /// Parts of a magnitude that exist.
    fn parts(&self) -> usize {
        (self.steps - self.steps / self.factor) as usize
    }

    /// The bucket of the values around 0.
    pub fn middle(&self) -> usize {
        1 + (self.high - self.low + 1) as usize * self.parts()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        2 * self.middle() + 1
    }

    /// Never: the middle is always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The bucket of a value. With a = |v| (unsigned, so that -2^63 has one): the middle if `a < factor^low`; else m
    /// is the first magnitude from `low` on with `a < factor^(m+1)`, and the distance from the middle is
    /// `1 + (m - low) * parts + a / (factor^(m+1) / steps) - steps / factor`
    /// (for m = 0 `a * steps / factor`, as the width may be less than 1), or `1 + (high - low + 1) * parts` if there
    /// is no such m.
    pub fn index(&self, value: i64) -> usize {
        let distance = self.distance(value.unsigned_abs());
        if value < 0 {
            self.middle() - distance
        } else {
            self.middle() + distance
        }
    }

    /// Distance from the middle of the bucket of a value with this amount.
    fn distance(&self, amount: u64) -> usize {
        let mut end = self.factor.pow(self.low);
        if amount < end {
            return 0;
        }
        for magnitude in self.low..=self.high {
            end *= self.factor;
            if amount < end {
                let part = match magnitude {
                    0 => amount * self.steps / end,
                    _ => amount / (end / self.steps),
                };
                let before = (magnitude - self.low) as usize * self.parts();
                return 1 + before + (part - self.steps / self.factor) as usize;
            }
        }
        self.middle()
    }

    /// The least amount of the buckets at a distance from the middle (which is below [`middle`](Self::middle), or
    /// equal for the ends); 0 for the middle itself. `None` for a bucket that no value falls into: those between two
    /// integers when magnitude 0 is cut finer than that.
    pub fn amount(&self, distance: usize) -> Option<u64> {
        let Some(before) = distance.checked_sub(1) else {
            return Some(0);
        };
        if distance == self.middle() {
            return Some(self.factor.pow(self.high + 1));
        }
        let magnitude = self.low + (before / self.parts()) as u32;
        let part = (before % self.parts()) as u64 + self.steps / self.factor;
        let end = self.factor.pow(magnitude + 1);
        if magnitude > 0 {
            // Fewer steps than the factor: the first part begins at the magnitude, not at its multiple of the width.
            return Some((part * (end / self.steps)).max(self.factor.pow(magnitude)));
        }
        let at = part * end;
        if self.steps > self.factor && !at.is_multiple_of(self.steps) {
            return None;
        }
        Some((at / self.steps).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> Vec<LogLinear> {
        let parameters = [
            (10, 0, 6, 20),
            (10, 0, 6, 10),
            (10, 0, 6, 5),
            (10, 1, 6, 2),
            (4, 0, 1, 8),
            (4, 0, 1, 2),
            (8, 3, 4, 64),
            (3, 3, 5, 27),
            (2, 0, 62, 4),
            (2, 10, 62, 2),
            (100, 0, 8, 100),
            (10, 0, 18, 10),
            (65535, 0, 2, 1),
        ];
        let shape = |(factor, low, high, steps)| {
            LogLinear::of(Aggregate::Llquantize {
                factor,
                low,
                high,
                steps,
            })
        };
        parameters.into_iter().filter_map(shape).collect()
    }

    #[test]
    fn all_shapes_are_possible() {
        assert_eq!(shapes().len(), 13);
        let impossible = [(10, 0, 20, 10), (10, 0, 2, 7), (10, 0, 2, 30), (1, 0, 2, 1)];
        for (factor, low, high, steps) in impossible {
            let function = Aggregate::Llquantize {
                factor,
                low,
                high,
                steps,
            };
            assert_eq!(LogLinear::of(function), None);
        }
    }

    #[test]
    fn amounts_begin_their_buckets() {
        for shape in shapes() {
            let mut previous = 0;
            for distance in 1..=shape.middle() {
                let Some(amount) = shape.amount(distance) else {
                    continue;
                };
                assert!(amount > previous, "{shape:?} {distance}");
                assert_eq!(shape.distance(amount), distance, "{shape:?}");
                assert!(shape.distance(amount - 1) < distance, "{shape:?}");
                previous = amount;
                let Ok(value) = i64::try_from(amount) else {
                    continue;
                };
                assert_eq!(shape.index(value), shape.middle() + distance);
                assert_eq!(shape.index(-value), shape.middle() - distance);
            }
            assert_eq!(shape.index(0), shape.middle());
        }
    }

    #[test]
    fn buckets_without_values_are_those_between_integers() {
        let shape = LogLinear {
            factor: 4,
            low: 0,
            high: 1,
            steps: 8,
        };
        // From 1 to 3 in halves; from 4 on in steps of 2.
        let amounts: Vec<_> = (0..=shape.middle()).map(|at| shape.amount(at)).collect();
        let halves = [Some(1), None, Some(2), None, Some(3), None];
        let rest = [
            Some(4),
            Some(6),
            Some(8),
            Some(10),
            Some(12),
            Some(14),
            Some(16),
        ];
        assert_eq!(amounts[0], Some(0));
        assert_eq!(amounts[1..7], halves);
        assert_eq!(amounts[7..], rest);
    }

    #[test]
    fn extremes_have_buckets() {
        for shape in shapes() {
            assert!(shape.index(i64::MIN) < shape.len());
            assert!(shape.index(i64::MAX) < shape.len());
        }
    }
}
