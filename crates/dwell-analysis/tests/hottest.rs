//! Hottest stacks and functions, idle pools, losses.
use dwell_analysis::hottest::{functions, stacks};
use dwell_analysis::losses::Losses;
use dwell_analysis::names::Missing;
use dwell_analysis::testing::{MS, Scale, TablesBuilder, drawn, fixture};
use dwell_analysis::{Analysis, Reason, State};

#[test]
fn stacks_that_differ_only_in_addresses_are_one() {
    let tables = drawn(
        "thread | worker-1 | worker-2 | worker-1
         time   | 300      | 250      | 260
         stack  | main     | main     | main
                | work     | work     | rest",
    );
    let analysis = Analysis::of(&tables);
    let hot = stacks(&analysis, State::on_cpu);
    let times: Vec<u64> = hot.iter().map(|s| s.weight_ns / MS).collect();
    assert_eq!(times, [550, 260]);
    assert_eq!(
        analysis.groups.labels[hot[0].label].short(),
        "demo/worker-*"
    );
}

#[test]
fn recursion_of_any_depth_is_one_stack() {
    let tables = drawn(
        "time   | 300    | 250    | 260
         stack  | main   | main   | main
                | search | search | search
                | leaf   | sort   | search
                |        | search | sort
                |        | leaf   |  ",
    );
    let hot = stacks(&Analysis::of(&tables), State::on_cpu);
    assert_eq!(
        hot.iter().map(|s| s.weight_ns / MS).collect::<Vec<_>>(),
        [550, 260]
    );
}

#[test]
fn recursion_counts_once() {
    let tables = drawn(
        "state | running | lock futex
         time  | 10      | 5
         stack | main    | main
               | f       | f
               | g       | 
               | f       | ",
    );
    let analysis = Analysis::of(&tables);
    let of = |name: &str| {
        let hot = functions(&analysis, true);
        *hot.iter()
            .find(|f| analysis.names.function(f.function).name == name)
            .unwrap()
    };
    assert_eq!(of("f").total.running(), 10 * MS);
    assert_eq!(of("f").own.running(), 10 * MS);
    assert_eq!(of("f").own.get(State::Blocked(Reason::Lock)), 5 * MS);
    assert_eq!(of("main").total.total(), 15 * MS);
    assert_eq!(of("main").own.total(), 0);
    assert_eq!(of("g").total.running(), 10 * MS);
}

#[test]
fn a_pool_on_a_condition_is_idle_and_contention_is_not() {
    let tables = drawn(
        "thread | main    | pool-1            | pool-2            | lock-1             | lock-2
         state  | running | lock futex        | lock futex        | lock futex         | lock futex
         time   | 1000    | 1000              | 1000              | 1000               | 1000
         stack  | main    | start_thread      | start_thread      | start_thread       | start_thread
                |         | pthread_cond_wait | pthread_cond_wait | pthread_mutex_lock | pthread_mutex_lock",
    );
    let idle = Analysis::of(&tables).idle;
    assert_eq!(idle.pools.len(), 1);
    assert_eq!(
        (idle.pools[0].threads, idle.pools[0].waited_ns),
        (2, 2000 * MS)
    );
    assert_eq!(idle.pools[0].reason, Reason::Condition);
    assert_eq!(idle.folded.iter().filter(|f| **f).count(), 2);
}

/// How many pools are idle where a lone helper waits twice: for `first_ms` until a thread of the recording wakes it, and
/// for as long as the rest of a second; after that it runs for `runs_ms` and ends.
fn idle_pools_with_a_helper(first_ms: u64, runs_ms: u64) -> usize {
    let mut builder = TablesBuilder::new();
    let process = builder.process("demo");
    let main = builder.thread(process, "main");
    builder.ran(main, 1000 * MS);
    let helper = builder.thread(process, "helper");
    let stack = builder.stack(&["start_thread", "pthread_cond_wait"]);
    for (mark, ms, waker) in [("a", first_ms, Some(main)), ("b", 1000 - first_ms, None)] {
        if ms > 0 {
            let site = builder.site(helper, "lock", "futex", mark);
            builder.waited(site, ms * MS, 0, 1);
            builder.sample(helper, "blocked", stack, Some(site), ms * MS);
            builder.kept(site, ms * MS, Some(stack), waker);
        }
    }
    builder.ran(helper, runs_ms * MS);
    builder.tables.threads[helper as usize].ended = true;
    Analysis::of(&builder.tables).idle.pools.len()
}

#[test]
fn a_lone_helper_is_idle_unless_others_of_the_recording_end_its_waiting() {
    assert_eq!(idle_pools_with_a_helper(1000, 50), 0);
    assert_eq!(idle_pools_with_a_helper(600, 50), 0);
    assert_eq!(idle_pools_with_a_helper(400, 50), 1);
    // Woken to end.
    assert_eq!(idle_pools_with_a_helper(1000, 1), 1);
}

#[test]
fn a_busy_pool_is_not_idle() {
    let tables = drawn(
        "thread | pool-1       | pool-2       | pool-1 | pool-2
         state  | poll poll    | poll poll    | running| running
         time   | 800          | 800          | 200    | 200
         stack  | start_thread | start_thread | f      | f",
    );
    assert!(Analysis::of(&tables).idle.pools.is_empty());
}

#[test]
fn the_program_itself_is_not_idle_but_a_bystander_is() {
    let tables = drawn(
        "process | demo    | cron      | lone
         thread  | demo    | cron      | lone
         state   | running | poll poll | running
         time    | 10000   | 10000     | 10
         stack   | main    | main      | main",
    );
    let idle = Analysis::of(&tables).idle;
    assert_eq!(idle.pools.len(), 1, "cron");
    let alone = drawn(
        "state   | poll poll | running
         time    | 10000     | 10
         stack   | main      | main",
    );
    assert!(Analysis::of(&alone).idle.pools.is_empty());
}

#[test]
fn losses_name_what_is_missing() {
    let mut tables = drawn(
        "thread | main | main              | worker-1
         state  | running | running        | lock futex
         time   | 300  | 100               | 7
         weight | 300  | 100               | -
         stack  | main | cut no_mapping    | 
                |      | f                 |   ",
    );
    tables.meta.losses.insert("waits".to_owned(), 5);
    tables.meta.losses.insert("samples".to_owned(), 0);
    tables.meta.produced.insert("waits".to_owned(), 50);
    let losses = Losses::of(&Analysis::of(&tables));
    assert_eq!(losses.events.len(), 1);
    assert_eq!(losses.events[0].share(), Some(0.1));
    assert_eq!(losses.cut_short_ns["no_mapping"], 100 * MS);
    assert_eq!(losses.without_stack_ns[&Missing::NoStackTaken], 7 * MS);
    assert!(!losses.nothing_lost());
}

#[test]
fn the_fixture_has_an_idle_pool_and_every_part_of_it_is_there() {
    let tables = fixture(Scale {
        seconds: 3,
        ..Scale::default()
    });
    let analysis = Analysis::of(&tables);
    let names: Vec<&str> = analysis
        .idle
        .pools
        .iter()
        .map(|p| analysis.groups.groups[p.group].name.as_str())
        .collect();
    assert!(names.contains(&"pool-*"), "{names:?}");
    assert!(!names.contains(&"worker-*"), "{names:?}");
}
