//! When to try again what failed.
use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_secs(1);
/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(300);

/// Waits that double from 1 s to 5 min, each by chance up to half shorter: of many agents that wait for one server not
/// all come back at once.
#[derive(Clone, Debug)]
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Backoff(FIRST)
    }
}

impl Backoff {
    /// How long to wait after one more failure; at least as long as the server asks for.
    pub fn failed(&mut self, asked: Option<Duration>) -> Duration {
        let wait = self.0.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.0 = (self.0 * 2).min(LONGEST);
        wait.max(asked.unwrap_or_default()).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..20).map(|_| backoff.failed(None)).collect();
        for (n, wait) in waits.iter().enumerate() {
            let most = FIRST.mul_f64(2f64.powi(n as i32)).min(LONGEST);
            assert!(*wait >= most / 2 && *wait <= most, "{n}: {wait:?}");
        }
        let asked = Duration::from_secs(200);
        assert!(Backoff::default().failed(Some(asked)) >= asked);
        let year = Duration::from_secs(365 * 86400);
        assert_eq!(Backoff::default().failed(Some(year)), LONGEST);
    }
}
