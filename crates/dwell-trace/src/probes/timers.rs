//! `profile-N` and `tick-N`.
use super::{At, Probe, matches, name};
use crate::error::TraceError;
use dwell_script::typed::ProbePattern;

/// The shortest time that a timer is set to, ns: dtrace's, below which there is no such probe.
const SHORTEST: u64 = 200_000;
const SECOND: u64 = 1_000_000_000;

pub(super) fn find(pattern: &ProbePattern, found: &mut Vec<Probe>) -> Result<(), TraceError> {
    if !pattern.provider.is_empty() && !matches(&pattern.provider, "profile") {
        return Ok(());
    }
    let (text, at): (_, fn(u64) -> At) = match pattern.name.split_once('-') {
        Some(("profile", rest)) => (rest, At::Profile),
        Some(("tick", rest)) => (rest, At::Tick),
        _ => return Ok(()),
    };
    if !pattern.module.is_empty() || !pattern.function.is_empty() {
        return Ok(());
    }
    let Some(period) = period(text).filter(|period| *period >= SHORTEST) else {
        return Ok(());
    };
    found.push(Probe {
        name: name("profile", "", "", &pattern.name),
        at: at(period),
    });
    Ok(())
}

/// The period of `10ms` or `99` (a frequency), ns.
fn period(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok().filter(|n| *n > 0)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "hz" => return Some(SECOND / number),
        "ns" | "nsec" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => SECOND,
        "m" | "min" => 60 * SECOND,
        "h" | "hour" => 3600 * SECOND,
        "d" | "day" => 86_400 * SECOND,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_and_frequencies() {
        assert_eq!(period("1s"), Some(SECOND));
        assert_eq!(period("10ms"), Some(10_000_000));
        assert_eq!(period("100"), Some(10_000_000));
        assert_eq!(period("100hz"), Some(10_000_000));
        assert_eq!(period("0"), None);
        assert_eq!(period("5parsec"), None);
    }
}
