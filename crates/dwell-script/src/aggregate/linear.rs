//! `lquantize`: steps of the same width.

use crate::schema::Aggregate;

/// The buckets of an `lquantize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// The lower bound of the first step.
    pub base: i32,
    /// The width of a step; at least 1.
    pub step: u16,
    /// How many steps: `(limit - base) / step`. What is left of the range beyond the last whole step counts as above.
    pub steps: u32,
}

impl Linear {
    /// Those of a function; `None` if it is no `lquantize`.
    pub fn of(function: Aggregate) -> Option<Linear> {
        let Aggregate::Lquantize { base, limit, step } = function else {
            return None;
        };
        let step = step.max(1);
        let range = (i64::from(limit) - i64::from(base)).max(0);
        let steps = (range / i64::from(step)) as u32;
        Some(Linear { base, step, steps })
    }

    /// How many there are: below, the steps, above.
    pub fn len(&self) -> usize {
        self.steps as usize + 2
    }

    /// Never: below and above are always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The bucket of a value: 0 below `base`, else `min((v - base) / step, steps) + 1`, the division unsigned.
    pub fn index(&self, value: i64) -> usize {
        if value < i64::from(self.base) {
            return 0;
        }
        let above = (value as u64).wrapping_sub(i64::from(self.base) as u64);
        let step = above / u64::from(self.step);
        step.min(u64::from(self.steps)) as usize + 1
    }

    /// The least value of a bucket, `None` for the one below the base.
    pub fn lower_bound(&self, index: usize) -> Option<i64> {
        let step = index.checked_sub(1)?;
        Some(i64::from(self.base) + step as i64 * i64::from(self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> impl Iterator<Item = Linear> {
        let bounds = [
            (0, 10, 1),
            (-10, 20, 7),
            (i32::MIN, i32::MAX, u16::MAX),
            (5, 6, 3),
            (-1, 0, 1),
        ];
        bounds.into_iter().filter_map(|(base, limit, step)| {
            Linear::of(Aggregate::Lquantize { base, limit, step })
        })
    }

    #[test]
    fn lower_bounds_begin_their_buckets() {
        for shape in shapes() {
            assert_eq!(shape.lower_bound(0), None);
            for index in 1..shape.len() {
                let bound = shape.lower_bound(index).expect("not the lowest");
                assert_eq!(shape.index(bound), index, "{shape:?}");
                assert_eq!(shape.index(bound - 1), index - 1, "{shape:?}");
            }
            assert_eq!(shape.index(i64::MAX), shape.len() - 1);
            assert_eq!(shape.index(i64::MIN), 0);
        }
    }

    #[test]
    fn a_broken_step_counts_as_above() {
        let shape = Linear {
            base: 0,
            step: 4,
            steps: 2,
        };
        assert_eq!(
            Linear::of(Aggregate::Lquantize {
                base: 0,
                limit: 10,
                step: 4
            }),
            Some(shape)
        );
        assert_eq!(shape.index(7), 2);
        assert_eq!(shape.index(8), 3);
        assert_eq!(shape.index(9), 3);
    }
}
