//! A perf.data file made on another day: `perf record -F 400 -e cpu-clock -e sched:sched_switch --switch-events
//! --call-graph dwarf,256 -- sh -c 'sleep 0.02; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'`.
use dwell_analysis::Analysis;
use dwell_import::{Format, ImportError, Imported, Options, import};
use dwell_recording::{Overwrite, Recording, Tables};
use dwell_symbols::Symbolizer;

const FILE: &[u8] = include_bytes!("fixtures/switches.perf.data");

fn imported(bytes: &[u8]) -> Result<(Imported, Tables), ImportError> {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("x.dwell");
    // Names alone: source lines are no question here, and take long to find.
    let mut symbolizer = Symbolizer::new(dwell_symbols::Options {
        lines: false,
        debug_directories: Vec::new(),
        ..dwell_symbols::Options::default()
    });
    let options = Options {
        name: "perf.data".into(),
        ..Options::default()
    };
    let imported = import(&bytes, &options, &mut symbolizer, &to, Overwrite::Refuse)?;
    let tables = Recording::open(&to).expect("opens").load().expect("reads");
    Ok((imported, tables))
}

/// Where the records are.
fn records() -> std::ops::Range<usize> {
    let number =
        |at: usize| u64::from_le_bytes(FILE[at..at + 8].try_into().expect("8 bytes")) as usize;
    number(40)..number(40) + number(48)
}

#[test]
fn threads_states_add_up_and_their_waits_are_there() {
    let (imported, tables) = imported(FILE).expect("imports");
    assert_eq!(imported.format, Format::Perf);
    assert!(
        tables.meta.target.contains("perf record"),
        "{:?}",
        tables.meta
    );
    assert_eq!(tables.meta.machine.arch, "x86_64");
    assert_eq!(tables.meta.period_ns, 2_500_000);
    let mut names: Vec<&str> = tables.threads.iter().map(|t| t.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["sh", "sleep"]);
    let analysis = Analysis::of(&tables);
    for (position, thread) in tables.threads.iter().enumerate() {
        let life = thread.until_ns - thread.start_ns;
        assert_eq!(thread.states_ns(), life, "{thread:?}");
        assert_eq!(analysis.profile.thread_times(position).total(), life);
        // The shell waits for its child, which sleeps for 20 ms.
        assert!(thread.blocked_ns >= 19_000_000, "{thread:?}");
        assert_eq!(thread.lost_ns, 0, "{thread:?}");
    }
    assert!(tables.samples.iter().any(|s| s.state == "running"));
    assert!(tables.samples.iter().any(|s| s.state == "blocked"));
    // 256 bytes of stack are too few, and that is said.
    assert!(
        tables
            .stacks
            .iter()
            .any(|s| s.end == "stack_copy_too_short" || s.end == "no_unwind_info")
    );
}

#[test]
fn records_that_the_kernel_lost_are_counted() {
    // The kernel's own mapping (type 1) becomes a record of losses (type 2): an id, then how many.
    let mut bytes = FILE.to_vec();
    let mut at = records().start;
    while bytes[at] != 1 {
        at += usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
    }
    bytes[at] = 2;
    bytes[at + 16..at + 24].copy_from_slice(&77u64.to_le_bytes());
    let (imported, tables) = imported(&bytes).expect("imports");
    assert_eq!(tables.meta.losses.get("perf_records"), Some(&77));
    assert!(
        imported.notes.iter().any(|n| n.contains("lost 77 records")),
        "{imported:?}"
    );
}

#[test]
fn cut_short_anywhere_it_is_an_error_that_says_so() {
    for len in (0..FILE.len()).step_by(FILE.len() / 50) {
        let error = match imported(&FILE[..len]) {
            Err(error) => error,
            // What is missing then are facts about the machine that nobody asks for.
            Ok(_) if len > records().end => continue,
            Ok(_) => panic!("{len} of {} bytes were imported", FILE.len()),
        };
        let message = error.to_string();
        let says = message.contains("cut short") || message.contains("--from");
        assert!(says, "{len} bytes: {message}");
    }
}

#[test]
fn a_file_of_a_perf_that_was_killed_has_what_was_written() {
    // Such a file has no size of its records, and ends in the middle of one.
    let mut bytes = FILE.to_vec();
    bytes[48..56].fill(0);
    bytes.truncate(records().end - 11);
    let (imported, _) = imported(&bytes).expect("imports");
    assert!(
        imported.notes.iter().any(|n| n.contains("cut short")),
        "{imported:?}"
    );
}

#[test]
fn bytes_that_are_wrong_do_no_harm() {
    // More of the header and the first records than of what follows.
    for at in (0..2000)
        .step_by(97)
        .chain((2000..FILE.len()).step_by(1499))
    {
        let mut bytes = FILE.to_vec();
        bytes[at] ^= 0xff;
        // Whatever comes of it, it comes back.
        let _ = imported(&bytes);
    }
}
