//! The values of options as users write them: `4k`, `10hz`, `100ms`, `on`.

/// A number of bytes: decimal, `0x…` or octal, with `k`, `m`, `g` or `t` for powers of 1024. `None` if it is none or
/// does not fit.
pub fn size(text: &str) -> Option<u64> {
    let (number, suffix) = number(text)?;
    let power = match suffix.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    number.checked_mul(1 << (10 * power))
}

/// The time between two occurrences in nanoseconds: a number with a unit of time (nanoseconds without one), or with
/// `hz` so many a second. 0 stays 0.
pub fn period(text: &str) -> Option<u64> {
    const SECOND: u64 = 1_000_000_000;
    let (number, unit) = number(text)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "ns" | "nsec" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => SECOND,
        "m" | "min" => 60 * SECOND,
        "h" | "hour" => 3600 * SECOND,
        "d" | "day" => 86400 * SECOND,
        "hz" => return Some(SECOND.checked_div(number).unwrap_or(0)),
        _ => return None,
    };
    number.checked_mul(unit)
}

/// A switch or a plain number: `Some(None)` for what switches off, `Some(Some(1))` for what switches on, the number
/// for a number. `None` for anything else.
pub fn setting(text: &str) -> Option<Option<u64>> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "enable" | "enabled" | "true" | "on" | "set" => Some(Some(1)),
        "" | "no" | "disable" | "disabled" | "false" | "off" | "unset" => Some(None),
        _ => match number(text)? {
            (number, "") => Some(Some(number)),
            _ => None,
        },
    }
}

/// A number as C writes it, and what follows it.
fn number(text: &str) -> Option<(u64, &str)> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(base));
    let (digits, rest) = digits.split_at(end.unwrap_or(digits.len()));
    let number = u64::from_str_radix(digits, base).ok()?;
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("4k"), Some(4096));
        assert_eq!(size("1M"), Some(1 << 20));
        assert_eq!(size("0x10"), Some(16));
        assert_eq!(size("010"), Some(8));
        assert_eq!(size("0"), Some(0));
        assert_eq!(size("16777216t"), None);
        for wrong in ["", "k", "-1", "4kb", "4 k", "0x", "09", "1.5m"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn periods() {
        assert_eq!(period("10hz"), Some(100_000_000));
        assert_eq!(period("100ms"), Some(100_000_000));
        assert_eq!(period("5"), Some(5));
        assert_eq!(period("0hz"), Some(0));
        assert_eq!(period("2MIN"), Some(120_000_000_000));
        assert_eq!(period("999999999999d"), None);
        assert_eq!(period("10khz"), None);
    }

    #[test]
    fn settings() {
        assert_eq!(setting("on"), Some(Some(1)));
        assert_eq!(setting("False"), Some(None));
        assert_eq!(setting("3"), Some(Some(3)));
        assert_eq!(setting("0"), Some(Some(0)));
        assert_eq!(setting("3k"), None);
        assert_eq!(setting("-3"), None);
    }
}
