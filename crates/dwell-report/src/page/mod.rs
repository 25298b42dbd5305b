//! A recording as one file for the browser, which needs no network.
//!
//! [`shell`] puts the file together from the code in `ui/` and a JSON text. What is told in words and tables is the [`Answer`]'s, so that the page and the terminal
//! say the same; stacks and moments are columns beside it, from which the page makes its pictures.
//!
//! **Reduction.** Pictures of more than [`MOST_MOMENTS`] moments would make a file that browsers are slow to open. Then
//! moments shorter than some length are put together with their neighbours of the same thread, under the state and stack
//! that most of that time was; the length and how many were put together is in [`Reduced`], and the page tells it.
//! Likewise the entries of the profile beyond [`MOST_ENTRIES`] lose their stacks, the smallest first, but not their time.
mod columns;
mod compare;
mod reduce;
mod shell;

pub use compare::write_diff;

use crate::answer::{Answer, LockTimeline, LocksAnswer, Options};
use crate::whatif::WhatIfAnswer;
use columns::{Entries, MemoryWork, Moments, Threads};
use dwell_analysis::locks::Locks;
use dwell_analysis::{Analysis, State};
use reduce::Reduced;
use serde::Serialize;
use std::io::{self, Write};

/// Moments that a page has at most.
pub const MOST_MOMENTS: usize = 1_000_000;
/// Entries of the profile that a page has at most with their stacks.
pub const MOST_ENTRIES: usize = 150_000;

/// Locks that are shown over time, and how many parts the time has.
const TIMELINES: usize = 10;
const TIMELINE_PARTS: usize = 300;

/// What the page is made from.
#[derive(Serialize)]
struct Payload<'a> {
    answer: Answer,
    locks: LocksAnswer,
    /// Of the first locks of `locks.contended`: who held them and how many waited, over time.
    timelines: Vec<LockTimeline>,
    remedies: Remedies<'a>,
    /// `[name, reason, colour]` of every state; columns have its place.
    states: Vec<(&'static str, &'static str, String)>,
    /// Names of functions, and which of them are the kernel's.
    functions: Vec<&'a str>,
    kernel: Vec<u8>,
    /// `file:line` of functions, where that is known: by function.
    places: Vec<(u32, String)>,
    /// Functions of every path, outermost first.
    paths: Vec<&'a [u32]>,
    syscalls: &'a [String],
    threads: Threads<'a>,
    entries: Entries,
    moments: Moments<'a>,
    memory_work: MemoryWork,
    reduced: Reduced,
    start_ns: u64,
}

/// What the usual remedies would do, or why that cannot be said.
#[derive(Serialize)]
struct Remedies<'a> {
    answer: Option<&'a WhatIfAnswer>,
    why: &'a str,
}

/// Writes the page of a recording. `remedies` is what the usual remedies for its locks would do, or why that cannot be said.
pub fn write(
    analysis: &Analysis<'_>,
    remedies: Result<&WhatIfAnswer, &str>,
    out: &mut impl Write,
) -> io::Result<()> {
    let remedies = Remedies {
        answer: remedies.ok(),
        why: remedies.err().unwrap_or_default(),
    };
    let title = &analysis.tables.meta.target;
    shell::write(title, &payload(analysis, remedies), &shell::RECORDING, out)
}

fn payload<'a>(analysis: &'a Analysis<'_>, remedies: Remedies<'a>) -> Payload<'a> {
    let options = Options {
        stacks: 30,
        functions: 100,
        waits: 100,
        locks: 50,
        recording: None,
    };
    let names = &analysis.names;
    let found = Locks::of(analysis);
    let of_sites = columns::lock_of_sites(analysis, &found, options.locks);
    let (moments, reduced) = columns::moments(analysis, &of_sites);
    let locks = LocksAnswer::with(analysis, &found, &options);
    let timeline = |lock| LockTimeline::of(analysis, lock, TIMELINE_PARTS);
    let first = locks.contended.iter().take(TIMELINES).cloned();
    Payload {
        timelines: first.filter_map(timeline).collect(),
        answer: Answer::of(analysis, &options),
        locks,
        remedies,
        states: State::all().map(state).collect(),
        functions: names.functions.iter().map(|f| f.name.as_str()).collect(),
        kernel: names.functions.iter().map(|f| u8::from(f.kernel)).collect(),
        places: columns::places(analysis),
        paths: (0..names.path_count())
            .map(|path| names.path(path as u32))
            .collect(),
        syscalls: &analysis.profile.syscalls,
        threads: columns::threads(analysis),
        entries: columns::entries(analysis),
        moments,
        memory_work: columns::memory_work(analysis),
        reduced,
        start_ns: analysis.tables.meta.start_ns,
    }
}

fn state(state: State) -> (&'static str, &'static str, String) {
    let [r, g, b] = crate::palette::rgb(state);
    let reason = state.reason().map_or("", |reason| reason.name());
    (state.name(), reason, format!("#{r:02x}{g:02x}{b:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::testing::{Scale, fixture};

    #[test]
    fn a_page_is_one_file_without_addresses_of_others() {
        let tables = fixture(Scale::default());
        let mut out = Vec::new();
        write(&Analysis::of(&tables), Err("no locks"), &mut out).expect("memory takes all");
        let page = String::from_utf8(out).expect("text");
        assert!(!page.contains("src=") && !page.contains("href=\"http"));
        assert!(page.contains("default-src 'none'"));
        assert_eq!(page.matches("</script>").count(), 2);
    }
}
