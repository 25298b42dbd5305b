//! What the host of a virtual machine takes from its processors. Tests of several crates include this file.
#![allow(dead_code)] // each of them uses a part of it

/// Time that the host says it took from this machine's processors so far, all together, ns.
pub fn stolen_ns() -> u64 {
    processor_ticks()[STOLEN] * tick_ns()
}

/// What the host takes from its making on.
///
/// A program, the kernel and dwell read their clocks at instants of their own. Where the host takes the
/// processor between two such readings, they rightly tell different times of one wait: a bound between two
/// of them is wider by what was taken meanwhile, and by nothing where nothing was.
pub struct StolenMeter {
    before: [u64; FIELDS],
}

impl StolenMeter {
    pub fn start() -> Self {
        StolenMeter {
            before: processor_ticks(),
        }
    }

    /// Taken so far, of all processors together, ns. The kernel tells it in whole ticks: one more, unless
    /// it tells of none.
    pub fn ns(&self) -> u64 {
        match processor_ticks()[STOLEN] - self.before[STOLEN] {
            0 => 0,
            ticks => (ticks + 1) * tick_ns(),
        }
    }

    /// Its share of the processors' time.
    pub fn share(&self) -> f64 {
        let now = processor_ticks();
        let all = |ticks: &[u64; FIELDS]| ticks.iter().sum::<u64>();
        let passed = all(&now).saturating_sub(all(&self.before)).max(1);
        (now[STOLEN] - self.before[STOLEN]) as f64 / passed as f64
    }
}

/// user nice system idle iowait irq softirq steal
const FIELDS: usize = 8;
const STOLEN: usize = 7;

/// The time of all processors since the machine started, by what it went to, in clock ticks.
fn processor_ticks() -> [u64; FIELDS] {
    let text = std::fs::read_to_string("/proc/stat").expect("/proc is mounted");
    let line = text.lines().next().expect("a line");
    let mut ticks = line.split_whitespace().skip(1).map(|t| t.parse());
    [(); FIELDS].map(|()| ticks.next().expect("a field").expect("a number"))
}

/// ns of a clock tick.
fn tick_ns() -> u64 {
    // SAFETY: no memory effects.
    1_000_000_000 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64
}
