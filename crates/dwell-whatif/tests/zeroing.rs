//! The published investigation as a case: 39 threads zero pages, each taking one 4 KiB page per acquisition
//! of one spin lock; of 60.3 s on processors 52.0 s were spent spinning, while about 8.6 GB were zeroed.
use dwell_whatif::published::{self, Figure, THREADS, zeroing};
use dwell_whatif::{Change, Effort, Kind, Machine, Model, SpinShares, closed, predict, remedies};

/// With hand-overs that cost nothing: the arithmetic of the case alone.
fn arithmetic() -> Model {
    Model::of_spin_shares(&zeroing(), Machine::ideal(96))
}

#[test]
fn about_five_threads_are_useful() {
    let model = arithmetic();
    let useful = model.useful_threads(0).expect("a lock");
    assert!((useful - 5.4).abs() < 0.05, "{useful}");
}

#[test]
fn nine_pages_at_a_time_no_longer_saturate_the_lock() {
    let model = arithmetic();
    let (think, hold) = model.think_and_hold_ns(0).expect("a lock");
    assert_eq!(
        closed::batch_without_saturation(THREADS as f64, think, hold),
        9
    );
    let batch = |batch| {
        let change = Change {
            batch: Some(batch),
            ..Change::default()
        };
        predict(&model, &change, Effort::default())
    };
    // Up to eight the lock is always taken and the throughput is what it lets through; beyond, threads
    // are what limits it.
    let per_second = |batch: f64| batch / hold * 1e9;
    for pages in [4, 6] {
        let p = batch(pages);
        assert!(p.utilisation.likely > 0.97, "{pages}: {:?}", p.utilisation);
        let error = p.throughput.likely / per_second(f64::from(pages)) - 1.0;
        assert!(error.abs() < 0.04, "{pages}: {error}");
    }
    let twelve = batch(12);
    assert!(twelve.utilisation.likely < 0.9, "{:?}", twelve.utilisation);
    assert!(
        twelve.spinning_share.likely < 0.1,
        "{:?}",
        twelve.spinning_share
    );
}

#[test]
fn the_recorded_share_of_spinning_is_reproduced() {
    for machine in [Machine::ideal(96), Machine::server(96)] {
        let model = Model::of_spin_shares(&zeroing(), machine);
        let p = predict(&model, &Change::default(), Effort::default());
        assert!(p.spinning_share.has(52.0 / 60.3), "{:?}", p.spinning_share);
        assert!(
            (p.spinning_share.likely - 0.862).abs() < 0.015,
            "{:?}",
            p.spinning_share
        );
        // 60.3 s of 39 threads are 1.55 s for 2.1 million pages.
        let rate = zeroing().units / (60.3 / THREADS as f64);
        assert!(
            (p.throughput.likely / rate - 1.0).abs() < 0.05,
            "{:?}",
            p.throughput
        );
    }
}

#[test]
fn one_thread_needs_a_small_fraction_of_the_processors() {
    let model = Model::of_spin_shares(&zeroing(), Machine::server(96));
    let change = Change {
        threads: Some(1),
        ..Change::default()
    };
    let p = predict(&model, &change, Effort::default());
    // The recorded useful share is 13.8 %.
    assert!(
        p.cpu_ratio.likely < 0.15 && p.cpu_ratio.high < 0.2,
        "{:?}",
        p.cpu_ratio
    );
    assert!(p.spinning_share.likely < 1e-9);
}

#[test]
fn the_four_remedies_are_ranked_and_together_do_most() {
    let model = Model::of_spin_shares(&zeroing(), Machine::server(96));
    let all = remedies(&model, 0, Effort::default());
    let place = |text: &str| {
        let found = all.iter().position(|r| r.what.contains(text));
        found.unwrap_or_else(|| {
            panic!(
                "{text}: {:?}",
                all.iter().map(|r| &r.what).collect::<Vec<_>>()
            )
        })
    };
    // Larger batches are the cure; a queued lock alone makes hand-overs cheaper and wastes as many processors.
    let batch = &all[place("39 units per")].prediction;
    let queued = all
        .iter()
        .find(|r| r.what == "a queued lock")
        .expect("tried");
    let fewer = all
        .iter()
        .find(|r| r.what.ends_with("threads"))
        .expect("tried");
    let queued_at = all.iter().position(|r| r.what == "a queued lock");
    for pages in ["39 units per", "78 units per"] {
        assert!(Some(place(pages)) < queued_at, "{pages}: {queued_at:?}");
    }
    assert!(batch.gain.low > 4.0, "{:?}", batch.gain);
    assert!(batch.cpu_ratio.high < 0.3, "{:?}", batch.cpu_ratio);
    assert!(
        queued.prediction.spinning_share.likely > 0.7,
        "{:?}",
        queued.prediction.spinning_share
    );
    assert!(
        fewer.prediction.cpu_ratio.high < 0.4,
        "{:?}",
        fewer.prediction.cpu_ratio
    );
    // Fewer threads that take many at a time from a queued lock: the least processor time of all.
    let joint = &all[place("units, a queued lock")].prediction;
    for one in [batch, &queued.prediction, &fewer.prediction] {
        assert!(
            joint.cpu_ratio.likely <= one.cpu_ratio.likely * 1.02,
            "{:?}",
            one.change
        );
    }
    assert!(joint.gain.likely > 1.0, "{:?}", joint.gain);
}

/// The same estimate where it can be checked: shares of a simulated program give back its hold.
#[test]
fn the_hold_is_found_from_shares_also_with_fewer_processors() {
    let mut truth = arithmetic();
    truth.machine = Machine::server(2);
    truth.classes[0].threads = 6;
    let p = predict(&truth, &Change::default(), Effort::default());
    let elapsed_ns = 1e9;
    let shares = SpinShares {
        threads: 6,
        elapsed_ns,
        running_ns: p.busy.likely * 2.0 * elapsed_ns,
        spinning_ns: p.wasted_processors.likely * elapsed_ns,
        units: p.throughput.likely,
        kind: Kind::Ttas,
    };
    let found = Model::of_spin_shares(&shares, Machine::server(2));
    let (_, hold) = truth.think_and_hold_ns(0).expect("a lock");
    let (_, again) = found.think_and_hold_ns(0).expect("a lock");
    assert!((again / hold - 1.0).abs() < 0.3, "{again} {hold}");
}

#[test]
fn larger_machines_are_simulated_beside_what_was_published() {
    let cases = published::cases(Effort::default());
    let processors: Vec<usize> = cases.iter().map(|c| c.processors).collect();
    assert_eq!(processors, [96, 96, 96, 96, 128, 272]);
    for case in &cases {
        assert!(case.predicted.low <= case.predicted.likely, "{case:?}");
        assert!(case.predicted.likely <= case.predicted.high, "{case:?}");
    }
    let spinning = |place: usize| {
        assert_eq!(cases[place].figure, Figure::Spinning);
        cases[place].predicted.likely
    };
    let published = |place: usize| cases[place].published.expect("published");
    // What the model was made of, to a percent.
    assert!((spinning(0) - published(0)).abs() < 0.015, "{:?}", cases[0]);
    // Twelve threads with a queued lock still wait most of their time: the model was not told. It finds that once memory
    // that moves with the lock, which it does not simulate, is not taken for work.
    assert!(spinning(1) < published(1), "{:?}", cases[1]);
    assert!((spinning(2) - published(2)).abs() < 0.12, "{:?}", cases[2]);
    // One thread costs a small part, and less in truth for the same reason.
    assert!(cases[3].predicted.high < 0.2, "{:?}", cases[3]);
    assert!(published(3) < cases[3].predicted.low, "{:?}", cases[3]);
    // More threads in proportion waste more.
    assert!(spinning(0) < spinning(4) && spinning(4) < spinning(5));
}
