//! Who ended a wait: the thread, where it was when it did, and the chain behind it down to its root.

use crate::common::*;
use dwell_analysis::chains::{self, Root};
use dwell_analysis::waits::Wait;
use dwell_analysis::wakers::Waker;
use dwell_recording::rows::SliceRow;
use std::collections::{BTreeMap, BTreeSet};

/// By site: the functions of a thread's truth that its stacks contain.
fn functions_of_sites<'a>(
    view: &View<'_>,
    thread: &'a ThreadTruth,
) -> BTreeMap<u32, BTreeSet<&'a str>> {
    let row = view.row(view.thread(thread.tid, &thread.name));
    let mut sites: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for sample in view
        .tables()
        .samples
        .iter()
        .filter(|s| s.thread == row.thread)
    {
        let (Some(site), Some(stack)) = (sample.site, view.stack(sample.stack)) else {
            continue;
        };
        // The innermost: one function of a program may call another.
        let known = view.functions(stack).filter_map(|f| {
            let site = thread.sites.iter().find(|s| s.function == f)?;
            Some(site.function.as_str())
        });
        if let Some(function) = known.last() {
            sites.entry(site).or_default().insert(function);
        }
    }
    sites
}

/// The kept waits of a thread at a function, with their rows.
fn waits_at<'v>(
    view: &'v View<'v>,
    thread: &ThreadTruth,
    site: &SiteTruth,
) -> Vec<(&'v Wait, &'v SliceRow)> {
    let sites = functions_of_sites(view, thread);
    let function = site.function.as_str();
    let position = view.thread(thread.tid, &thread.name);
    let of_function = |slice: &SliceRow| match slice.stack.and_then(|id| view.stack(id)) {
        Some(stack) => view.contains(stack, function),
        // Kept for its length alone. Its site tells, when nothing else waits there.
        None => sites
            .get(&slice.site)
            .is_some_and(|f| f.len() == 1 && f.contains(function)),
    };
    let rows = view
        .analysis
        .waits
        .of_thread(position)
        .iter()
        .map(|w| (w, &view.tables().slices[w.slice as usize]));
    // On its way to or from a wait a thread may wait for a page: that has wakers of its own.
    let is_meant = |slice: &SliceRow| {
        let position = view.analysis.index.site(slice.site);
        position.is_some_and(|at| view.analysis.reasons[at].name() == site.reason)
    };
    rows.filter(|(_, slice)| of_function(slice) && is_meant(slice))
        .collect()
}

/// What share of the waits' weight is so.
fn share(waits: &[(&Wait, &SliceRow)], is_so: impl Fn(&SliceRow) -> bool) -> f64 {
    let total: u64 = waits.iter().map(|(w, _)| w.charged_ns).sum();
    let so = waits.iter().filter(|(_, s)| is_so(s));
    so.map(|(w, _)| w.charged_ns).sum::<u64>() as f64 / total.max(1) as f64
}

/// The functions one of which a waker was in.
fn waking_functions(function: &str) -> Vec<String> {
    let of = |prefix: &str| function.strip_prefix(prefix);
    match function {
        "wait_mutex" => vec!["release_mutex".into()],
        "wait_flock" => vec!["release_flock".into()],
        // Inlined into the loop of the partner.
        _ if of("serve_").is_some() => vec!["run_return".into()],
        _ if of("return_").is_some() => vec!["run_serve".into()],
        _ => vec![format!("wake_{}", of("wait_").unwrap_or(function))],
    }
}

const RIGHT: f64 = 0.99;
/// A kernel may shield some of its threads from eBPF: while they are current, no waking is seen. Each such
/// waking is counted, and at one site there are few.
const UNSEEN_AT_A_SITE: u64 = 8;

/// Wakers of `waits`, with any options.
fn check_wakers(args: &[&str]) {
    let scratch = Scratch::on_disk();
    let (json, folder) = (scratch.file("truth.json"), scratch.file(""));
    let own = [args, &["--dir", &folder, "--json", &json]].concat();
    let recorded = launch(&scratch, &[], "waits", &own);
    let truth = Truth::read(&json);
    let view = View::of(&recorded.tables);
    let waits = &view.analysis.waits;
    let covered = waits.covered_ns as f64 / waits.blocked_ns as f64;
    println!(
        "waits {args:?}: kept waits cover sites with {:.3} % of the blocked time",
        covered * 100.0
    );
    assert!(covered >= RIGHT, "{covered}");
    let unseen = recorded.tables.meta.losses["wakers_of_unseen_wakings"];
    let mut checked = 0;
    for thread in &truth.threads {
        for site in &thread.sites {
            // Below that a site hardly has a sample.
            if site.blocked_ns < 50 * MS as i64 {
                continue;
            }
            let mut found = waits_at(&view, thread, site);
            let label = format!("{}: {}", thread.name, site.function);
            assert!(!found.is_empty(), "{label}: no wait was kept");
            let named = share(&found, |s| !s.waker_name.is_empty());
            let nameless = found.iter().filter(|(_, s)| s.waker_name.is_empty());
            let nameless = nameless.count() as u64;
            assert!(
                named >= RIGHT || nameless <= unseen.min(UNSEEN_AT_A_SITE),
                "{label}: {named} of the waits have a waker, {nameless} have none; {unseen} were not seen"
            );
            checked += 1;
            found.retain(|(_, s)| !s.waker_name.is_empty());
            if !site.waker.is_empty() {
                check_thread_waker(&view, &label, site, &found);
            } else if site.reason == "sleep" {
                let by_timer = |s: &SliceRow| s.waker_name == "[timer]" && s.waker_tid.is_none();
                let timer = share(&found, by_timer);
                assert!(
                    timer >= RIGHT,
                    "{label}: {timer} ended by a timer: {:?}",
                    names(&found)
                );
            } else {
                // A disk's interrupt, or the kernel's thread that completes what it began; not one of the program's
                // own, but for `child`: who forks holds the lock of the address space, which reads into a buffer and
                // page faults wait for.
                let own = share(&found, |s| {
                    s.waker_thread.is_some() && s.waker_name != "child"
                });
                println!("  {label}: {:?}", names(&found));
                assert!(
                    own <= 0.2,
                    "{label}: {own} ended by the program itself: {:?}",
                    names(&found)
                );
            }
        }
    }
    println!("  {checked} sites");
    assert!(checked >= 20, "{checked} sites only");
}

/// Wakers with the number of waits each ended.
fn names<'v>(found: &[(&Wait, &'v SliceRow)]) -> BTreeMap<&'v str, usize> {
    let mut names = BTreeMap::new();
    for (_, slice) in found {
        *names.entry(slice.waker_name.as_str()).or_default() += 1;
    }
    names
}

fn check_thread_waker(
    view: &View<'_>,
    label: &str,
    site: &SiteTruth,
    found: &[(&Wait, &SliceRow)],
) {
    let is_right = |slice: &SliceRow| {
        let thread = slice
            .waker_thread
            .and_then(|id| view.analysis.index.thread(id));
        slice.waker_name == site.waker
            && thread.is_some_and(|t| {
                view.row(t).name == site.waker && Some(view.row(t).tid) == slice.waker_tid
            })
    };
    for (_, slice) in found.iter().filter(|(_, slice)| !is_right(slice)) {
        let functions = |stack: Option<u32>| -> Vec<&str> {
            let stack = stack.and_then(|id| view.stack(id));
            stack.map_or_else(Vec::new, |s| view.functions(s).collect())
        };
        println!(
            "  {label}: {} us asleep and {} us runnable in {:?}, woken by {} in {:?}",
            slice.blocked_ns / 1000,
            slice.runnable_ns / 1000,
            functions(slice.stack),
            slice.waker_name,
            functions(slice.waker_stack)
        );
    }
    let right = share(found, is_right);
    assert!(
        right >= RIGHT,
        "{label}: {right} woken by {}: {:?}",
        site.waker,
        names(found)
    );
    if site.reason == "child" {
        return; // it is woken by the child's end, whose user stack is gone by then
    }
    // A waker's stack is taken where the wait's own is: at the rate asked for. Where the wait came to its turn only
    // afterwards, on the run queue or on the way to it, the last stack of the same waker stands for it.
    let with_stack = |s: &SliceRow| s.waker_stack.is_some();
    let sampled: Vec<_> = found
        .iter()
        .filter(|(_, s)| s.stack.is_some())
        .copied()
        .collect();
    let has_stack = share(&sampled, with_stack);
    // Until it has one, there is none.
    let first = before_first(&sampled);
    assert!(
        has_stack >= 0.98 - first,
        "{label}: {has_stack} of the weight has a waker's stack, {first} comes before the first of them"
    );
    let taken: Vec<_> = found
        .iter()
        .filter(|(_, s)| with_stack(s))
        .copied()
        .collect();
    let wanted = waking_functions(&site.function);
    let stacks = share(&taken, |slice| {
        let stack = slice.waker_stack.and_then(|id| view.stack(id));
        stack.is_some_and(|stack| wanted.iter().any(|f| view.contains(stack, f)))
    });
    assert!(
        stacks >= RIGHT,
        "{label}: {stacks} of the wakers were in {wanted:?}"
    );
}

/// The share of the weight of waits before the first one that has a waker's stack.
fn before_first(sampled: &[(&Wait, &SliceRow)]) -> f64 {
    let first = sampled.iter().filter(|(_, s)| s.waker_stack.is_some());
    let first = first.map(|(_, s)| s.start_ns).min().unwrap_or(u64::MAX);
    share(sampled, |s| s.start_ns < first)
}

#[test]
#[ignore = "needs root"]
fn wakers_of_every_kind_of_wait() {
    check_wakers(&["--duration", "3"]);
}

#[test]
#[ignore = "needs root"]
fn wakers_at_a_hundred_thousand_switches_a_second() {
    check_wakers(&["--duration", "3", "--storm", "100000"]);
}

#[test]
#[ignore = "needs root"]
fn wakers_of_threads_that_are_forced_from_one_processor_to_another() {
    check_wakers(&["--duration", "3", "--migrate"]);
}

/// a waits for b, b for c, c for d, and d sleeps: nearly all of a's wait is d's sleep.
#[test]
#[ignore = "needs root"]
fn chains_of_three_hops_are_followed_to_the_root() {
    let scratch = Scratch::on_disk();
    let json = scratch.file("truth.json");
    let recorded = launch(&scratch, &[], "chain", &["100", &json]);
    let truth = Truth::read(&json);
    let view = View::of(&recorded.tables);
    assert_closed(&view);
    let labels = &view.analysis.groups.labels;
    let names = ["chain-a", "chain-b", "chain-c", "chain-d"];
    let reasons = ["condition", "pipe", "lock", "sleep"];
    let root_ns = truth.threads[3].sites[0].blocked_ns as u64;
    let stolen = recorded.stolen_ns;
    for first in 0..3 {
        let thread = truth
            .threads
            .iter()
            .find(|t| t.name == names[first])
            .expect("a link");
        let site = &thread.sites[0];
        let found = waits_at(&view, thread, site);
        // Whoever the host keeps from its processor while the root sleeps comes too late to wait.
        let missed = stolen / (20 * MS);
        assert!(
            found.len() as u64 + missed >= 95,
            "{} of 100 waits of 20 ms are kept; {stolen} ns stolen",
            found.len()
        );
        let mut to_the_root = 0;
        let mut total = 0;
        for (wait, slice) in &found {
            total += wait.blocked_ns();
            assert_eq!(slice.waker_name, names[first + 1], "the next link");
            for chain in chains::chains_of(&view.analysis, wait) {
                let threads = chain.links.iter().map(|l| labels[l.label].thread.as_str());
                let why = chain.links.iter().map(|l| l.reason.name());
                let whole = threads.eq(names[first..].iter().copied())
                    && why.eq(reasons[first..].iter().copied());
                let timer =
                    matches!(&chain.root, Root::Waker(Waker::Interrupt(name)) if name == "[timer]");
                if whole && timer {
                    to_the_root += chain.charged_ns;
                }
            }
        }
        println!(
            "{}: {:.1} % of {:.1} ms is the root's sleep of {:.1} ms",
            names[first],
            to_the_root as f64 / total as f64 * 100.0,
            total as f64 / 1e6,
            root_ns as f64 / 1e6
        );
        // The rest of it is the time in which each link, woken, gets a processor and passes it on.
        // They begin to wait when d begins to sleep, or a moment after.
        assert!(
            near_but_stolen(to_the_root, root_ns, 0.03, 0, stolen),
            "{to_the_root} of {root_ns}: {}",
            names[first]
        );
    }
    // The root is where d slept, and what wakes c is d, letting go of the lock.
    let d = view.thread(truth.threads[3].tid, "chain-d");
    let slept = blocked_for(&view.times_in(d, "root_cause"), "sleep");
    assert!(
        near_but_stolen(slept, root_ns, 0.01, MS, stolen),
        "{slept} of {root_ns}; {stolen} ns stolen"
    );
    for (number, waking) in [(0, "b_wakes_a"), (1, "c_wakes_b"), (2, "d_wakes_c")] {
        let thread = &truth.threads[number];
        let found = waits_at(&view, thread, &thread.sites[0]);
        let taken: Vec<_> = found
            .into_iter()
            .filter(|(_, s)| s.waker_stack.is_some())
            .collect();
        assert!(taken.len() >= 50, "{} stacks", taken.len());
        let right = share(&taken, |slice| {
            let stack = slice.waker_stack.and_then(|id| view.stack(id));
            stack.is_some_and(|stack| view.contains(stack, waking))
        });
        assert!(
            right >= RIGHT,
            "{right} of {} were woken from {waking}",
            thread.name
        );
    }
    // Added up over all waits, the longest chain of a's is the same.
    let all = chains::chains(&view.analysis);
    let longest = all
        .iter()
        .find(|c| labels[c.links[0].label].thread == "chain-a")
        .expect("a chain");
    let threads: Vec<&str> = longest
        .links
        .iter()
        .map(|l| labels[l.label].thread.as_str())
        .collect();
    assert_eq!(threads, names, "{longest:?}");
}
