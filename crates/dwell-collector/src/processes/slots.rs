//! Processes by their numbers. Little is kept of those that are over: a recording may see millions.
use super::Process;
use crate::roots::Root;
use std::sync::Arc;

/// Who executed code that no file has.
#[derive(Clone)]
pub struct Executor {
    /// Its pid as we see it.
    pub pid: u32,
    /// As it sees it itself.
    pub ns_pid: u32,
    /// Its root directory, if that is not ours.
    pub root: Option<Arc<Root>>,
}

impl Executor {
    fn of(process: &Process) -> Self {
        Executor {
            pid: process.row.pid,
            ns_pid: process.row.ns_pid,
            root: process.root.clone(),
        }
    }
}

enum Slot {
    /// It lives, or its end is yet to be written.
    Kept(Box<Process>),
    Past(Executor),
}

/// See the module's text.
#[derive(Default)]
pub struct Slots(Vec<Slot>);

const KEPT: &str = "a process is kept as long as a thread of it is";

impl Slots {
    /// The number of the next one.
    pub fn next(&self) -> u32 {
        self.0.len() as u32
    }

    /// Takes in the next one.
    pub fn push(&mut self, process: Process) {
        self.0.push(Slot::Kept(Box::new(process)));
    }

    /// The last one that had this pid.
    pub fn last_of(&self, pid: u32) -> Option<u32> {
        let has_pid = |slot: &Slot| match slot {
            Slot::Kept(process) => process.row.pid == pid,
            Slot::Past(past) => past.pid == pid,
        };
        self.0.iter().rposition(has_pid).map(|id| id as u32)
    }

    /// One that is kept.
    pub fn get(&self, id: u32) -> &Process {
        match &self.0[id as usize] {
            Slot::Kept(process) => process,
            Slot::Past(_) => panic!("{KEPT}"),
        }
    }

    /// The same, to change.
    pub fn get_mut(&mut self, id: u32) -> &mut Process {
        self.if_kept(id).expect(KEPT)
    }

    /// The same, if it is kept.
    pub fn if_kept(&mut self, id: u32) -> Option<&mut Process> {
        match &mut self.0[id as usize] {
            Slot::Kept(process) => Some(process),
            Slot::Past(_) => None,
        }
    }

    /// Who it was, of any there was.
    pub fn executor(&self, id: u32) -> Executor {
        match &self.0[id as usize] {
            Slot::Kept(process) => Executor::of(process),
            Slot::Past(past) => past.clone(),
        }
    }

    /// Those that are kept.
    pub fn kept(&mut self) -> impl Iterator<Item = &mut Process> {
        self.0.iter_mut().filter_map(|slot| match slot {
            Slot::Kept(process) => Some(&mut **process),
            Slot::Past(_) => None,
        })
    }

    /// Keeps those for which `keep` says so, and of others who they were.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Process) -> bool) {
        for slot in &mut self.0 {
            if let Slot::Kept(process) = slot
                && !keep(process)
            {
                *slot = Slot::Past(Executor::of(process));
            }
        }
    }
}
