//! The frames of moments for formats that number them: functions, and behind them what a thread did.
use crate::tree::labels::{function_name, state_frame};
use dwell_analysis::groups::process_name;
use dwell_analysis::names::{Missing, StackRef};
use dwell_analysis::{Analysis, Moment, State};
use rustc_hash::FxHashMap;

/// Numbers and names of frames.
pub(crate) struct Frames<'a, 't> {
    analysis: &'a Analysis<'t>,
    /// By number: functions as the analysis numbers them, then the frames of states.
    pub names: Vec<String>,
    leaves: FxHashMap<(State, u32), Option<u32>>,
}

impl<'a, 't> Frames<'a, 't> {
    pub fn of(analysis: &'a Analysis<'t>) -> Frames<'a, 't> {
        Frames {
            analysis,
            names: analysis.names.functions.iter().map(function_name).collect(),
            leaves: FxHashMap::default(),
        }
    }

    /// The frames of a moment, outermost first. The last says what the thread did unless it ran.
    pub fn of_moment(&mut self, moment: &Moment) -> Vec<u32> {
        let names = &self.analysis.names;
        let mut frames = names.path(names.path_of(moment.stack)).to_vec();
        frames.extend(self.leaf(moment));
        frames
    }

    /// The frame that says what the thread did; none if it ran, or if the stack says it.
    pub fn leaf(&mut self, moment: &Moment) -> Option<u32> {
        if let StackRef::Missing(Missing::Stolen | Missing::Lost) = moment.stack {
            return None;
        }
        let key = (moment.state, moment.syscall);
        if let Some(known) = self.leaves.get(&key) {
            return *known;
        }
        let syscall = &self.analysis.profile.syscalls[moment.syscall as usize];
        let leaf = state_frame(moment.state, syscall).map(|name| {
            self.names.push(name);
            self.names.len() as u32 - 1
        });
        self.leaves.insert(key, leaf);
        leaf
    }
}

/// What a thread and its process are called.
pub(crate) struct ThreadNames<'a> {
    pub pid: u32,
    pub process: &'a str,
    pub tid: u32,
    pub thread: &'a str,
}

impl<'a> ThreadNames<'a> {
    pub fn of(analysis: &'a Analysis<'_>, thread: usize) -> ThreadNames<'a> {
        let row = &analysis.tables.threads[thread];
        let process = analysis.index.process(row.process);
        ThreadNames {
            pid: process.map_or(0, |p| analysis.tables.processes[p].pid),
            process: process_name(analysis.tables, process),
            tid: row.tid,
            thread: &row.name,
        }
    }
}
