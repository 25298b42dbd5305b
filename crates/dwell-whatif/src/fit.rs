//! What a recording does not tell directly, found by simulating what it does.
use crate::model::Model;
use crate::sim::{self, Limits};
use crate::times::Times;

/// How uneven work may be: standard deviations over means.
const SPREADS: [f64; 8] = [0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.6, 1.0];
/// How much one of them is simulated: some ten thousand acquisitions.
const LIMITS: Limits = Limits {
    elapsed_ns: 4e9,
    events: 120_000,
};

impl Model {
    /// With work as uneven as it has to be for the lock to be found taken in this share of acquisitions.
    ///
    /// Threads whose work always takes the same time get out of each other's way after a few turns, and then seldom meet;
    /// the more uneven it is, the more often they do.
    pub fn with_found_taken(&self, lock: usize, share: f64) -> Model {
        let spread = |cv: f64| {
            let mut model = self.clone();
            for class in &mut model.classes {
                let mean_ns = class.think.mean_ns();
                class.think = Times::Spread { mean_ns, cv };
            }
            model
        };
        let least = 1e-4;
        let apart = |model: &Model| {
            let found = (1..=3).map(|seed| {
                let tally = sim::run(model, LIMITS, seed);
                let acquisitions = tally.acquisitions.get(lock).copied().unwrap_or(0);
                let taken = tally.found_taken.get(lock).copied().unwrap_or(0);
                taken as f64 / acquisitions.max(1) as f64
            });
            let found = found.sum::<f64>() / 3.0;
            (found.max(least) / share.max(least)).ln().abs()
        };
        let models = SPREADS.map(spread);
        let nearest = models
            .into_iter()
            .map(|model| (apart(&model), model))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        nearest.map_or_else(|| self.clone(), |(_, model)| model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Kind, Machine};
    use crate::model::{Class, Lock, Uncertainty, Visit};

    fn model(think: Times) -> Model {
        Model {
            classes: vec![Class {
                name: "worker".into(),
                threads: 4,
                think,
                away: Times::fixed(0.0),
                visits: vec![Visit {
                    lock: 0,
                    per_unit: 1.0,
                    hold: Times::Spread {
                        mean_ns: 2_000.0,
                        cv: 0.02,
                    },
                    asleep: Times::fixed(0.0),
                }],
            }],
            locks: vec![Lock {
                name: "lock".into(),
                kind: Kind::Futex,
                shards: 1,
            }],
            machine: Machine::server(2),
            uncertainty: Uncertainty::default(),
        }
    }

    fn found_taken(model: &Model) -> f64 {
        let tally = sim::run(model, LIMITS, 77);
        tally.found_taken[0] as f64 / tally.acquisitions[0] as f64
    }

    #[test]
    fn even_work_seldom_finds_the_lock_taken_and_uneven_work_is_told_from_it() {
        let of = |cv| {
            model(Times::Spread {
                mean_ns: 8_000.0,
                cv,
            })
        };
        let (even, uneven) = (found_taken(&of(0.003)), found_taken(&of(0.6)));
        assert!(even < uneven / 3.0, "{even} {uneven}");
        for share in [even, uneven] {
            // What was assumed before does not matter.
            let fitted = of(0.3).with_found_taken(0, share);
            let again = found_taken(&fitted);
            assert!((again / share).ln().abs() < 0.4, "{share} {again}");
        }
    }
}
