//! `avg` and `stddev` from what is kept of them, and `normalize`.

/// A value divided by the divisor of `normalize`, towards 0. `signed` tells whether the value is.
pub fn normalized(value: i64, divisor: u64, signed: bool) -> i64 {
    let divisor = i128::from(divisor.max(1));
    let value = match signed {
        true => i128::from(value),
        false => i128::from(value as u64),
    };
    (value / divisor) as i64
}

/// The mean of `[count, sum]`, rounded towards 0; 0 of nothing.
pub fn average(values: [i64; 2], divisor: u64) -> i64 {
    let [count, sum] = values;
    match count {
        0 => 0,
        count => normalized(sum, divisor, true).wrapping_div(count),
    }
}

/// The standard deviation of `[count, sum, low and high 64 bits of the sum of squares]`, in integers:
/// `floor(sqrt(floor(squares / count) - trunc(sum / count)^2))`; 0 of nothing. A divisor applies to the sum of
/// squares once, as in dtrace.
pub fn standard_deviation(values: [i64; 4], divisor: u64) -> u64 {
    let [count, sum, low, high] = values;
    if count == 0 {
        return 0;
    }
    let squares = u128::from(high as u64) << 64 | u128::from(low as u64);
    let mean_of_squares = squares / u128::from(divisor.max(1)) / u128::from(count as u64);
    let mean = u128::from(average([count, sum], divisor).unsigned_abs());
    // A divisor can make the difference negative; dtrace then takes the root of its 128 bits.
    mean_of_squares.wrapping_sub(mean * mean).isqrt() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(values: &[i64]) -> [i64; 4] {
        let squares: u128 = values
            .iter()
            .map(|v| u128::from(v.unsigned_abs()).pow(2))
            .sum();
        let sum = values.iter().sum();
        [
            values.len() as i64,
            sum,
            squares as i64,
            (squares >> 64) as i64,
        ]
    }

    #[test]
    fn averages_round_towards_zero() {
        assert_eq!(average([0, 5], 1), 0);
        assert_eq!(average([2, 5], 1), 2);
        assert_eq!(average([2, -5], 1), -2);
        assert_eq!(average([2, -500], 10), -25);
        assert_eq!(average([-1, i64::MIN], 1), i64::MIN);
    }

    #[test]
    fn deviations_are_those_of_the_population() {
        let large: Vec<i64> = (0..10).map(|i| 5_000_000_000 + 100 * i).collect();
        let negative: Vec<i64> = large.iter().map(|v| -v).collect();
        assert_eq!(standard_deviation(kept(&large), 1), 287);
        assert_eq!(standard_deviation(kept(&negative), 1), 287);
        assert_eq!(standard_deviation(kept(&[0x10, 0x20]), 1), 8);
        assert_eq!(standard_deviation(kept(&[1 << 32, 1 << 33]), 1), 1 << 31);
        assert_eq!(standard_deviation(kept(&[]), 1), 0);
    }

    #[test]
    fn normalizing_minds_the_sign() {
        assert_eq!(normalized(-10, 5, true), -2);
        assert_eq!(normalized(-1, 2, false), i64::MAX);
        assert_eq!(normalized(i64::MIN, u64::MAX, true), 0);
    }
}
