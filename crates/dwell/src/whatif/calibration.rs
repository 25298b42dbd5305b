//! What locks and the scheduler cost on this machine, as it was measured: once, and kept for the next time.
use super::disturbance::Watch;
use super::measuring;
use dwell_whatif::Machine;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Changes with what is measured: older results are measured anew.
const VERSION: u32 = 3;
/// Share of the processors' time that others may have meanwhile: the kernel's own threads, a clock that counts by ticks.
const CALM: f64 = 0.03;
/// How often it is measured at most, to have it calm.
const ATTEMPTS: u32 = 3;
/// What was measured, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    version: u32,
    machine: String,
    /// Share of the processors' time that others had while it was measured: other programs, or the host of a virtual machine.
    disturbed: f64,
    costs: Machine,
}

impl Calibration {
    /// This machine's: read, or else measured and kept. One that was measured while others ran is measured anew each time,
    /// until it is calm; the calmer one is kept.
    pub fn of_here() -> Calibration {
        let kept = kept();
        if let Some(calm) = kept.as_ref().filter(|k| k.is_calm()) {
            return calm.clone();
        }
        let best = Calibration::measure().or_calmer(kept);
        best.keep();
        best
    }

    /// The one during which others ran less.
    fn or_calmer(self, other: Option<Calibration>) -> Calibration {
        match other {
            Some(other) if other.disturbed <= self.disturbed => other,
            _ => self,
        }
    }

    fn keep(&self) {
        // A machine where nothing can be kept measures each time.
        if let Some(file) = file() {
            let folder = file.parent().map(std::fs::create_dir_all);
            if folder.is_some_and(|made| made.is_ok())
                && let Ok(text) = serde_json::to_vec_pretty(self)
            {
                let _ = std::fs::write(file, text);
            }
        }
    }

    /// Measures: about a second. Where other programs run meanwhile it is done again, and the calmest counts.
    pub fn measure() -> Calibration {
        let once = || {
            let watch = Watch::begin();
            let costs = measuring::all();
            Calibration {
                version: VERSION,
                machine: identity(),
                disturbed: watch.others(),
                costs,
            }
        };
        let mut best = once();
        for _ in 1..ATTEMPTS {
            if best.is_calm() {
                break;
            }
            best = once().or_calmer(Some(best));
        }
        best
    }

    /// True when hardly anything else ran while it was measured.
    pub fn is_calm(&self) -> bool {
        self.disturbed <= CALM
    }

    /// How it came about, in a sentence without its full stop.
    pub fn words(&self) -> String {
        let costs = &self.costs;
        let us = |ns: f64| format!("{:.1} µs", ns / 1e3);
        format!(
            "what locks cost was measured on this machine while others used {:.0} % of its processors: a slice {:.1} ms, a switch \
             of threads {}, a wake-up {} and {} later, falling asleep {}",
            self.disturbed * 100.0,
            costs.slice_ns / 1e6,
            us(costs.switch_ns),
            us(costs.wake_ns),
            us(costs.wake_latency_ns),
            us(costs.enter_ns + costs.sleep_ns),
        )
    }

    /// As a simulation takes it.
    pub fn machine(&self, processors: usize) -> Machine {
        Machine {
            processors,
            ..self.costs.clone()
        }
    }
}

/// What was kept of this machine by this version.
fn kept() -> Option<Calibration> {
    let bytes = std::fs::read(file()?).ok()?;
    let kept: Calibration = serde_json::from_slice(&bytes).ok()?;
    (kept.version == VERSION && kept.machine == identity()).then_some(kept)
}

/// Where it is kept.
fn file() -> Option<PathBuf> {
    dwell_collector::user_cache::user_cache("calibration.json")
}

/// What tells this machine from others: its processors and its kernel.
fn identity() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let model = processor.lines().find(|l| l.starts_with("model name"));
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{} x {}, Linux {}",
        processors(),
        model
            .and_then(|l| l.split(": ").nth(1))
            .unwrap_or("unknown"),
        kernel.trim()
    )
}

/// Processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Tells that the calibration is short and what it is for.
pub fn told(mut progress: impl FnMut(&str)) -> Calibration {
    if kept().is_none_or(|k| !k.is_calm()) {
        progress("measuring what locks cost here (a second, once)");
    }
    let calibration = Calibration::of_here();
    if !calibration.is_calm() {
        progress(&format!(
            "others used {:.0} % of the processors while what locks cost was measured: it is measured again next time",
            calibration.disturbed * 100.0
        ));
    }
    calibration
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_whatif::{Costs, Kind};

    /// Bounds that any machine meets, and in which a wrong unit would not lie.
    #[test]
    fn what_is_measured_is_plausible_and_can_be_kept() {
        let found = Calibration::measure();
        for (kind, cost) in Kind::ALL.iter().zip(&found.costs.costs) {
            assert!((1.0..5_000.0).contains(&cost.alone_ns), "{kind:?} {cost:?}");
            assert!(
                cost.moved_ns >= cost.alone_ns && (1.0..50_000.0).contains(&cost.handoff_ns),
                "{kind:?} {cost:?}"
            );
        }
        assert!((100.0..1e6).contains(&found.costs.wake_ns), "{found:?}");
        assert!((5e5..=2e7).contains(&found.costs.slice_ns), "{found:?}");
        let again: Calibration =
            serde_json::from_str(&serde_json::to_string(&found).expect("JSON")).expect("JSON");
        // Text keeps all but the last bit.
        assert!((0.0..=1.0).contains(&found.disturbed), "{found:?}");
        let numbers = |of: &Calibration| {
            let words = |c: &Costs| [c.alone_ns, c.moved_ns, c.handoff_ns, c.per_waiter_ns];
            of.costs.costs.iter().flat_map(words).collect::<Vec<_>>()
        };
        for (kept, found) in numbers(&again).into_iter().zip(numbers(&found)) {
            assert!(
                (kept - found).abs() <= found.abs() * 1e-12,
                "{kept} {found}"
            );
        }
        assert_eq!(again.machine(2).processors, 2);
        // Whichever was measured first: the calmer one is kept, and one that was not calm says so.
        let of = |disturbed| Calibration {
            disturbed,
            ..found.clone()
        };
        assert!(of(0.01).is_calm() && !of(0.4).is_calm());
        assert_eq!(of(0.4).or_calmer(Some(of(0.2))).disturbed, 0.2);
        assert_eq!(of(0.1).or_calmer(Some(of(0.2))).disturbed, 0.1);
        assert_eq!(of(0.1).or_calmer(None).disturbed, 0.1);
        assert!(of(0.4).words().contains("others used 40 %"));
    }
}
