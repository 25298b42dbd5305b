//! User stacks of the processes that a script can meet.
use crate::enabled::Group;
use crate::error::TraceError;
use crate::inside::Made;
use crate::probes::At;
use crate::programs::takes_user_stacks;
use dwell_collector::UserStacks;
use dwell_script::typed::{Binary, Builtin, Clause, Expr, ExprKind, Script};
use std::collections::BTreeSet;

/// The unwinder, ready for what these programs can meet; none if no program takes user stacks.
pub(crate) fn load(
    made: &[(Group, Made)],
    script: &Script,
) -> Result<Option<UserStacks>, TraceError> {
    let taking: Vec<_> = made
        .iter()
        .filter(|(_, made)| takes_user_stacks(&made.program))
        .collect();
    if taking.is_empty() {
        return Ok(None);
    }
    let mut stacks = UserStacks::load()?;
    let processes: Option<Vec<_>> = taking
        .iter()
        .map(|(group, made)| processes(group, made, script))
        .collect();
    match processes {
        Some(processes) => {
            let processes: BTreeSet<u32> = processes.into_iter().flatten().collect();
            processes.iter().try_for_each(|pid| stacks.follow(*pid))?;
        }
        // Files that all processes share are read once, the others take the longest.
        None => stacks.follow_all()?,
    }
    Ok(Some(stacks))
}

/// The processes whose threads can run a program; none if all can.
fn processes(group: &Group, made: &Made, script: &Script) -> Option<Vec<u32>> {
    let mut clauses = group.clauses.iter().map(|at| &script.clauses[*at]);
    if let Some(chosen) = clauses.by_ref().map(chosen_process).collect() {
        return Some(chosen);
    }
    let places = made.members.iter().map(|(_, at)| match at {
        At::Code { pid, .. } => Some(*pid),
        // These run in our own thread.
        At::Begin | At::End => Some(std::process::id()),
        _ => None,
    });
    places.collect()
}

/// The only process that a clause's predicate lets pass, if it says so: `pid == 123 && …`.
fn chosen_process(clause: &Clause) -> Option<u32> {
    fn chosen(e: &Expr) -> Option<u32> {
        match &e.kind {
            ExprKind::And(a, b) => chosen(a).or_else(|| chosen(b)),
            ExprKind::Binary(Binary::Equal, a, b) => match (bare(a), bare(b)) {
                (ExprKind::Builtin(Builtin::Pid), ExprKind::Int(pid))
                | (ExprKind::Int(pid), ExprKind::Builtin(Builtin::Pid)) => u32::try_from(*pid).ok(),
                _ => None,
            },
            ExprKind::Cast(inner) => chosen(inner),
            _ => None,
        }
    }
    fn bare(e: &Expr) -> &ExprKind {
        match &e.kind {
            ExprKind::Cast(inner) => bare(inner),
            kind => kind,
        }
    }
    clause.predicate.as_ref().and_then(chosen)
}
