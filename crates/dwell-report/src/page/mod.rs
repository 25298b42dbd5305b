//! A recording as one file for the browser, which needs no network.
//!
//! The page's code is plain modules in `ui/`, put one behind the other into one script; the recording is a JSON text,
//! compressed, in the file itself. What is told in words and tables is the [`Answer`]'s, so that the page and the terminal
//! say the same; stacks and moments are columns beside it, from which the page makes its pictures.
//!
//! **Reduction.** Pictures of more than [`MOST_MOMENTS`] moments would make a file that browsers are slow to open. Then
//! moments shorter than some length are put together with their neighbours of the same thread, under the state and stack
//! that most of that time was; the length and how many were put together is in [`Reduced`], and the page tells it.
//! Likewise the entries of the profile beyond [`MOST_ENTRIES`] lose their stacks, the smallest first, but not their time.
mod columns;
mod reduce;

use crate::answer::{Answer, LockTimeline, LocksAnswer, Options};
use crate::whatif::WhatIfAnswer;
use columns::{Entries, Moments, Threads};
use dwell_analysis::waits::Waits;
use dwell_analysis::{Analysis, State};
use dwell_findings::{Blind, Recorded, blind};
use flate2::Compression;
use flate2::write::GzEncoder;
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

/// The modules of the page's code, each after those that it needs.
const MODULES: [&str; 19] = [
    include_str!("../../ui/model/text.js"),
    include_str!("../../ui/model/data.js"),
    include_str!("../../ui/model/tree.js"),
    include_str!("../../ui/model/functions.js"),
    include_str!("../../ui/model/lanes.js"),
    include_str!("../../ui/model/choice.js"),
    include_str!("../../ui/model/sides.js"),
    include_str!("../../ui/model/knobs.js"),
    include_str!("../../ui/views/dom.js"),
    include_str!("../../ui/views/overview.js"),
    include_str!("../../ui/views/timeline.js"),
    include_str!("../../ui/views/flame.js"),
    include_str!("../../ui/views/functions.js"),
    include_str!("../../ui/views/sides.js"),
    include_str!("../../ui/views/wakers.js"),
    include_str!("../../ui/views/locks.js"),
    include_str!("../../ui/views/memory.js"),
    include_str!("../../ui/views/whatif.js"),
    include_str!("../../ui/main.js"),
];
const STYLE: &str = include_str!("../../ui/style.css");
const FRAME: &str = include_str!("../../ui/page.html");

/// What the page is made from.
#[derive(Serialize)]
struct Payload<'a> {
    answer: Answer,
    could_not_look: Vec<Blind>,
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
    let json = serde_json::to_vec(&payload(analysis, remedies)).map_err(io::Error::other)?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&json)?;
    let data = encode(&packed.finish()?);
    let title = escaped(&analysis.tables.meta.target);
    let script = script();
    // The data last: what is replaced is not looked at again.
    let mut rest = FRAME;
    for (mark, text) in [
        ("@TITLE@", title.as_str()),
        ("@STYLE@", STYLE),
        ("@DATA@", &data),
        ("@SCRIPT@", &script),
    ] {
        let (before, after) = rest.split_once(mark).expect("the frame has every mark");
        out.write_all(before.as_bytes())?;
        out.write_all(text.as_bytes())?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
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
    let (moments, reduced) = columns::moments(analysis);
    let waits = Waits::of(analysis.tables, &analysis.index);
    let locks = LocksAnswer::of(analysis, &waits, &options);
    let timeline = |lock| LockTimeline::of(analysis, lock, TIMELINE_PARTS);
    let first = locks.contended.iter().take(TIMELINES).cloned();
    Payload {
        timelines: first.filter_map(timeline).collect(),
        answer: Answer::of(analysis, &options),
        could_not_look: blind(&Recorded::of(analysis)),
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
        reduced,
        start_ns: analysis.tables.meta.start_ns,
    }
}

fn state(state: State) -> (&'static str, &'static str, String) {
    let [r, g, b] = crate::palette::rgb(state);
    let reason = state.reason().map_or("", |reason| reason.name());
    (state.name(), reason, format!("#{r:02x}{g:02x}{b:02x}"))
}

/// All modules as one script: imports are gone, since everything is in one place.
fn script() -> String {
    let mut script = String::new();
    for line in MODULES.iter().flat_map(|module| module.lines()) {
        if !line.starts_with("import ") {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script
}

fn encode(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::testing::{Scale, fixture};

    #[test]
    fn modules_are_one_script_without_imports() {
        let script = script();
        for line in script.lines() {
            assert!(
                !line.starts_with("import ") && !line.starts_with("export "),
                "{line}"
            );
        }
        // What ends a script's element must not be in it.
        assert!(!script.contains("</script"));
        let of_folder = |folder: &str| {
            let path = format!("{}/ui/{folder}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_dir(path).expect("a folder").count()
        };
        assert_eq!(MODULES.len(), of_folder("model") + of_folder("views") + 1);
    }

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
