//! What would help, the best first.
use crate::machine::Kind;
use crate::model::{Change, Model};
use crate::predict::{Effort, Prediction, predict_all};

/// A change worth making.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// In a few words.
    pub what: String,
    /// What it would do.
    pub prediction: Prediction,
}

/// Tries the usual remedies for a lock, alone and together: fewer threads, larger batches, a queued or a
/// sleeping lock, shards, half the hold. Those that do more units first; of those that do about as many, the ones
/// that need fewer processors.
pub fn remedies(model: &Model, lock: usize, effort: Effort) -> Vec<Remedy> {
    let candidates = candidates(model, lock);
    let changes: Vec<Change> = candidates
        .iter()
        .map(|(_, change)| change.clone())
        .collect();
    let predictions = predict_all(model, &changes, effort);
    let mut remedies: Vec<Remedy> = candidates
        .into_iter()
        .zip(predictions)
        .map(|((what, _), prediction)| Remedy { what, prediction })
        .collect();
    remedies.sort_by(|a, b| {
        let worth = |r: &Remedy| worth(&r.prediction);
        worth(b).total_cmp(&worth(a))
    });
    remedies
}

/// Twice the units count as much as the same for a quarter of the processors' time: throughput is what is
/// asked for first, but a remedy that only saves processors is one.
fn worth(prediction: &Prediction) -> f64 {
    let cpu = prediction.cpu_ratio.likely.max(1e-9);
    prediction.gain.likely.max(1e-9).ln() - 0.5 * cpu.ln()
}

fn candidates(model: &Model, lock: usize) -> Vec<(String, Change)> {
    let Some(of) = model.locks.get(lock) else {
        return Vec::new();
    };
    let change = Change {
        lock,
        ..Change::default()
    };
    let threads = model.threads_of(lock);
    let useful = model.useful_threads(lock).unwrap_or(threads as f64);
    let fewer = (useful.ceil() as usize).clamp(1, threads.max(1));
    let batch = (threads as u32).clamp(2, 256);
    let other = match of.kind {
        Kind::Mcs => Kind::Futex,
        _ => Kind::Mcs,
    };
    let mut all = Vec::new();
    let mut add = |what: String, change: Change| all.push((what, change));
    if fewer < threads {
        let threads = Some(fewer);
        add(
            plural(fewer, "thread"),
            Change {
                threads,
                ..change.clone()
            },
        );
    }
    for batch in [batch, 2 * batch] {
        let what = format!("{batch} units per acquisition");
        let batch = Some(batch);
        add(
            what,
            Change {
                batch,
                ..change.clone()
            },
        );
    }
    for kind in [other, Kind::Futex] {
        if kind != of.kind && (kind == other || other != Kind::Futex) {
            let kind = Some(kind);
            let what = kind.map_or("", name).to_owned();
            add(
                what,
                Change {
                    kind,
                    ..change.clone()
                },
            );
        }
    }
    let shards = of.shards.max(1) * (threads as u32).clamp(2, 16);
    add(
        format!("{shards} shards"),
        Change {
            shards: Some(shards),
            ..change.clone()
        },
    );
    add(
        "half the hold".into(),
        Change {
            hold: Some(0.5),
            ..change.clone()
        },
    );
    if fewer < threads {
        let what = format!(
            "{}, {batch} units, {}",
            plural(fewer, "thread"),
            name(other)
        );
        add(
            what,
            Change {
                threads: Some(fewer),
                batch: Some(batch),
                kind: Some(other),
                ..change
            },
        );
    }
    all
}

/// What a person would call it.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Tas => "a test-and-set lock",
        Kind::Ttas => "a test-and-test-and-set lock",
        Kind::Ticket => "a ticket lock",
        Kind::Mcs => "a queued lock",
        Kind::Adaptive => "an adaptive mutex",
        Kind::Futex => "a mutex that sleeps",
    }
}

fn plural(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
