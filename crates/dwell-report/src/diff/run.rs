//! What of one recording is compared.
use super::tree::Line;
use crate::answer::Frame;
use crate::plumbing::is_plumbing;
use crate::tree::{IDLE, Shape, Tree};
use dwell_analysis::hottest::{self, HotStack};
use dwell_analysis::locks::kinds::belongs_to_lock;
use dwell_analysis::{Analysis, State, Times};
use dwell_findings::{Finding, Recorded, findings};
use rustc_hash::FxHashMap;

/// Frames that tell waits apart: few enough that a caller far away does not divide what is one wait.
const WAIT_FRAMES: usize = 3;

/// Waits that are compared with each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct WaitKey {
    pub who: String,
    pub reason: &'static str,
    pub syscall: String,
    /// Innermost first: name, and whether it is the kernel's.
    pub frames: Vec<(String, bool)>,
}

/// A recording's part in a comparison.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was recorded, as a person would say it.
    pub target: String,
    /// It is of a command from its begin to its end.
    pub ended: bool,
    pub(super) complete: bool,
    pub(super) exit_code: Option<i32>,
    /// Host, kernel release, processors.
    pub(super) machine: (String, String, u32),
    pub(super) window_ns: u64,
    pub(super) period_ns: u64,
    pub(super) threads: u64,
    pub(super) times: Times,
    /// On a processor, ns: with the function innermost, and with it anywhere. By name and whether it is the kernel's.
    pub(super) functions: FxHashMap<(String, bool), (u64, u64)>,
    pub(super) waits: FxHashMap<WaitKey, u64>,
    pub(super) findings: Vec<Finding>,
    /// Every stack but those of idle pools.
    pub(super) lines: Vec<Line>,
    /// The names of its processes, each once.
    pub(super) processes: Vec<String>,
}

impl Run {
    /// Takes what is compared out of a recording.
    pub fn of(analysis: &Analysis<'_>) -> Run {
        let meta = &analysis.tables.meta;
        let machine = &meta.machine;
        let mut processes: Vec<String> = analysis
            .tables
            .processes
            .iter()
            .map(|p| p.name.clone())
            .collect();
        processes.sort_unstable();
        processes.dedup();
        Run {
            target: meta.target.clone(),
            ended: meta.complete && meta.exit_code.is_some(),
            complete: meta.complete,
            exit_code: meta.exit_code,
            machine: (machine.host.clone(), machine.kernel.clone(), machine.cpus),
            window_ns: analysis.summary.window_ns,
            period_ns: meta.period_ns,
            threads: analysis.summary.total.threads,
            times: analysis.summary.total.times,
            functions: functions(analysis),
            waits: waits(analysis),
            findings: findings(&Recorded::of(analysis)),
            lines: lines(analysis),
            processes,
        }
    }

    /// Calls the only process `to` instead, and the threads that are called like it.
    pub(super) fn rename(&mut self, to: &str) {
        let [from] = self.processes.as_slice() else {
            return;
        };
        let from = from.clone();
        let named = |name: &str| {
            if name == from {
                to.to_owned()
            } else {
                name.to_owned()
            }
        };
        for line in &mut self.lines {
            let mut frames: Vec<String> = line.stack.split(';').map(str::to_owned).collect();
            frames
                .iter_mut()
                .take(2)
                .for_each(|frame| *frame = named(frame));
            line.stack = frames.join(";");
        }
        let waits = std::mem::take(&mut self.waits)
            .into_iter()
            .map(|(mut key, ns)| {
                let parts: Vec<String> = key.who.split('/').map(named).collect();
                key.who = parts.join("/");
                (key, ns)
            });
        self.waits = waits.collect();
        self.processes = vec![to.to_owned()];
    }
}

fn functions(analysis: &Analysis<'_>) -> FxHashMap<(String, bool), (u64, u64)> {
    let mut functions: FxHashMap<(String, bool), (u64, u64)> = FxHashMap::default();
    for hot in hottest::functions(analysis, false) {
        let (own, total) = (hot.own.running(), hot.total.running());
        if total > 0 {
            let function = analysis.names.function(hot.function);
            functions.insert((function.name.clone(), function.kernel), (own, total));
        }
    }
    functions
}

fn waits(analysis: &Analysis<'_>) -> FxHashMap<WaitKey, u64> {
    let mut waits: FxHashMap<WaitKey, u64> = FxHashMap::default();
    let waiting = |s: State| s == State::Runnable || s.reason().is_some();
    for stack in hottest::stacks(analysis, waiting)
        .iter()
        .filter(|s| !s.idle)
    {
        let sum = waits.entry(wait_key(analysis, stack)).or_default();
        *sum = sum.saturating_add(stack.weight_ns);
    }
    waits
}

fn wait_key(analysis: &Analysis<'_>, stack: &HotStack) -> WaitKey {
    let who = analysis.groups.labels[stack.label].short();
    let Some(reason) = stack.state.reason() else {
        // Where it was when it lost its processor is chance.
        return WaitKey {
            who,
            reason: State::Runnable.name(),
            syscall: String::new(),
            frames: Vec::new(),
        };
    };
    let innermost = stack.path.iter().rev().map(|f| analysis.names.function(*f));
    // That it takes a lock says the reason; who takes it is of interest.
    let tells =
        innermost.filter(|f| !f.kernel && !is_plumbing(&f.name) && !belongs_to_lock(&f.name));
    let frames = tells.take(WAIT_FRAMES).map(|f| (f.name.clone(), f.kernel));
    WaitKey {
        who,
        reason: reason.name(),
        syscall: analysis.profile.syscalls[stack.syscall as usize].clone(),
        frames: frames.collect(),
    }
}

impl WaitKey {
    pub fn frames(&self) -> Vec<Frame> {
        let frame = |(function, kernel): &(String, bool)| Frame {
            function: function.clone(),
            kernel: *kernel,
        };
        self.frames.iter().map(frame).collect()
    }
}

fn lines(analysis: &Analysis<'_>) -> Vec<Line> {
    let shape = Shape {
        per_thread: false,
        fold_idle: true,
    };
    let lines = Tree::of(analysis, shape, 0).lines();
    let busy = lines
        .into_iter()
        .filter(|(stack, ns)| *ns > 0 && !stack.starts_with(IDLE));
    busy.map(|(stack, ns)| Line { stack, ns }).collect()
}
