//! `quantize`: powers of two.

/// Buckets of `quantize`.
pub const POWERS: usize = 127;

/// The bucket of 0.
const ZERO: usize = 63;

/// The bucket of a value: 63 for 0, `64 + floor(log2(v))` for a positive v, `62 - floor(log2(-v))` for a negative
/// one. The least value of all, -2^63, has no bucket of its own and shares the one of -2^62.
pub fn powers_index(value: i64) -> usize {
    match value {
        0 => ZERO,
        1.. => ZERO + 1 + value.ilog2() as usize,
        _ => (ZERO - 1).saturating_sub(value.unsigned_abs().ilog2() as usize),
    }
}

/// What is printed for a bucket, and of its values the one nearest to 0: `2^(i-64)` above the middle, `-2^(62-i)`
/// below. `index` is below [`POWERS`].
pub fn powers_label(index: usize) -> i64 {
    match index {
        ZERO => 0,
        0..ZERO => -(1 << (ZERO - 1 - index)),
        _ => 1 << (index - ZERO - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_in_its_bucket() {
        for index in 0..POWERS {
            assert_eq!(powers_index(powers_label(index)), index);
        }
    }

    #[test]
    fn buckets_end_before_the_next_power() {
        for exponent in 1..63 {
            let power = 1i64 << exponent;
            assert_eq!(powers_index(power - 1), powers_index(power) - 1);
            assert_eq!(powers_index(1 - power), powers_index(-power) + 1);
        }
        assert_eq!(powers_index(i64::MAX), POWERS - 1);
        assert_eq!(powers_index(i64::MIN), 0);
    }
}
