//! Which of two ways the user stacks of waits that have ended are taken: the one that costs the machine less.
//!
//! A program at the end of switches adds some 200 ns to every switch of the machine (under pgbench; 70 ns where nothing
//! comes in between that takes the caches); work that a thread does on its way back to user space takes an interrupt,
//! some 10 µs where interrupts are virtual (measured on two virtual processors, Linux 6.18, AMD EPYC; without a
//! hypervisor both are less). Most programs switch often and few of their waits are
//! sampled and short; hundreds of threads that each wait some hundred times a second are the other case.
use super::Recorder;
use crate::error::CollectError;
use crate::machine::{self, AfterWaits};
use std::time::{Duration, Instant};

/// How often the ways are compared.
const COMPARE_EVERY: Duration = Duration::from_secs(1);
/// So many switches cost as much as one stack that takes an interrupt.
const SWITCHES_A_STACK: u64 = 50;

/// The way that is taken now.
pub(super) struct Way {
    kernel: AfterWaits,
    at_switches: bool,
    compared: Instant,
    /// Stacks owed and switches of the machine, when last compared.
    seen: (u64, u64),
}

impl Way {
    /// The one to begin with.
    pub(super) fn new(kernel: AfterWaits) -> Self {
        Way {
            kernel,
            at_switches: kernel.switches && !kernel.task_work,
            compared: Instant::now(),
            seen: (0, machine::switches()),
        }
    }
}

/// Whether `owed` stacks, while the machine switched so often, are cheaper at switches. The way of `before` is kept while
/// the two differ by less than half.
fn is_cheaper_at_switches(owed: u64, switches: u64, before: bool) -> bool {
    let as_switches = owed.saturating_mul(SWITCHES_A_STACK);
    as_switches > if before { switches / 2 } else { switches }
}

impl Recorder {
    pub(super) fn begin_way(&mut self) -> Result<(), CollectError> {
        self.programs.tell_of_switches(self.way.at_switches)
    }

    /// Takes the cheaper way from now on.
    pub(super) fn choose_way(&mut self) -> Result<(), CollectError> {
        let way = &mut self.way;
        if !(way.kernel.switches && way.kernel.task_work) || way.compared.elapsed() < COMPARE_EVERY
        {
            return Ok(());
        }
        way.compared = Instant::now();
        let now = (self.state.owed_stacks, machine::switches());
        let (owed, switches) = (now.0 - way.seen.0, now.1.saturating_sub(way.seen.1));
        way.seen = now;
        let at_switches = is_cheaper_at_switches(owed, switches, way.at_switches);
        if at_switches != way.at_switches {
            way.at_switches = at_switches;
            self.programs.tell_of_switches(at_switches)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_way_is_taken() {
        assert!(!is_cheaper_at_switches(0, 0, true));
        assert!(!is_cheaper_at_switches(100, 20_000, false));
        assert!(is_cheaper_at_switches(500, 20_000, false));
    }

    #[test]
    fn what_is_nearly_equal_changes_nothing() {
        for before in [false, true] {
            assert_eq!(is_cheaper_at_switches(100, 6_000, before), before);
        }
        assert!(!is_cheaper_at_switches(100, 40_000, true));
    }
}
