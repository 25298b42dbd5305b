//! The probes of a script, and which of them share a program.
use crate::error::TraceError;
use crate::probes::{self, At, Code, Probe, Process, describe};
use dwell_script::codegen::{Generator, Numbering, SYSTEM_CALLS, Site};
use dwell_script::typed::Script;
use std::collections::{BTreeMap, HashMap};

/// The first numbers of probes, so that a probe keeps its number from script to script: BEGIN, END and ERROR, then
/// the entries and the returns of system calls, then all others as they are found.
const BEGIN: u32 = 1;
const END: u32 = 2;
pub(crate) const ERROR: u32 = 3;
const FIRST_SYSCALL: [u32; 2] = [4, 4 + SYSTEM_CALLS];
const FIRST_OTHER: u32 = 4 + 2 * SYSTEM_CALLS;

/// The probes of a script by number, and the clauses that run for each.
#[derive(Default)]
pub(crate) struct Enabled {
    pub(crate) probes: BTreeMap<u32, (Probe, Vec<usize>)>,
    numbers: HashMap<At, u32>,
}

/// Probes that share a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) site: Site,
    pub(crate) clauses: Vec<usize>,
    /// The only probe, where programs do not learn which one it is.
    only: Option<u32>,
}

impl Enabled {
    pub(crate) fn find(
        script: &Script,
        processes: &mut Vec<Process>,
        may_be_none: bool,
    ) -> Result<Self, TraceError> {
        let mut enabled = Enabled::default();
        for (index, clause) in script.clauses.iter().enumerate() {
            let found = probes::find(&clause.probe, processes)?;
            if found.is_empty() && !may_be_none {
                return Err(TraceError::NoMatch {
                    description: describe(&clause.probe),
                    clause: index,
                    nearest: probes::nearest(&clause.probe, processes),
                });
            }
            found
                .into_iter()
                .for_each(|probe| enabled.add(probe, index));
        }
        Ok(enabled)
    }

    pub(crate) fn add(&mut self, probe: Probe, clause: usize) {
        let last = self
            .probes
            .last_key_value()
            .map_or(0, |(number, _)| *number);
        let next = FIRST_OTHER.max(last + 1);
        let number = *self
            .numbers
            .entry(probe.at.clone())
            .or_insert(match &probe.at {
                At::Begin => BEGIN,
                At::End => END,
                At::Error => ERROR,
                At::Syscall { number, returns } => FIRST_SYSCALL[usize::from(*returns)] + number,
                _ => next,
            });
        let (_, clauses) = self
            .probes
            .entry(number)
            .or_insert_with(|| (probe, Vec::new()));
        if clauses.last() != Some(&clause) {
            clauses.push(clause);
        }
    }

    /// The probes that share a program, by number.
    pub(crate) fn groups(&self, generator: &mut Generator<'_>) -> BTreeMap<Group, Vec<u32>> {
        let mut groups: BTreeMap<Group, Vec<u32>> = BTreeMap::new();
        for (number, (probe, clauses)) in &self.probes {
            let (site, shared) = match &probe.at {
                At::Begin => (Site::Begin, false),
                At::End => (Site::End, false),
                At::Error => continue,
                At::Profile(_) => (Site::Profile, false),
                At::Tick(_) => (Site::Tick, false),
                At::Syscall { returns: false, .. } => (Site::SyscallEntry, true),
                At::Syscall { returns: true, .. } => (Site::SyscallReturn, true),
                At::Tracepoint(_) => (Site::Tracepoint, false),
                At::Code { what, .. } => (code_site(what, generator), true),
            };
            let only = (!shared).then_some(*number);
            groups
                .entry(Group {
                    site,
                    clauses: clauses.clone(),
                    only,
                })
                .or_default()
                .push(*number);
        }
        groups
    }
}

/// How a group's program learns which probe fired.
pub(crate) fn numbering(group: &Group, numbers: &[u32]) -> Numbering {
    let calls = |first: u32| Numbering::SystemCalls {
        first,
        wanted: numbers.iter().map(|n| n - first).collect(),
    };
    match (group.site, numbers) {
        (Site::SyscallEntry, _) => calls(FIRST_SYSCALL[0]),
        (Site::SyscallReturn, _) => calls(FIRST_SYSCALL[1]),
        (_, [only]) => Numbering::One(*only),
        _ => Numbering::Cookie,
    }
}

fn code_site(what: &Code, generator: &mut Generator<'_>) -> Site {
    match what {
        Code::Entry => Site::Entry,
        Code::Return => Site::Return,
        Code::Instruction => Site::Offset,
        Code::Static { operands, .. } => generator.static_site(operands),
    }
}
