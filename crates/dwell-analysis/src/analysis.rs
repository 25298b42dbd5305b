//! Everything that is computed once for a recording and read by every answer.
use crate::groups::Groups;
use crate::idle::Idle;
use crate::index::Index;
use crate::locks::sites::{self, FutexSite};
use crate::names::{Missing, Names, StackRef};
use crate::profile::Profile;
use crate::state::Reason;
use crate::summary::Summary;
use crate::waits::Waits;
use dwell_recording::tables::Tables;

/// A recording with its joins done.
#[derive(Debug)]
pub struct Analysis<'t> {
    /// What was recorded.
    pub tables: &'t Tables,
    /// From ids to rows.
    pub index: Index,
    /// Threads that are the same kind of worker.
    pub groups: Groups,
    /// Functions and paths.
    pub names: Names,
    /// Single waits.
    pub waits: Waits,
    /// What the waits on futexes are for.
    pub(crate) futex_sites: Vec<FutexSite>,
    /// In step with `sites`: why threads wait there.
    pub reasons: Vec<Reason>,
    /// Weighted stacks.
    pub profile: Profile,
    /// How the window divides.
    pub summary: Summary,
    /// Pools that wait for work.
    pub idle: Idle,
}

impl<'t> Analysis<'t> {
    /// Computes it all.
    pub fn of(tables: &'t Tables) -> Analysis<'t> {
        let index = Index::of(tables);
        let groups = Groups::of(tables, &index);
        let names = Names::of(tables, &index);
        let waits = Waits::of(tables, &index);
        let mut analysis = Analysis {
            tables,
            index,
            groups,
            names,
            waits,
            futex_sites: Vec::new(),
            reasons: Vec::new(),
            profile: Profile::default(),
            summary: Summary::default(),
            idle: Idle::default(),
        };
        analysis.futex_sites = sites::of(&analysis);
        analysis.reasons = sites::reasons(&analysis);
        analysis.profile = Profile::of(&analysis);
        analysis.summary = Summary::of(tables, &analysis.groups, &analysis.profile);
        analysis.idle = Idle::of(&analysis);
        analysis
    }
    /// The stack with this id, as the profile names it.
    pub(crate) fn profile_stack(&self, id: u32) -> StackRef {
        match self.index.stack(id) {
            Some(position) => StackRef::Taken(position as u32),
            None => StackRef::Missing(Missing::StackLost),
        }
    }
}
