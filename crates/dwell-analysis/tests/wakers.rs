//! Who ended the waits, and what they were really waiting for.
use dwell_analysis::chains::{Chain, Root, chains, chains_of};
use dwell_analysis::testing::{MS, Scale, drawn_waits, fixture};
use dwell_analysis::wakers::{Waker, longest, totals};
use dwell_analysis::{Analysis, Reason};
use dwell_recording::tables::Tables;

fn label(analysis: &Analysis<'_>, label: usize) -> String {
    analysis.groups.labels[label].thread.clone()
}

fn waker_name(analysis: &Analysis<'_>, waker: &Waker) -> String {
    match waker {
        Waker::Thread(thread) => label(analysis, *thread),
        Waker::Foreign(name) | Waker::Interrupt(name) => name.clone(),
        Waker::Nobody => "nobody".to_owned(),
    }
}

/// `main lock < worker pipe < [timer] 90`
fn line(analysis: &Analysis<'_>, chain: &Chain) -> String {
    let mut steps: Vec<String> = chain
        .links
        .iter()
        .map(|link| format!("{} {}", label(analysis, link.label), link.reason.name()))
        .collect();
    steps.push(match &chain.root {
        Root::Running(thread) => format!("{} ran", label(analysis, *thread)),
        Root::Runnable(thread) => format!("{} runnable", label(analysis, *thread)),
        Root::Waker(waker) => waker_name(analysis, waker),
        Root::Deeper => "deeper".to_owned(),
    });
    format!("{} {}", steps.join(" < "), chain.charged_ns / MS)
}

fn all_chains(tables: &Tables) -> Vec<String> {
    let analysis = Analysis::of(tables);
    chains(&analysis)
        .iter()
        .map(|chain| line(&analysis, chain))
        .collect()
}

fn first_wait_of(tables: &Tables, thread: &str) -> Vec<String> {
    let analysis = Analysis::of(tables);
    let thread = tables
        .threads
        .iter()
        .position(|t| t.name == thread)
        .unwrap();
    let wait = analysis.waits.of_thread(thread)[0];
    chains_of(&analysis, &wait)
        .iter()
        .map(|chain| line(&analysis, chain))
        .collect()
}

#[test]
fn three_hops_are_followed_to_their_root() {
    let tables = drawn_waits(
        "main   lock  futex     0..100  by holder
         holder pipe  read      2..99   by writer
         writer sleep nanosleep 3..98   by [timer]",
    );
    assert_eq!(
        first_wait_of(&tables, "main"),
        [
            "main lock < holder pipe < writer sleep < [timer] 95",
            "main lock < holder ran 3",
            "main lock < holder pipe < writer ran 2"
        ]
    );
}

#[test]
fn a_holder_that_ran_is_the_root() {
    let tables = drawn_waits(
        "main   lock futex 0..100 by holder
         holder io   fsync 50..60 by [irq]",
    );
    assert_eq!(
        first_wait_of(&tables, "main"),
        [
            "main lock < holder ran 90",
            "main lock < holder io < [irq] 10"
        ]
    );
}

#[test]
fn a_holder_without_a_processor_is_told_apart() {
    let tables = drawn_waits(
        "main   lock  futex     0..100   by holder
         holder sleep nanosleep 10..20+70 by [timer]",
    );
    assert_eq!(
        first_wait_of(&tables, "main"),
        [
            "main lock < holder runnable 70",
            "main lock < holder ran 20",
            "main lock < holder sleep < [timer] 10"
        ]
    );
}

#[test]
fn foreign_wakers_and_waits_without_end_are_roots() {
    let tables = drawn_waits(
        "main socket recv 0..50 by !nginx
         main poll   poll 60..90",
    );
    assert_eq!(
        all_chains(&tables),
        ["main socket < nginx 50", "main poll < nobody 30"]
    );
}

#[test]
fn a_wait_for_the_end_of_a_thread_is_followed_through_all_its_sleeps() {
    let mut text = "main lock futex 0..3000 by worker\n".to_owned();
    for round in 0..1000 {
        let at = round * 3;
        text += &format!("worker sleep nanosleep {at}..{} by [timer]\n", at + 2);
    }
    assert_eq!(
        first_wait_of(&drawn_waits(&text), "main"),
        [
            "main lock < worker sleep < [timer] 2000",
            "main lock < worker ran 1000"
        ]
    );
}

#[test]
fn waits_before_the_wait_do_not_count() {
    let tables = drawn_waits(
        "holder io   fsync 0..10 by [irq]
         main   lock futex 20..50 by holder",
    );
    assert_eq!(
        first_wait_of(&tables, "main"),
        ["main lock < holder ran 30"]
    );
}

#[test]
fn threads_that_wake_each_other_do_not_loop() {
    let mut text = String::new();
    for round in 0..40 {
        let at = round * 20;
        text += &format!("ping pipe read {at}..{} by pong\n", at + 10);
        text += &format!("pong pipe read {}..{} by ping\n", at + 10, at + 20);
    }
    let tables = drawn_waits(&text);
    let analysis = Analysis::of(&tables);
    let charged: u64 = chains(&analysis).iter().map(|c| c.charged_ns).sum();
    assert_eq!(charged, 800 * MS);
}

#[test]
fn chains_and_wakers_divide_the_covered_time_completely() {
    let mut tables = fixture(Scale {
        seconds: 3,
        ..Scale::default()
    });
    divides_completely(&tables);
    tables.meta.recorder.waits_passed_over = 1;
    divides_completely(&tables);
}

fn divides_completely(tables: &Tables) {
    let analysis = Analysis::of(tables);
    assert!(analysis.waits.covered_ns > analysis.waits.blocked_ns * 9 / 10);
    let chained: u64 = chains(&analysis).iter().map(|c| c.charged_ns).sum();
    assert_eq!(chained, analysis.waits.covered_ns);
    let woken: u64 = totals(&analysis).iter().map(|w| w.charged_ns).sum();
    assert_eq!(woken, analysis.waits.covered_ns);
    for wait in longest(&analysis, 20) {
        let own: u64 = chains_of(&analysis, wait)
            .iter()
            .map(|c| c.charged_ns)
            .sum();
        assert_eq!(own, wait.blocked_ns());
    }
}

#[test]
fn wakers_are_named_with_their_stack() {
    let tables = drawn_waits(
        "main lock futex 0..50  by holder at run;unlock
         main lock futex 60..70 by holder at run;other
         main lock futex 80..85 by [irq]",
    );
    let analysis = Analysis::of(&tables);
    let woken = totals(&analysis);
    assert_eq!(woken.len(), 2);
    assert_eq!(waker_name(&analysis, &woken[0].waker), "holder");
    assert_eq!(
        (woken[0].charged_ns, woken[0].kept, woken[0].max_ns),
        (60 * MS, 2, 50 * MS)
    );
    let leaf = *analysis
        .names
        .path(woken[0].waker_path.unwrap())
        .last()
        .unwrap();
    assert_eq!(analysis.names.function(leaf).name, "unlock");
    assert_eq!(waker_name(&analysis, &woken[1].waker), "[irq]");
}

#[test]
fn the_longest_waits_come_first_and_no_more_than_wanted() {
    let tables = drawn_waits(
        "main lock   futex 0..50    by [irq]
         main socket recv  60..170  by [irq]
         main io     read  180..200 by [irq]",
    );
    let analysis = Analysis::of(&tables);
    let lengths: Vec<u64> = longest(&analysis, 2)
        .iter()
        .map(|w| w.blocked_ns() / MS)
        .collect();
    assert_eq!(lengths, [110, 50]);
}

#[test]
fn sampled_short_waits_stand_for_those_not_kept() {
    // Site total 100 ms: one long wait of 40 ms that is kept for its length, one short wait of 1 ms
    // that was sampled with a weight of 10 ms. The rest is charged in the proportion 40 : 10.
    let mut tables = drawn_waits(
        "main lock futex 0..40  by [irq]
         main lock futex 50..51 by holder",
    );
    tables.slices[1].stack = Some(0);
    tables.samples.push(dwell_recording::rows::SampleRow {
        time_ns: tables.slices[1].start_ns + MS,
        thread: 0,
        state: "blocked".to_owned(),
        site: Some(0),
        weight_ns: 10 * MS,
        ..Default::default()
    });
    tables.site_times[0].blocked_ns = 99 * MS;
    tables.threads[0].blocked_ns = 100 * MS;
    let analysis = Analysis::of(&tables);
    let charged: Vec<u64> = totals(&analysis)
        .iter()
        .map(|w| w.charged_ns / MS)
        .collect();
    assert_eq!(charged, [80, 20]);
    assert_eq!(totals(&analysis)[0].reason, Reason::Lock);
}
