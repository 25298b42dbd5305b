//! The simulation next to what is known exactly.
use dwell_whatif::{
    Change, Class, Effort, Kind, Lock, Machine, Model, Times, Uncertainty, Visit, closed, predict,
};

fn model(threads: usize, think: Times, hold: Times, kind: Kind, machine: Machine) -> Model {
    Model {
        classes: vec![Class {
            name: "worker".into(),
            threads,
            think,
            away: Times::fixed(0.0),
            visits: vec![Visit {
                lock: 0,
                per_unit: 1.0,
                hold,
                asleep: Times::fixed(0.0),
            }],
        }],
        locks: vec![Lock {
            name: "lock".into(),
            kind,
            shards: 1,
        }],
        machine,
        uncertainty: Uncertainty::default(),
    }
}

fn throughput(model: &Model) -> f64 {
    let effort = Effort {
        runs: 3,
        ..Effort::default()
    };
    predict(model, &Change::default(), effort).throughput.likely / 1e9
}

#[test]
fn a_queue_of_exponential_times_is_the_machine_repair_model() {
    for threads in [1, 2, 4, 8, 16] {
        for kind in Kind::ALL {
            let (think, hold) = (Times::exponential(3_000.0), Times::exponential(1_000.0));
            let simulated = throughput(&model(threads, think, hold, kind, Machine::ideal(threads)));
            let exact = closed::machine_repair(threads as u32, 3_000.0, 1_000.0);
            let error = simulated / exact - 1.0;
            assert!(error.abs() < 0.02, "{threads} {kind:?}: {error:+.3}");
        }
    }
}

#[test]
fn constant_times_reach_the_bound() {
    for (threads, batch) in [(1, 1), (2, 1), (4, 1), (12, 1), (12, 4)] {
        let (think, hold) = (Times::fixed(3_000.0), Times::fixed(1_000.0));
        let model = model(threads, think, hold, Kind::Ticket, Machine::ideal(threads));
        let change = Change {
            batch: Some(batch),
            ..Change::default()
        };
        let predicted = predict(&model, &change, Effort::default());
        let simulated = predicted.throughput.likely / 1e9;
        let b = f64::from(batch);
        let exact = b * closed::most_throughput(threads as f64, 3_000.0 * b, 1_000.0);
        let error = simulated / exact - 1.0;
        assert!(error.abs() < 0.01, "{threads}/{batch}: {error:+.4}");
    }
}

#[test]
fn processors_bound_what_threads_do() {
    // Without a lock that matters: 8 threads on 2 processors do what 2 threads do.
    let (think, hold) = (Times::fixed(9_999.0), Times::fixed(1.0));
    for threads in [2, 3, 8] {
        let model = model(
            threads,
            think.clone(),
            hold.clone(),
            Kind::Futex,
            Machine::ideal(2),
        );
        let exact = 2.0 / 10_000.0;
        let error = throughput(&model) / exact - 1.0;
        assert!(error.abs() < 0.01, "{threads}: {error:+.4}");
    }
}

#[test]
fn time_adds_up() {
    for kind in Kind::ALL {
        for (threads, processors) in [(1, 1), (5, 2), (3, 8), (9, 3)] {
            let mut machine = Machine::server(processors);
            machine.crowded = 1.3;
            let (think, hold) = (Times::exponential(5_000.0), Times::exponential(2_000.0));
            let mut model = model(threads, think, hold, kind, machine);
            model.classes[0].away = Times::exponential(1_000.0);
            let p = predict(
                &model,
                &Change::default(),
                Effort {
                    runs: 1,
                    ..Effort::default()
                },
            );
            let t = &p.terms;
            let all = [
                t.think, t.hold, t.spin, t.overhead, t.ready, t.asleep, t.away,
            ];
            let sum: f64 = all.iter().map(|i| i.likely).sum();
            assert!(
                (sum - 1.0).abs() < 1e-6,
                "{kind:?} {threads}/{processors}: {sum}"
            );
            // What threads did on processors is what processors did.
            let on = (t.think.likely + t.hold.likely + t.spin.likely + t.overhead.likely)
                * threads as f64;
            let busy = p.busy.likely * processors as f64;
            assert!(
                (on - busy).abs() < 1e-6,
                "{kind:?} {threads}/{processors}: {on} {busy}"
            );
            assert!(p.busy.likely <= 1.0 + 1e-9 && p.utilisation.likely <= 1.0 + 1e-9);
            assert!(p.throughput.likely > 0.0, "{kind:?} {threads}/{processors}");
        }
    }
}

#[test]
fn a_seed_gives_one_answer_and_another_seed_another() {
    let (think, hold) = (Times::exponential(5_000.0), Times::exponential(2_000.0));
    let model = model(4, think, hold, Kind::Adaptive, Machine::server(2));
    let effort = |seed| Effort {
        seed,
        events: 20_000,
        ..Effort::default()
    };
    let run = |seed| predict(&model, &Change::default(), effort(seed));
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).throughput, run(4).throughput);
}

#[test]
fn a_lock_in_order_suffers_where_its_next_owner_does_not_run() {
    // Four threads on two processors: who is next in a queue may wait for a slice, while a mutex goes
    // to who runs.
    let model = |kind| {
        let (think, hold) = (Times::fixed(2_000.0), Times::fixed(2_000.0));
        model(4, think, hold, kind, Machine::server(2))
    };
    let (ordered, sleeping) = (
        throughput(&model(Kind::Mcs)),
        throughput(&model(Kind::Futex)),
    );
    assert!(ordered * 5.0 < sleeping, "{ordered} {sleeping}");
}

#[test]
fn relieving_one_of_two_locks_moves_the_queue_to_the_other() {
    let visit = |lock, hold| Visit {
        lock,
        per_unit: 1.0,
        hold: Times::exponential(hold),
        asleep: Times::fixed(0.0),
    };
    let lock = |name: &str| Lock {
        name: name.into(),
        kind: Kind::Ticket,
        shards: 1,
    };
    let model = Model {
        classes: vec![Class {
            name: "worker".into(),
            threads: 16,
            think: Times::exponential(1_000.0),
            away: Times::fixed(0.0),
            visits: vec![visit(0, 1_000.0), visit(1, 900.0)],
        }],
        locks: vec![lock("first"), lock("second")],
        machine: Machine::ideal(16),
        uncertainty: Uncertainty::default(),
    };
    let change = |lock| Change {
        lock,
        shards: Some(16),
        ..Change::default()
    };
    let first = predict(&model, &change(0), Effort::default());
    // Alone the first lock would allow 16 / 2.9 times as much; the second allows 10 % more.
    assert!((1.0..1.2).contains(&first.gain.likely), "{:?}", first.gain);
    assert!(
        first.queues[1].likely > 5.0 * first.queues[0].likely,
        "{:?}",
        first.queues
    );
    let second = predict(&model, &change(1), Effort::default());
    assert!(
        (0.98..1.1).contains(&second.gain.likely),
        "{:?}",
        second.gain
    );
}

#[test]
fn more_threads_than_processors_stop_a_ticket_lock() {
    for think in [2_000.0, 9_180.0] {
        let mut machine = Machine::server(2);
        machine.slice_ns = 4e6;
        let (think, hold) = (
            Times::Spread {
                mean_ns: think,
                cv: 0.3,
            },
            Times::fixed(4_960.0),
        );
        let model = model(4, think, hold, Kind::Ticket, machine);
        let p = predict(&model, &Change::default(), Effort::default());
        // Recorded on two processors: 510 units per second, 71 000 for one thread.
        assert!(p.throughput.likely < 5_000.0, "{p:#?}");
    }
}

#[test]
fn of_three_threads_on_two_processors_one_has_a_processor_to_itself() {
    // Each turn of the queue needs both of those that take turns on the other processor: three units in two slices.
    let mut machine = Machine::server(2);
    machine.slice_ns = 4e6;
    for kind in [Kind::Ticket, Kind::Mcs] {
        let (think, hold) = (Times::fixed(6_000.0), Times::fixed(3_000.0));
        let per_s = throughput(&model(3, think, hold, kind, machine.clone())) * 1e9;
        // Run on two processors with slices of 4 ms: 380 and 388.
        assert!((per_s / 375.0 - 1.0).abs() < 0.15, "{kind:?}: {per_s}");
    }
}
