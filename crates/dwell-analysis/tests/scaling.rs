//! The rules of scaling, one drawing each.
use dwell_analysis::names::{Missing, StackRef};
use dwell_analysis::testing::{MS, drawn};
use dwell_analysis::{Analysis, Reason, State};
use dwell_recording::tables::Tables;

/// `thread state syscall leaf ms` of every entry.
fn entries(tables: &Tables) -> Vec<String> {
    let analysis = Analysis::of(tables);
    let line = |entry: &dwell_analysis::Entry| {
        let path = analysis.names.path(analysis.names.path_of(entry.stack));
        let leaf = &analysis.names.function(*path.last().unwrap()).name;
        let thread = &tables.threads[entry.thread as usize].name;
        let state = entry
            .state
            .reason()
            .map_or(entry.state.name(), Reason::name);
        let syscall = analysis.profile.syscall(entry);
        format!("{thread} {state} {syscall} {leaf} {}", entry.weight_ns / MS)
    };
    let mut lines: Vec<String> = analysis.profile.entries.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn samples_of_a_site_share_its_exact_sums_by_weight() {
    let tables = drawn(
        "thread | main       | main
         state  | lock futex | lock futex
         site   | a          | a
         time   | 30+6       | 10+2
         weight | 10         | 30
         stack  | f          | g",
    );
    assert_eq!(
        entries(&tables),
        [
            "main lock futex f 10",
            "main lock futex g 30",
            "main runnable futex f 2",
            "main runnable futex g 6"
        ]
    );
}

#[test]
fn without_weights_the_shares_are_equal() {
    let tables = drawn(
        "state  | io read | io read
         site   | a       | a
         time   | 30      | 10
         weight | 0       | 0
         stack  | f       | g",
    );
    assert_eq!(entries(&tables), ["main io read f 20", "main io read g 20"]);
}

#[test]
fn a_site_without_a_stack_borrows_from_its_group_first() {
    let tables = drawn(
        "thread | worker-1   | worker-2   | main
         state  | lock futex | lock futex | lock futex
         time   | 30         | 10         | 5
         weight | 30         | -          | 5
         stack  | f          | ?          | g",
    );
    assert_eq!(
        entries(&tables),
        [
            "main lock futex g 5",
            "worker-1 lock futex f 30",
            "worker-2 lock futex f 10"
        ]
    );
}

#[test]
fn a_site_without_a_stack_in_its_group_borrows_from_its_process() {
    let tables = drawn(
        "process| demo       | demo       | other
         thread | main       | io         | io
         state  | lock futex | lock futex | lock futex
         time   | 30         | 10         | 5
         weight | 30         | -          | -
         stack  | f          |            | ",
    );
    assert_eq!(
        entries(&tables),
        [
            "io lock futex [no stack taken] 5",
            "io lock futex f 10",
            "main lock futex f 30"
        ]
    );
}

#[test]
fn time_of_lost_sites_is_kept() {
    let mut tables = drawn(
        "state  | lock futex | io read
         time   | 30+3       | 10
         stack  | f          | g",
    );
    tables.sites.remove(0);
    let lines = entries(&tables);
    assert_eq!(
        lines,
        [
            "main io read g 10",
            "main runnable  [site unknown] 3",
            "main unknown  [site unknown] 30"
        ]
    );
    assert_eq!(Analysis::of(&tables).profile.orphan_ns, 33 * MS);
}

#[test]
fn sites_that_claim_too_much_are_scaled_down() {
    let mut tables = drawn(
        "state  | lock futex | io read
         time   | 30         | 10
         stack  | f          | g",
    );
    tables.threads[0].blocked_ns = 20 * MS;
    assert_eq!(
        entries(&tables),
        ["main io read g 5", "main lock futex f 15"]
    );
}

#[test]
fn long_running_threads_are_scaled_alone_and_short_ones_together() {
    // Period 10 ms: 20 periods are 200 ms.
    let tables = drawn(
        "thread | big  | small-1 | small-2 | tiny
         time   | 300  | 30      | 10      | 4
         weight | 10   | 10      | 30      | -
         stack  | f    | g       | h       | ?",
    );
    assert_eq!(
        entries(&tables),
        [
            "big running  f 300",
            "small-1 running  g 10",
            "small-1 running  h 20",
            "small-2 running  h 10",
            "tiny running  [not sampled] 4"
        ]
    );
}

#[test]
fn lost_time_is_a_state() {
    let tables = drawn(
        "state | running | lost
         time  | 10      | 3
         stack | f       | ",
    );
    let analysis = Analysis::of(&tables);
    let lost = analysis
        .profile
        .entries
        .iter()
        .find(|e| e.state == State::Lost)
        .unwrap();
    assert_eq!(lost.weight_ns, 3 * MS);
    assert_eq!(lost.stack, StackRef::Missing(Missing::Lost));
    assert_eq!(analysis.summary.total.times.lost(), 3 * MS);
}

#[test]
fn waits_are_counted_and_the_longest_kept() {
    let tables = drawn(
        "state  | lock futex | lock futex
         site   | a          | b
         time   | 30         | 10
         waits  | 6          | 2
         stack  | f          | g",
    );
    let analysis = Analysis::of(&tables);
    let waits: Vec<(u64, u64)> = analysis
        .profile
        .entries
        .iter()
        .map(|e| (e.waits, e.max_wait_ns / MS))
        .collect();
    assert_eq!(waits, [(6, 5), (2, 5)]);
}
