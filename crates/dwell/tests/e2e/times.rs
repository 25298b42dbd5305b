//! The sums: every thread's states add up to its life in the window, and running, runnable and
//! blocked time are those that the kernel and the programs' own logs tell.

use crate::common::*;
use dwell_recording::rows::{SiteRow, SliceRow};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

type Wrong = BTreeMap<String, String>;

// ---- threads that sleep throughout ----

#[derive(serde::Deserialize)]
struct Sleepers {
    threads: Vec<Sleeper>,
}

#[derive(serde::Deserialize)]
struct Sleeper {
    tid: u32,
    name: String,
    function: String,
    reason: String,
}

/// Nothing of them is ever switched: no event says that they are there.
#[test]
#[ignore = "needs root"]
fn threads_that_sleep_throughout_have_their_whole_window() {
    let scratch = Scratch::on_disk();
    let running = Running::start_ready("sleepers", &["60"]);
    let truth: Sleepers = serde_json::from_str(&running.first_line).expect("JSON");
    let recorded = attach(&scratch, running.pid(), "2s");
    drop(running);
    let view = View::of(&recorded.tables);
    assert_closed(&view);
    let meta = &recorded.tables.meta;
    let window = meta.end_ns - meta.start_ns;
    assert!(window >= 2_000 * MS, "{window}");
    assert_eq!(
        recorded.tables.threads.len(),
        truth.threads.len() + 1,
        "and the main thread"
    );
    for row in &recorded.tables.threads {
        let life = row.until_ns - row.start_ns;
        assert_eq!(row.start_ns, meta.start_ns, "{row:?}");
        assert_eq!(row.until_ns, meta.end_ns, "{row:?}");
        assert!(near(row.blocked_ns, life, 0.001, 0), "{row:?}");
    }
    for sleeper in &truth.threads {
        let thread = view.thread(sleeper.tid, &sleeper.name);
        let times = view.times_in(thread, &sleeper.function);
        let blocked = blocked_for(&times, &sleeper.reason);
        assert!(
            near(blocked, window, 0.001, MS),
            "{}: {times:?}",
            sleeper.function
        );
    }
}

/// Sleeps of 400 ms are in progress when the window begins and when it ends; the parts that lie
/// outside do not count.
#[test]
#[ignore = "needs root"]
fn sleeps_in_progress_at_both_ends_are_cut() {
    let scratch = Scratch::on_disk();
    let kinds = "nanosleep,sigtimedwait,condvar,pipe,poll,mutex,hog";
    let mut command = Command::new(program("waits"));
    command.args(["--duration", "60", "--rate", "2.5", "--kinds", kinds]);
    let running = Running::start(&mut command);
    std::thread::sleep(Duration::from_millis(500));
    let pid = running.pid();
    let read = || -> BTreeMap<u32, (u64, u64)> {
        let tasks = tasks(pid).into_iter();
        tasks
            .filter_map(|tid| Some((tid, schedstat(pid, tid)?)))
            .collect()
    };
    let before = read();
    let recorded = attach(&scratch, pid, "1.3s");
    let after = read();
    drop(running);
    let view = View::of(&recorded.tables);
    assert_closed(&view);
    let meta = &recorded.tables.meta;
    let window = meta.end_ns - meta.start_ns;
    assert_eq!(recorded.tables.threads.len(), before.len());
    let mut computed = 0;
    for row in &recorded.tables.threads {
        let life = row.until_ns - row.start_ns;
        assert_eq!(life, window, "{row:?}");
        // The kernel's sums over a span that holds the window.
        let (run, delay) = (
            after[&row.tid].0 - before[&row.tid].0,
            after[&row.tid].1 - before[&row.tid].1,
        );
        let most = run + run / 100 + 5 * MS;
        assert!(row.running_ns <= most, "{run}: {row:?}");
        assert!(
            row.runnable_ns <= delay + delay / 100 + MS,
            "{delay}: {row:?}"
        );
        if row.name == "hog" {
            computed += 1;
            assert!(row.blocked_ns < life / 1000, "it never sleeps: {row:?}");
        } else {
            assert!(
                row.blocked_ns > life * 9 / 10,
                "it nearly always sleeps: {row:?}"
            );
        }
    }
    assert_eq!(computed, 1);
}

// ---- what others had of the processor ----

/// The kernel does not count to a thread what the machine's host had of its processor, and neither do we.
#[test]
#[ignore = "needs root"]
fn stolen_time_is_not_running_time() {
    let scratch = Scratch::on_disk();
    let json = scratch.file("truth.json");
    let own = ["--duration", "4", "--kinds", "hog", "--json", &json];
    let meter = StallMeter::start();
    let recorded = launch(&scratch, &[], "waits", &own);
    let stalled = meter.stop();
    let view = View::of(&recorded.tables);
    assert_closed(&view);
    let truth = Truth::read(&json);
    let hog = truth.threads.iter().find(|t| t.name == "hog");
    let hog = hog.expect("it computes");
    let row = view.row(view.thread(hog.tid, &hog.name));
    println!("stalled {stalled} ns, {hog:?}, {row:?}");
    assert!(hog.schedstat_run_ns > 1000 * MS);
    assert!(near(row.running_ns, hog.schedstat_run_ns, 0.002, MS));
    // It never sleeps: what it did not run nor wait in a queue, others had; also before and after it reads its clocks.
    let beyond = (row.until_ns - row.start_ns) - (hog.end_ns - hog.start_ns);
    let taken = hog.blocked_ns as u64;
    let tolerance = (taken / 100).max(MS);
    let expected = taken.saturating_sub(tolerance)..=taken + tolerance + beyond;
    assert!(expected.contains(&row.stolen_ns), "{expected:?}");
    assert!(row.stolen_ns <= stalled, "of {stalled} ns");
}

// ---- many threads, short lives ----

#[derive(serde::Deserialize)]
struct ManyThreads {
    alive: usize,
    born: usize,
    cpu_ns: u64,
}

/// Running time beyond what the kernel charged: 1 %, the machine's stalls, and per stay off the processor
/// what lies between the end of a thread's charged time and its leaving the processor.
fn at_most(charged: u64, stays: u64, stalled: u64) -> u64 {
    charged + charged / 100 + stays * 4_000 + stalled + 2 * MS
}

#[test]
#[ignore = "needs root"]
fn hundreds_of_threads_from_birth_to_death() {
    let scratch = Scratch::on_disk();
    for args in [["pool", "500", "2"], ["storm", "100", "1.5"]] {
        let meter = StallMeter::start();
        let recorded = launch(&scratch, &[], "manythreads", &args);
        let stalled = meter.stop();
        let line = recorded.stdout.lines().last().expect("a line");
        let truth: ManyThreads = serde_json::from_str(line).expect("JSON");
        let view = View::of(&recorded.tables);
        assert_closed(&view);
        let threads = &recorded.tables.threads;
        assert_eq!(
            threads.len(),
            truth.born + 1,
            "{args:?}: and the main thread"
        );
        assert!(threads.iter().all(|t| t.ended), "every end was seen");
        assert!(truth.alive >= 100);
        let running: u64 = threads.iter().map(|t| t.running_ns).sum();
        let stays = threads
            .iter()
            .map(|t| t.voluntary_switches + t.involuntary_switches);
        let most = at_most(truth.cpu_ns, stays.sum(), stalled);
        println!(
            "{args:?}: {} threads ran for {running} ns of {}",
            threads.len(),
            truth.cpu_ns
        );
        // The program reads its clock a little before its end.
        assert!(
            running >= truth.cpu_ns - truth.cpu_ns / 100,
            "{running} of {}",
            truth.cpu_ns
        );
        let at_end = truth.born as u64 * 20_000;
        assert!(running <= most + at_end, "{running} of {most} at most");
    }
}

#[test]
#[ignore = "needs root"]
fn hundreds_of_threads_attached() {
    let scratch = Scratch::on_disk();
    let running = Running::start_ready("manythreads", &["pool", "500", "60"]);
    let recorded = attach(&scratch, running.pid(), "2s");
    drop(running);
    let view = View::of(&recorded.tables);
    assert_closed(&view);
    let meta = &recorded.tables.meta;
    let window = meta.end_ns - meta.start_ns;
    assert_eq!(recorded.tables.threads.len(), 501);
    for row in &recorded.tables.threads {
        let life = row.until_ns - row.start_ns;
        assert_eq!(life, window, "{row:?}");
        if row.name.starts_with("pool-") {
            // On a busy machine it may wait for a processor, but it does not compute.
            let idle = row.blocked_ns + row.runnable_ns;
            assert!(idle >= life * 9 / 10 && row.blocked_ns > 0, "{row:?}");
        }
    }
}

#[derive(serde::Deserialize)]
struct ForkStorm {
    born: usize,
    executed: usize,
    children_cpu_s: f64,
}

#[test]
#[ignore = "needs root"]
fn processes_that_are_born_and_die_all_the_time() {
    let scratch = Scratch::on_disk();
    let meter = StallMeter::start();
    let recorded = launch(&scratch, &[], "forkstorm", &["1.5", "8"]);
    let stalled = meter.stop();
    let truth: ForkStorm = serde_json::from_str(&recorded.stdout).expect("JSON");
    let view = View::of(&recorded.tables);
    assert_closed(&view);
    let tables = &recorded.tables;
    assert_eq!(tables.processes.len(), truth.born + 1, "and their parent");
    assert_eq!(tables.threads.len(), truth.born + 1);
    assert!(
        tables.threads.iter().all(|t| t.ended)
            && tables.processes.iter().all(|p| p.end_ns.is_some())
    );
    let execs = tables.events.iter().filter(|e| e.kind == "exec").count();
    assert_eq!(execs, truth.executed + 1);
    let children = tables
        .threads
        .iter()
        .filter(|t| t.tid != tables.processes[0].pid);
    let (mut running, mut stays) = (0, 0);
    for child in children {
        running += child.running_ns;
        stays += child.voluntary_switches + child.involuntary_switches;
    }
    let charged = (truth.children_cpu_s * 1e9) as u64;
    let most = at_most(charged, stays, stalled) + truth.born as u64 * 20_000;
    println!("{} processes ran for {running} ns of {charged}", truth.born);
    assert!(running >= charged - charged / 50, "{running} of {charged}");
    assert!(
        running <= most + charged / 50,
        "{running} of {most} at most"
    );
}

// ---- programs that log their own waits ----

/// A thread's life, as far as the program can tell: from its first instruction to its last.
fn check_life(view: &View<'_>, truth: &Truth) {
    let ahead = boottime_ahead_ns();
    let mut beyond = Vec::new();
    for thread in &truth.threads {
        let row = view.row(view.thread(thread.tid, &thread.name));
        let (start, end) = (thread.start_ns + ahead, thread.end_ns + ahead);
        assert!(row.ended, "{row:?}");
        assert!(
            row.start_ns <= start,
            "born after its first instruction: {row:?} {thread:?}"
        );
        assert!(
            row.until_ns >= end,
            "dead before its last instruction: {row:?} {thread:?}"
        );
        if truth.start_ns > 0 {
            assert!(
                row.start_ns >= truth.start_ns + ahead,
                "born before its program: {row:?}"
            );
            // It gives the word to whoever joins it, and leaves the processor; on a busy machine
            // there may be others first.
            assert!(
                row.until_ns <= truth.end_ns + ahead + 100 * MS,
                "outlives it: {row:?}"
            );
        }
        // Before its first instruction and after its last it may wait for a processor, which it
        // cannot tell: the recording does.
        let waited = |slice: &&SliceRow| {
            slice.thread == row.thread
                && (slice.start_ns < start
                    || slice.start_ns + slice.blocked_ns + slice.runnable_ns > end)
        };
        let waited = view.tables().slices.iter().filter(waited);
        let waited: u64 = waited.map(|s| s.blocked_ns + s.runnable_ns).sum();
        let life = row.until_ns - row.start_ns;
        let rest = (life - (end - start)).saturating_sub(waited);
        beyond.push(rest as f64 / (life as f64 * 0.001).max(MS as f64));
    }
    // It may also stand still in the middle of its first or last instruction, when somebody else has
    // the machine; not most of the threads.
    beyond.sort_by(f64::total_cmp);
    let typical = beyond[beyond.len() / 2];
    println!("  lives beyond the programs' own: {typical:.3} of the tolerance for one half");
    assert!(typical <= 1.0, "{beyond:?}");
}

/// Running and runnable time of every thread against the kernel's.
fn check_run(view: &View<'_>, truth: &Truth, stalled: u64, wrong: &mut Wrong) {
    let per_stay = truth.unaccounted_per_stay();
    let ahead = boottime_ahead_ns();
    for thread in &truth.threads {
        let position = view.thread(thread.tid, &thread.name);
        let row = view.row(position);
        let run = thread.schedstat_run_ns;
        let unaccounted = (per_stay * (thread.voluntary + thread.involuntary) as f64) as u64;
        let most = run + run / 100 + 2 * MS + stalled + unaccounted;
        // The clocks of a processor are not read at one instant: what is charged at a switch can be
        // some microseconds more than it was on the processor.
        let least = run - run / 100;
        if row.running_ns < least || row.running_ns > most {
            let text = format!("ran {} ms, schedstat {} ms", ms(row.running_ns), ms(run));
            wrong.insert(format!("{}: running", thread.name), text);
        }
        // The program reads run_delay shortly before the thread ends.
        let after = view
            .tables()
            .slices
            .iter()
            .filter(|s| s.thread == row.thread && s.start_ns >= thread.end_ns + ahead);
        let after: u64 = after.map(|s| s.runnable_ns).sum();
        let delay = thread.run_delay_ns + after;
        if !near(row.runnable_ns, delay, 0.01, MS) {
            let text = format!(
                "runnable {} ms, run_delay {} ms",
                ms(row.runnable_ns),
                ms(delay)
            );
            wrong.insert(format!("{}: runnable", thread.name), text);
        }
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Blocked time of every site against the program's log.
fn check_sites(view: &View<'_>, truth: &Truth, stalled: u64, wrong: &mut Wrong) {
    let per_stay = truth.unaccounted_per_stay();
    let (mut right, mut total, mut misjudged) = (0, 0, Vec::new());
    let (mut worst, mut checked) = (0.0f64, 0);
    for thread in &truth.threads {
        let position = view.thread(thread.tid, &thread.name);
        // The innermost of the thread's functions that are sites: one may call another.
        let site_of = |stack| {
            let functions = view.functions(stack);
            let sites = functions.filter_map(|f| thread.sites.iter().position(|s| s.function == f));
            sites.last()
        };
        // What the host took of its processor, and the machine's stalls put on its clocks as sleep;
        // `check_run` says how much the latter may be.
        let row = view.row(position);
        let taken = row.stolen_ns.min(stalled);
        let taken = taken + row.running_ns.saturating_sub(thread.schedstat_run_ns);
        // Asleep in the loop at no site: a page fault after a fork, for example. One in the midst of
        // reading the clocks is part of a site to them.
        let stray = view.times(position, |stack| {
            site_of(stack).is_none() && view.functions(stack).any(|f| f.starts_with("run_"))
        });
        for (number, site) in thread.sites.iter().enumerate() {
            let times = view.times(position, |stack| site_of(stack) == Some(number));
            let mut blocked = times.blocked();
            // On its way to the wait, or back, it may fault and wait for the memory map.
            let faults = view.times(position, |stack| {
                site_of(stack) == Some(number) && view.contains(stack, "asm_exc_page_fault")
            });
            let mut well = blocked_for(&times, &site.reason);
            if site.reason != "fault" {
                well += blocked_for(&faults, "fault");
            }
            right += well;
            total += blocked;
            if blocked > well {
                let what = format!("{}: {}", thread.name, site.function);
                misjudged.push((blocked - well, what, site.reason.clone()));
            }
            if thread.has_remainder(site) {
                blocked += stray.blocked();
            }
            let expected = site.blocked_ns.max(0) as u64;
            // What the program's clocks cannot tell: per wait, and (elsewhere_ns) in all.
            let limit =
                per_stay * site.waits as f64 + thread.elsewhere_ns.abs().min(MS as i64) as f64;
            let tolerance = (expected as f64 * 0.01).max(MS as f64) + limit;
            let mut off = blocked as f64 - site.blocked_ns as f64;
            if off < 0.0 {
                off = (off + (taken + stray.blocked()) as f64).min(0.0);
            }
            worst = worst.max(off.abs() / tolerance);
            checked += 1;
            if off.abs() > tolerance {
                let text = format!(
                    "blocked {} ms, {} ms by its own log ({} waits; taken {} ms; tolerance {:.2} ms)",
                    ms(blocked),
                    ms(expected),
                    site.waits,
                    ms(taken),
                    tolerance / 1e6
                );
                wrong.insert(format!("{}: {}", thread.name, site.function), text);
            }
        }
    }
    let share = right as f64 / total as f64;
    println!(
        "  {checked} sites, {:.1} s blocked; worst {worst:.2} of the tolerance; reasons right for {:.3} %; \
         the clocks leave out {per_stay:.0} ns per stay; {:.0} switches/s",
        total as f64 / 1e9,
        share * 100.0,
        truth.switches_per_s
    );
    assert!(checked > 0 && total > 0);
    if share < 0.99 {
        misjudged.sort();
        let most: Vec<_> = misjudged.iter().rev().take(5).collect();
        wrong.insert(
            "reasons".into(),
            format!("right for {share} of the weight: {most:?}"),
        );
    }
}

/// All of it for one run.
fn measure(scratch: &Scratch, name: &str, args: &[&str]) -> Wrong {
    let json = scratch.file("truth.json");
    let folder = scratch.file("");
    let own = [args, &["--dir", &folder, "--json", &json]].concat();
    let meter = StallMeter::start();
    let recorded = launch(scratch, &[], name, &own);
    let stalled = meter.stop();
    let truth = Truth::read(&json);
    let view = View::of(&recorded.tables);
    println!("{name} {args:?}: {} ms stood still", stalled / MS);
    assert_closed(&view);
    check_life(&view, &truth);
    let mut wrong = Wrong::new();
    check_run(&view, &truth, stalled, &mut wrong);
    check_sites(&view, &truth, stalled, &mut wrong);
    wrong
}

fn check(name: &str, args: &[&str]) {
    let scratch = Scratch::on_disk();
    wrong_every_time(&format!("{name} {args:?}"), || {
        measure(&scratch, name, args)
    });
}

#[test]
#[ignore = "needs root"]
fn waits_of_every_kind() {
    check("waits", &["--duration", "4"]);
}

#[test]
#[ignore = "needs root"]
fn waits_at_a_hundred_thousand_switches_a_second() {
    check("waits", &["--duration", "3", "--storm", "100000"]);
}

#[test]
#[ignore = "needs root"]
fn waits_of_threads_that_are_forced_from_one_processor_to_another() {
    check("waits", &["--duration", "4", "--migrate"]);
}

#[test]
#[ignore = "needs root"]
fn waits_at_a_high_rate_and_forced_to_migrate() {
    check(
        "waits",
        &["--duration", "3", "--storm", "100000", "--migrate"],
    );
}

#[test]
#[ignore = "needs root"]
fn a_service_that_does_a_bit_of_everything() {
    check("mixed", &["--seconds", "3"]);
}

// ---- reasons ----

#[derive(serde::Deserialize)]
struct Reasons {
    waits: Vec<NamedWait>,
}

/// A wait of one thread, whose reason is beyond doubt.
#[derive(serde::Deserialize)]
struct NamedWait {
    tid: u32,
    name: String,
    reason: String,
    syscall: String,
    ms: u64,
}

/// Waits that a thread's sites of this reason and system call (`*`: any) add up to, ns.
fn blocked_at(view: &View<'_>, thread: u32, wait: &NamedWait) -> u64 {
    let is_it = |site: u32| {
        let position = view.analysis.index.site(site);
        let row = position.map(|p| &view.tables().sites[p]);
        row.is_some_and(|row| {
            row.thread == thread
                && row.reason == wait.reason
                && (wait.syscall == "*" || row.syscall == wait.syscall)
        })
    };
    let times = view.tables().site_times.iter();
    times.filter(|t| is_it(t.site)).map(|t| t.blocked_ns).sum()
}

/// One run: the waits that are not where they belong.
fn misplaced() -> Wrong {
    let scratch = Scratch::new();
    let json = scratch.file("truth.json");
    let recorded = launch(&scratch, &[], "reasons", &[&json]);
    let truth = std::fs::read_to_string(&json).expect("the program wrote it");
    let truth: Reasons = serde_json::from_str(&truth).expect("JSON");
    assert!(truth.waits.len() >= 24);
    let view = View::of(&recorded.tables);
    assert_closed(&view);
    let tables = &recorded.tables;
    let mut wrong = Wrong::new();
    for wait in &truth.waits {
        let rows: Vec<_> = tables
            .threads
            .iter()
            .filter(|t| t.tid == wait.tid)
            .collect();
        let blocked_ns: u64 = rows.iter().map(|t| blocked_at(&view, t.thread, wait)).sum();
        // Timers are not early, but a wait may begin a little after its clock.
        if blocked_ns < (wait.ms - 20) * MS {
            let its = |site: &&SiteRow| rows.iter().any(|t| t.thread == site.thread);
            let sites = tables.sites.iter().filter(its);
            let sites: Vec<_> = sites.map(|s| (&s.reason, &s.syscall)).collect();
            wrong.insert(
                wait.name.clone(),
                format!("{blocked_ns} ns; its sites: {sites:?}"),
            );
        }
    }
    wrong
}

/// (On a busy machine a thread may begin its wait when it is nearly over; not the same one every time.)
#[test]
#[ignore = "needs root"]
fn reasons_of_waits_of_many_kinds() {
    wrong_every_time("reasons", misplaced);
}
