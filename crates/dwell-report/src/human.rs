//! Numbers for people.

/// A duration with three digits: `1.23 s`, `212 ms`, `3.40 µs`, `2.80 h`.
pub fn duration(ns: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e3, "µs"), (1e6, "ms"), (1e9, "s")];
    let value = ns as f64;
    match ns {
        0 => "0 s".to_owned(),
        1..=999 => format!("{ns} ns"),
        _ if value >= 9_999.5e9 => format!("{} h", digits(value / 3600e9)),
        _ => {
            // 999.6 µs rounds to 1.00 ms.
            let fits = UNITS.iter().find(|(unit, _)| value / unit < 999.5);
            let (unit, name) = fits.unwrap_or(&UNITS[2]);
            format!("{} {name}", digits(value / unit))
        }
    }
}

/// A mean duration, which may be a few ns: `1.2 ns`, `340 ns`, `1.23 s`.
pub fn mean_duration(ns: f64) -> String {
    match ns {
        0.0 => duration(0),
        ns if ns < 99.95 => format!("{ns:.1} ns"),
        ns => duration(ns.round() as u64),
    }
}

fn digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// A share of a whole: `12.3 %`, `0.02 %`, `<0.01 %`.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    share(part as f64 / whole as f64)
}

/// A share of 1 as a percentage.
pub fn share(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        p if p < 0.01 => "<0.01 %".to_owned(),
        p if p < 0.1 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

/// A count: `4`, `9 999`, `12.3k`, `4.5M`.
pub fn count(n: u64) -> String {
    match n {
        0..=999 => n.to_string(),
        1000..=9999 => format!("{} {:03}", n / 1000, n % 1000),
        10_000..=999_499 => format!("{}k", digits(n as f64 / 1e3)),
        999_500..=999_499_999 => format!("{}M", digits(n as f64 / 1e6)),
        _ => format!("{}G", digits(n as f64 / 1e9)),
    }
}

/// A number of bytes: `41.0 MiB`.
pub fn bytes(n: u64) -> String {
    match n {
        0..=1023 => format!("{n} B"),
        1024..=1_048_575 => format!("{} KiB", digits(n as f64 / 1024.0)),
        1_048_576..=1_073_741_823 => format!("{} MiB", digits(n as f64 / 1_048_576.0)),
        _ => format!("{} GiB", digits(n as f64 / 1_073_741_824.0)),
    }
}

/// `1 thread`, `3 threads`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_fitting_unit() {
        let cases = [
            (0, "0 s"),
            (17, "17 ns"),
            (1_500, "1.50 µs"),
            (999_600, "1.00 ms"),
            (212_400_000, "212 ms"),
            (12_340_000_000, "12.3 s"),
            (1_200_000_000_000, "1200 s"),
            (14_400_000_000_000, "4.00 h"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
        assert!(duration(u64::MAX).ends_with(" h"));
        assert_eq!(mean_duration(1.23), "1.2 ns");
        assert_eq!(mean_duration(99.97), "100 ns");
        assert_eq!(mean_duration(1.23e9), "1.23 s");
    }

    #[test]
    fn shares_and_counts() {
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(1, 1_000_000), "<0.01 %");
        assert_eq!(percent(1, 0), "-");
        assert_eq!(count(9_999), "9 999");
        assert_eq!(count(12_345), "12.3k");
        assert_eq!(count(999_499), "999k");
        assert_eq!(counted(1, "wait", "waits"), "1 wait");
    }
}
