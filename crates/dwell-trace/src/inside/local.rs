//! Programs that belong to no place in the target run here: BEGIN, END, and at intervals.
use super::Made;
use super::code::{self, Surroundings};
use super::memory::{Memory, Shape};
use crate::error::TraceError;
use crate::probes::At;
use dwell_script::codegen::Site;
use memmap2::{Mmap, MmapMut};
use std::time::{Duration, Instant};

/// Words of a context in which there is nothing.
const CONTEXT: usize = 32;
/// Intervals that are made up for when we come late; more are left out, as a timer leaves them out.
const MOST_LATE: u32 = 100;

/// Code in our own memory.
pub(super) struct Local {
    code: Option<Mmap>,
    programs: Vec<(Site, usize)>,
    ticks: Vec<Tick>,
}

struct Tick {
    start: usize,
    period: Duration,
    next: Instant,
}

impl Local {
    pub(super) fn new(made: &[Made], shape: &Shape, memory: &Memory) -> Result<Local, TraceError> {
        let wanted = made
            .iter()
            .filter(|m| matches!(m.site, Site::Begin | Site::End | Site::Tick));
        let wanted: Vec<&Made> = wanted.collect();
        let mut local = Local {
            code: None,
            programs: Vec::new(),
            ticks: Vec::new(),
        };
        let longest: usize = wanted.iter().map(|m| 64 + 64 * m.program.code.len()).sum();
        let room = dwell_agent::CODE.len() + 64 + longest;
        let failed = |error| TraceError::Kernel {
            doing: "making memory for code".into(),
            error,
        };
        let mut map = MmapMut::map_anon(room).map_err(failed)?;
        let base = map.as_ptr() as u64;
        let surroundings = Surroundings {
            shape,
            agent: base,
            state: memory.at(0) as u64,
            is_target: false,
        };
        map[..dwell_agent::CODE.len()].copy_from_slice(dwell_agent::CODE);
        let mut end = dwell_agent::CODE.len().next_multiple_of(32);
        for made in wanted {
            let code = code::local(made, &surroundings, base + end as u64)?;
            map[end..end + code.len()].copy_from_slice(&code);
            local.add(made, end);
            end = (end + code.len()).next_multiple_of(32);
        }
        local.code = Some(map.make_exec().map_err(failed)?);
        Ok(local)
    }

    fn add(&mut self, made: &Made, start: usize) {
        self.programs.push((made.site, start));
        for (_, at) in &made.members {
            if let At::Tick(period) = at {
                self.ticks.push(Tick {
                    start,
                    period: Duration::from_nanos(*period),
                    next: Instant::now(),
                });
            }
        }
    }

    fn call(&self, start: usize, context: &[u64; CONTEXT]) {
        let code = self.code.as_ref().expect("it was made");
        // SAFETY: a function that keeps to C's rules begins there. It works on the memory it was made for, which
        // lives as long as this.
        unsafe {
            let function: extern "C" fn(*const u64) -> u64 =
                std::mem::transmute(code.as_ptr().add(start));
            function(context.as_ptr());
        }
    }

    /// Whether there are programs of a kind.
    pub(super) fn has(&self, site: Site) -> bool {
        self.programs.iter().any(|(s, _)| *s == site)
    }

    /// Runs the programs of a kind.
    pub(super) fn run(&self, site: Site) {
        self.run_with(site, &[0; CONTEXT]);
    }

    /// The same with a context.
    pub(super) fn run_with(&self, site: Site, context: &[u64; CONTEXT]) {
        let all = self.programs.iter().filter(|(s, _)| *s == site);
        all.for_each(|(_, start)| self.call(*start, context));
    }

    /// Intervals begin now.
    pub(super) fn start_ticks(&mut self) {
        let now = Instant::now();
        for tick in &mut self.ticks {
            tick.next = now + tick.period;
        }
    }

    /// Runs what is due; when the next one is.
    pub(super) fn run_ticks(&mut self) -> Option<Instant> {
        let now = Instant::now();
        for at in 0..self.ticks.len() {
            for _ in 0..MOST_LATE {
                if self.ticks[at].next > now {
                    break;
                }
                self.call(self.ticks[at].start, &[0; CONTEXT]);
                let period = self.ticks[at].period;
                self.ticks[at].next += period;
            }
            let tick = &mut self.ticks[at];
            tick.next = tick.next.max(now);
        }
        self.ticks.iter().map(|t| t.next).min()
    }
}
