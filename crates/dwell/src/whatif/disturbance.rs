//! What others have of the processors while something is measured.
use std::time::Instant;

/// Begins before a measurement.
pub struct Watch {
    began: Instant,
    busy_s: f64,
    own_s: f64,
}

impl Watch {
    pub fn begin() -> Watch {
        Watch {
            began: Instant::now(),
            busy_s: busy_s(),
            own_s: own_s(),
        }
    }

    /// Share of all processors' time that others had since: other programs, interrupts, and the host of a virtual machine. 0
    /// where the system does not tell. Children count as ours once they have been waited for.
    pub fn others(&self) -> f64 {
        let own = own_s() - self.own_s;
        let busy = busy_s() - self.busy_s;
        let all = self.began.elapsed().as_secs_f64() * configured() as f64;
        ((busy - own) / all.max(1e-9)).clamp(0.0, 1.0)
    }
}

/// Processors of the machine, whether this process may use them or not.
fn configured() -> usize {
    // SAFETY: asks for a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).unwrap_or(1).max(1)
}

/// Time that processors were not idle since the start, seconds, stolen time with it.
fn busy_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    // SAFETY: asks for a number.
    let per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
    busy_ticks(&stat) as f64 / per_s
}

/// Of `/proc/stat`: user, nice, system, (idle, iowait,) irq, softirq and steal of all processors.
fn busy_ticks(stat: &str) -> u64 {
    let all = stat.lines().find_map(|l| l.strip_prefix("cpu "));
    let ticks = all.unwrap_or_default().split_whitespace();
    let ticks = ticks.map(|t| t.parse::<u64>().unwrap_or(0)).take(8);
    let busy = ticks
        .enumerate()
        .filter(|(place, _)| !matches!(place, 3 | 4));
    busy.map(|(_, ticks)| ticks).fold(0, u64::saturating_add)
}

/// This process' time on processors, and that of children that ended, seconds.
fn own_s() -> f64 {
    let of = |who| {
        // SAFETY: all of a `rusage` is numbers, for which zero is a value; the call fills one through a valid pointer.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &mut usage);
            usage
        };
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn idle_time_is_not_busy() {
        assert_eq!(
            busy_ticks("cpu  1 2 4 800 1600 8 16 32 64 128\ncpu0 9 9\n"),
            63
        );
        assert_eq!(busy_ticks(""), 0);
    }

    /// In a process of its own: other tests of this one have children, whose time becomes ours all at once when they end.
    #[test]
    fn another_program_is_seen_and_our_own_work_is_not() {
        const NAME: &str =
            "whatif::disturbance::tests::another_program_is_seen_and_our_own_work_is_not";
        if std::env::var_os("DWELL_TEST_ALONE").is_some() {
            return see_another_program();
        }
        let alone = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", NAME, "--nocapture"])
            .env("DWELL_TEST_ALONE", "1")
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&alone.stdout);
        assert!(
            alone.status.success() && said.contains("1 passed"),
            "{alone:?}"
        );
    }

    fn see_another_program() {
        let spin = |time: Duration| {
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
        };
        let calm = Watch::begin();
        spin(Duration::from_millis(300));
        let calm = calm.others();
        let disturbed = Watch::begin();
        let mut other = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        spin(Duration::from_millis(300));
        let disturbed = disturbed.others();
        other.kill().expect("ends");
        other.wait().expect("ends");
        // A busy machine gives the shell a part only; still it has something that was not there before.
        assert!(
            disturbed > calm.min(0.9) * 0.5 && disturbed > 0.05,
            "{calm} {disturbed}"
        );
    }
}
