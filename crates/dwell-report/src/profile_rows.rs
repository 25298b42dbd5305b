//! The profile as rows of a table, for stores.
use crate::frames::{Frames, ThreadNames};
use dwell_analysis::Analysis;
use dwell_analysis::names::StackRef;
use dwell_recording::rows::ProfileRow;
use rustc_hash::FxHashMap;

/// Every stack of every thread with its time.
pub fn profile_rows(analysis: &Analysis<'_>) -> Vec<ProfileRow> {
    let frames = Frames::of(analysis);
    let mut stacks: FxHashMap<StackRef, (String, String)> = FxHashMap::default();
    let entries = analysis.profile.entries.iter();
    let row = |entry: &dwell_analysis::Entry| {
        let of = ThreadNames::of(analysis, entry.thread as usize);
        let stack = stacks.entry(entry.stack);
        let (function, stack) = stack.or_insert_with(|| names(analysis, &frames, entry.stack));
        let reason = entry.state.reason();
        ProfileRow {
            process: of.process.to_owned(),
            pid: of.pid,
            thread: of.thread.to_owned(),
            tid: of.tid,
            state: entry.state.name().to_owned(),
            reason: reason.map(|r| r.name().to_owned()).unwrap_or_default(),
            syscall: analysis.profile.syscall(entry).to_owned(),
            function: function.clone(),
            stack: stack.clone(),
            weight_ns: entry.weight_ns,
        }
    };
    entries.map(row).collect()
}

/// The innermost function of a stack, and all of them.
fn names(analysis: &Analysis<'_>, frames: &Frames<'_, '_>, stack: StackRef) -> (String, String) {
    let path = analysis.names.path(analysis.names.path_of(stack));
    let names: Vec<String> = path
        .iter()
        .map(|f| frames.names[*f as usize].replace(';', ","))
        .collect();
    (names.last().cloned().unwrap_or_default(), names.join(";"))
}
