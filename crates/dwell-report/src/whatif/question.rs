//! What is asked.
use dwell_whatif::{Change, Kind};

/// Cells that are simulated, at most: each takes a part of a second.
const MOST: usize = 400;

/// Values to try; what is empty stays as it is. All combinations are tried; nothing at all means the usual remedies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// A part of the lock's name; none: the one that costs most.
    pub lock: Option<String>,
    /// Units per second that the program says it did, for spin locks of its own.
    pub rate: Option<f64>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Units per acquisition.
    pub batches: Vec<u32>,
    /// How much of a hold grows with the batch, 0 to 1.
    pub hold_per_unit: f64,
    /// Kinds of lock.
    pub kinds: Vec<Kind>,
    /// Numbers of shards.
    pub shards: Vec<u32>,
    /// Factors of holds.
    pub holds: Vec<f64>,
    /// Numbers of processors.
    pub processors: Vec<usize>,
}

impl Question {
    /// All combinations.
    pub fn changes(&self, lock: usize) -> Result<Vec<Change>, String> {
        let mut changes = vec![Change {
            lock,
            hold_per_unit: self.hold_per_unit,
            ..Change::default()
        }];
        let as_it_is = changes.clone();
        changes = combined(changes, &self.threads, |c, v| c.threads = Some(v));
        changes = combined(changes, &self.batches, |c, v| c.batch = Some(v));
        changes = combined(changes, &self.kinds, |c, v| c.kind = Some(v));
        changes = combined(changes, &self.shards, |c, v| c.shards = Some(v));
        changes = combined(changes, &self.holds, |c, v| c.hold = Some(v));
        changes = combined(changes, &self.processors, |c, v| c.processors = Some(v));
        if changes.len() > MOST {
            return Err(format!(
                "{} combinations are more than the {MOST} that are tried: name fewer values, such as --threads 1,2,4,8",
                changes.len()
            ));
        }
        Ok(if changes == as_it_is {
            Vec::new()
        } else {
            changes
        })
    }
}

fn combined<V: Copy>(changes: Vec<Change>, values: &[V], set: fn(&mut Change, V)) -> Vec<Change> {
    if values.is_empty() {
        return changes;
    }
    let with = |change: &Change| {
        let change = change.clone();
        values.iter().map(move |value| {
            let mut one = change.clone();
            set(&mut one, *value);
            one
        })
    };
    changes.iter().flat_map(with).collect()
}

/// A change in words.
pub fn words(change: &Change) -> String {
    let mut words = Vec::new();
    let counted = |n: usize, one: &str, many: &str| match n {
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    };
    words.extend(change.threads.map(|n| counted(n, "thread", "threads")));
    words.extend(change.batch.map(|n| counted(n as usize, "unit", "units")));
    words.extend(change.kind.map(|k| k.name().to_owned()));
    words.extend(
        change
            .shards
            .map(|n| counted(n as usize, "shard", "shards")),
    );
    words.extend(change.hold.map(|f| format!("hold {:.0} %", f * 100.0)));
    words.extend(change.processors.map(|n| counted(n, "CPU", "CPUs")));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_combinations_are_tried_and_too_many_refused() {
        let mut question = Question {
            threads: vec![1, 2],
            kinds: vec![Kind::Mcs, Kind::Futex],
            ..Question::default()
        };
        let changes = question.changes(3).expect("few");
        let told: Vec<String> = changes.iter().map(words).collect();
        assert_eq!(
            told,
            [
                "1 thread, mcs",
                "1 thread, mutex",
                "2 threads, mcs",
                "2 threads, mutex"
            ]
        );
        assert!(changes.iter().all(|c| c.lock == 3));
        question.batches = (1..=200).collect();
        assert!(question.changes(0).expect_err("many").contains("800"));
        assert_eq!(Question::default().changes(0), Ok(Vec::new()));
    }
}
