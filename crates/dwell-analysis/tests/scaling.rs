//! The rules of scaling, one drawing each.
use dwell_analysis::names::{Missing, StackRef};
use dwell_analysis::testing::{MS, TablesBuilder, drawn};
use dwell_analysis::{Analysis, Reason, State};
use dwell_recording::rows::SliceRow;
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

/// Both stays stand for 40 ms off the processor, but one was asleep nearly all of it, the other hardly.
#[test]
fn a_sample_s_slice_tells_its_blocked_part_from_its_runnable_part() {
    let mut builder = TablesBuilder::new();
    let process = builder.process("demo");
    let thread = builder.thread(process, "main");
    let site = builder.site(thread, "sleep", "nanosleep", "");
    for (leaf, blocked_ns, runnable_ns) in [("f", 9 * MS, MS), ("g", MS, 9 * MS)] {
        let (start_ns, stack) = (builder.now(thread), builder.stack(&[leaf]));
        builder.waited(site, blocked_ns, runnable_ns, 1);
        builder.sample(thread, "blocked", stack, Some(site), 40 * MS);
        builder.tables.slices.push(SliceRow {
            thread,
            site,
            start_ns,
            blocked_ns,
            runnable_ns,
            stack: Some(stack),
            ..SliceRow::default()
        });
    }
    assert_eq!(
        entries(&builder.tables),
        [
            "main runnable nanosleep f 1",
            "main runnable nanosleep g 9",
            "main sleep nanosleep f 9",
            "main sleep nanosleep g 1",
        ]
    );
}

/// A thread that ran for `ran_us` at a time, of which `sampled_us` could be sampled, between short
/// sleeps; another that computed throughout, with as many samples as it ran periods.
fn bursts(ran_us: u64, sampled_us: u64) -> Tables {
    const BURSTS: u64 = 100_000;
    let mut builder = TablesBuilder::new();
    let period_ns = builder.tables.meta.period_ns;
    let process = builder.process("demo");
    let solver = builder.thread(process, "solver");
    builder.ran(solver, 2000 * period_ns);
    let solve = builder.stack(&["solve"]);
    for _ in 0..2000 {
        builder.sample(solver, "running", solve, None, period_ns);
    }
    let sleeper = builder.thread(process, "sleeper");
    builder.ran(sleeper, BURSTS * ran_us * 1000);
    let compute = builder.stack(&["compute"]);
    for _ in 0..BURSTS * sampled_us * 1000 / period_ns {
        builder.sample(sleeper, "running", compute, None, period_ns);
    }
    let site = builder.site(sleeper, "sleep", "nanosleep", "");
    builder.waited(site, BURSTS * 1000, 0, BURSTS);
    let nap = builder.stack(&["nap", "schedule_[k]"]);
    builder.sample(sleeper, "blocked", nap, Some(site), period_ns);
    builder.tables
}

#[test]
fn the_time_of_switching_belongs_to_where_threads_go_to_sleep() {
    assert_eq!(
        entries(&bursts(50, 30)),
        [
            "sleeper running  compute 3000",
            "sleeper running  schedule 2000",
            "sleeper sleep nanosleep schedule 100",
            "solver running  solve 20000",
        ]
    );
}

#[test]
fn without_unsampled_time_nothing_is_given_to_switching() {
    assert_eq!(
        entries(&bursts(50, 50)),
        [
            "sleeper running  compute 5000",
            "sleeper sleep nanosleep schedule 100",
            "solver running  solve 20000",
        ]
    );
}

/// A processor that stood still is no switch: a thread that hardly switches keeps its functions.
#[test]
fn a_switch_is_not_charged_with_more_than_it_can_take() {
    let mut tables = bursts(50, 50);
    tables.threads[0].running_ns *= 2;
    tables.threads[0].until_ns += tables.threads[0].running_ns / 2;
    tables.threads[0].involuntary_switches = 100;
    let lines = entries(&tables);
    assert!(
        lines.contains(&"solver running  solve 40000".to_owned()),
        "{lines:?}"
    );
}

/// Time on the run queue after 1 000 sleeps and after one preemption at the same stack: the one is no
/// count of the whole, and would give a wrong mean.
#[test]
fn runnable_time_has_no_count_when_a_part_follows_sleeps() {
    let mut builder = TablesBuilder::new();
    let process = builder.process("demo");
    let thread = builder.thread(process, "main");
    let stack = builder.stack(&["f"]);
    for (reason, blocked_ns, count) in [("poll", 10 * MS, 1000), ("", 0, 1)] {
        let site = builder.site(thread, reason, "epoll_wait", "");
        builder.waited(site, blocked_ns, 50 * MS, count);
        builder.sample(thread, "blocked", stack, Some(site), 10 * MS);
    }
    let entries = Analysis::of(&builder.tables).profile.entries;
    let counts: Vec<_> = entries
        .iter()
        .map(|e| (e.state.name(), e.weight_ns / MS, e.waits))
        .collect();
    assert_eq!(counts, [("runnable", 100, 0), ("blocked", 10, 1000)]);
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

/// Processes with the same name: those without a stack have those of the others, but not of one that is long.
#[test]
fn processes_without_a_stack_are_taken_for_others_of_the_name() {
    let mut tables = drawn(
        "process | 1 | 2  | 3 | 4   | 5          | 6          | other
         thread  | a | b  | c | d   | a          | b          | main
         time    | 2 | 4  | 6 | 300 | 2          | 3          | 1
         weight  | - | 10 | 9 | 310 | 2          | -          | -
         state   |   |    |   |     | io read    | io read    |
         stack   | ? | f  | g | h   | r          | ?          | ?",
    );
    for (row, process) in tables.threads.iter_mut().zip(&mut tables.processes) {
        if process.name != "other" {
            process.name = "job".to_owned();
            row.name = "job".to_owned();
        }
    }
    // Of 2 ms two thirds, as f's sample stands for 6 ms more than its process had and g's for 3.
    let us = |stack: &str| -> u64 {
        let analysis = Analysis::of(&tables);
        let of_first = analysis.profile.entries.iter().filter(|e| e.thread == 0);
        let is_it = |e: &&dwell_analysis::Entry| {
            let path = analysis.names.path(analysis.names.path_of(e.stack));
            analysis.names.function(*path.last().unwrap()).name == stack
        };
        of_first.filter(is_it).map(|e| e.weight_ns / 1000).sum()
    };
    assert_eq!([us("f"), us("g"), us("h")], [1333, 666, 0]);
    let lines = entries(&tables);
    assert!(lines.contains(&"job io read r 3".to_owned()), "{lines:?}");
    assert!(
        lines.contains(&"main running  [not sampled] 1".to_owned()),
        "{lines:?}"
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
