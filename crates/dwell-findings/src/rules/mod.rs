//! The rules, one file each.
mod allocation_churn;
mod dynamic_loading;
mod first_touch;
mod lock_held_while_asleep;
mod lock_serialises_pool;
mod more_threads_than_processors;
mod polling_by_sleeping;
mod priority_inversion;
mod serial_thread;
mod shootdown_storm;
mod spin_convoy;
mod synchronous_io;
mod wake_up_storm;

use crate::{Needs, Rule};

/// Every rule.
pub const ALL: &[Rule] = &[
    Rule {
        name: spin_convoy::NAME,
        needs: Needs::Times,
        find: spin_convoy::find,
    },
    Rule {
        name: lock_held_while_asleep::NAME,
        needs: Needs::Times,
        find: lock_held_while_asleep::find,
    },
    Rule {
        name: lock_serialises_pool::NAME,
        needs: Needs::Times,
        find: lock_serialises_pool::find,
    },
    Rule {
        name: more_threads_than_processors::NAME,
        needs: Needs::Times,
        find: more_threads_than_processors::find,
    },
    Rule {
        name: polling_by_sleeping::NAME,
        needs: Needs::Times,
        find: polling_by_sleeping::find,
    },
    Rule {
        name: allocation_churn::NAME,
        needs: Needs::Memory,
        find: allocation_churn::find,
    },
    Rule {
        name: first_touch::NAME,
        needs: Needs::Memory,
        find: first_touch::find,
    },
    Rule {
        name: shootdown_storm::NAME,
        needs: Needs::Memory,
        find: shootdown_storm::find,
    },
    Rule {
        name: synchronous_io::NAME,
        needs: Needs::Times,
        find: synchronous_io::find,
    },
    Rule {
        name: priority_inversion::NAME,
        needs: Needs::Locks,
        find: priority_inversion::find,
    },
    Rule {
        name: dynamic_loading::NAME,
        needs: Needs::Times,
        find: dynamic_loading::find,
    },
    Rule {
        name: wake_up_storm::NAME,
        needs: Needs::Times,
        find: wake_up_storm::find,
    },
    Rule {
        name: serial_thread::NAME,
        needs: Needs::Times,
        find: serial_thread::find,
    },
];

/// A range over the models of a lock.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((1.0, 0.0), |(low, high): (f64, f64), v| {
        (low.min(v), high.max(v))
    })
}
