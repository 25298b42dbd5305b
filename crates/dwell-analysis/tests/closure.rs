//! Whatever the tables hold, every thread's weights add up to its exact sums.
use dwell_analysis::testing::{Rng, Scale, TablesBuilder, fixture};
use dwell_analysis::{Analysis, State};
use dwell_recording::rows::{reason, state};
use dwell_recording::tables::Tables;

const MS: u64 = 1_000_000;

/// Threads with random sums, sites with and without samples, missing rows.
fn random_tables(seed: u64) -> Tables {
    let mut rng = Rng::new(seed);
    let mut builder = TablesBuilder::new();
    for number in 0..1 + rng.below(12) {
        let process = builder.process(["a", "b"][rng.below(2) as usize]);
        let name = ["main", "worker-1", "worker-2", "io"][rng.below(4) as usize];
        let thread = builder.new_thread(process, name);
        let ran_ns = rng.below(600 * MS);
        builder.ran(thread, ran_ns);
        for _ in 0..rng.below(6) {
            let frame = format!("f{}", rng.below(5));
            let stack = builder.stack(&["main", &frame]);
            let weight_ns = rng.below(3) * 10 * MS;
            builder.sample(thread, state::RUNNING, stack, None, weight_ns);
        }
        for site in 0..rng.below(5) {
            let reason = reason::ALL[rng.below(10) as usize];
            let site = builder.site(thread, reason, "call", &site.to_string());
            let (blocked_ns, runnable_ns, count) =
                (rng.below(90 * MS), rng.below(9 * MS), rng.below(50));
            builder.waited(site, blocked_ns, runnable_ns, count);
            for _ in 0..rng.below(4) {
                let frame = format!("w{}", rng.below(4));
                let stack = builder.stack(&["main", &frame]);
                builder.sample(
                    thread,
                    state::BLOCKED,
                    stack,
                    Some(site),
                    rng.below(2) * 7 * MS,
                );
            }
        }
        if number % 4 == 0 {
            builder.stolen(thread, rng.below(9 * MS));
        }
        if number % 3 == 0 {
            builder.lost(thread, rng.below(MS));
        }
    }
    damage(builder.tables, &mut rng)
}

/// Loses rows here and there, and lets site sums disagree with their thread's.
fn damage(mut tables: Tables, rng: &mut Rng) -> Tables {
    if rng.below(2) == 0 {
        tables.sites.retain(|_| rng.below(5) > 0);
        tables.stacks.retain(|_| rng.below(5) > 0);
        tables.processes.retain(|_| rng.below(5) > 0);
        for row in &mut tables.site_times {
            row.blocked_ns = row.blocked_ns * (50 + rng.below(100)) / 100;
        }
    }
    tables
}

#[test]
fn weights_add_up_to_the_exact_sums_of_every_thread() {
    for seed in 0..2000 {
        let tables = random_tables(seed);
        let analysis = Analysis::of(&tables);
        for (position, row) in tables.threads.iter().enumerate() {
            let times = analysis.profile.thread_times(position);
            assert_eq!(times.running(), row.running_ns, "running, seed {seed}");
            assert_eq!(times.runnable(), row.runnable_ns, "runnable, seed {seed}");
            assert_eq!(times.stolen(), row.stolen_ns, "stolen, seed {seed}");
            assert_eq!(times.blocked(), row.blocked_ns, "blocked, seed {seed}");
            assert_eq!(times.lost(), row.lost_ns, "lost, seed {seed}");
        }
        assert_eq!(analysis.summary.closure_error, 0.0);
    }
}

#[test]
fn groups_and_processes_add_up_to_their_threads() {
    for seed in 0..300 {
        let tables = random_tables(seed);
        let analysis = Analysis::of(&tables);
        let summary = &analysis.summary;
        let total: u64 = summary.threads.iter().map(|s| s.times.total()).sum();
        let groups: u64 = summary.groups.iter().map(|s| s.times.total()).sum();
        assert_eq!(groups, total);
        assert_eq!(summary.total.times.total(), total);
        let lifetimes: u64 = summary.groups.iter().map(|s| s.lifetime_ns).sum();
        assert_eq!(lifetimes, summary.total.lifetime_ns);
    }
}

#[test]
fn a_thread_that_does_not_close_is_told() {
    let mut tables = random_tables(3);
    let row = &mut tables.threads[0];
    row.until_ns = row.start_ns + 1000;
    (row.running_ns, row.runnable_ns, row.blocked_ns, row.lost_ns) = (900, 0, 0, 0);
    row.stolen_ns = 0;
    tables.site_times.clear();
    let summary = Analysis::of(&tables).summary;
    assert!((summary.closure_error - 0.1).abs() < 1e-12);
    assert_eq!(summary.closure_worst, Some(0));
}

#[test]
fn entries_are_distinct_ordered_and_never_empty() {
    let tables = fixture(Scale {
        seconds: 2,
        ..Scale::default()
    });
    let profile = Analysis::of(&tables).profile;
    let keys: Vec<_> = profile
        .entries
        .iter()
        .map(|e| (e.thread, e.state, e.syscall, e.stack))
        .collect();
    assert!(keys.is_sorted_by(|a, b| a < b));
    assert!(profile.entries.iter().all(|e| e.weight_ns > 0));
    assert!(profile.entries.iter().any(|e| e.state == State::Running));
}

/// Ids and sums of a recording that somebody made to break us.
#[test]
fn hostile_numbers_do_no_harm() {
    for seed in 0..300 {
        let mut tables = random_tables(seed);
        let mut rng = Rng::new(seed);
        let mut wild = |n: &mut u64| {
            if rng.below(6) == 0 {
                *n = u64::MAX - rng.below(3);
            }
        };
        for row in &mut tables.threads {
            wild(&mut row.blocked_ns);
            wild(&mut row.running_ns);
            wild(&mut row.start_ns);
        }
        for row in &mut tables.site_times {
            wild(&mut row.blocked_ns);
            wild(&mut row.count);
        }
        for row in &mut tables.samples {
            wild(&mut row.weight_ns);
        }
        tables.meta.start_ns = u64::MAX;
        let analysis = Analysis::of(&tables);
        assert!(analysis.summary.closure_error.is_finite());
        assert!(analysis.summary.total.cpus(0).is_finite());
    }
}
