//! What a person is told about functions of the kernel.
//!
//! The types are the JSON output as they stand: units in the names, lists ordered by importance.
use serde::Serialize;

/// Everything that was counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FunctionsAnswer {
    /// How long calls were counted.
    pub duration_ns: u64,
    /// Processes whose calls were counted; empty for all of the system.
    pub pids: Vec<u32>,
    /// The functions, most time first.
    pub functions: Vec<FunctionAnswer>,
    /// What a person should know about names.
    pub notes: Vec<String>,
}

/// One function.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FunctionAnswer {
    /// Its name.
    pub name: String,
    /// Calls that were counted.
    pub calls: u64,
    /// Of these, calls that have returned and were timed.
    pub timed: u64,
    /// Calls per second.
    pub calls_per_s: f64,
    /// Time of the timed calls between entry and return, what they call and their waits included.
    pub total_ns: u64,
    /// Mean of the timed calls.
    pub mean_ns: u64,
    /// The longest of them.
    pub max_ns: u64,
    /// Timed calls by how long they took; from the first to the last bucket that has any.
    pub histogram: Vec<Bucket>,
    /// Where calls came from, most calls first.
    pub callers: Vec<CallersAnswer>,
    /// What is not in the numbers.
    pub losses: FunctionLosses,
}

/// Calls that took about as long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// At least this long.
    pub from_ns: u64,
    /// Shorter than this.
    pub to_ns: u64,
    /// How many.
    pub calls: u64,
}

/// Calls from one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallersAnswer {
    /// Functions of the kernel, the one that calls first.
    pub frames: Vec<String>,
    /// Calls that were counted.
    pub calls: u64,
    /// Time of those that have returned.
    pub total_ns: u64,
}

/// What is not in the numbers of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FunctionLosses {
    /// Calls not counted: the kernel had our program running on that processor already. Of any process.
    pub missed: u64,
    /// Calls not counted: made by our programs, or by an interrupt of them.
    pub own: u64,
    /// Calls counted that had not returned at the end.
    pub unfinished: u64,
    /// Calls counted and not timed, for want of room.
    pub untimed: u64,
    /// Calls counted whose caller is not known.
    pub without_caller: u64,
    /// Returns of calls that were not counted: they began before.
    pub unknown_returns: u64,
}

/// The buckets from the first to the last that has any; `counts[n]` is of times from 2^n to 2^(n+1) ns.
pub fn histogram(counts: &[u64]) -> Vec<Bucket> {
    let bucket = |(bit, calls): (usize, &u64)| Bucket {
        // The first has 0 ns, too.
        from_ns: if bit == 0 { 0 } else { 1 << bit },
        to_ns: 1u64.checked_shl(bit as u32 + 1).unwrap_or(u64::MAX),
        calls: *calls,
    };
    let all: Vec<Bucket> = counts.iter().take(64).enumerate().map(bucket).collect();
    let has_any = |b: &Bucket| b.calls > 0;
    let first = all.iter().position(has_any).unwrap_or(0);
    let end = all.iter().rposition(has_any).map_or(first, |last| last + 1);
    all[first..end].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_from_the_first_to_the_last() {
        let mut counts = [0; 64];
        assert!(histogram(&counts).is_empty());
        (counts[10], counts[12]) = (3, 1);
        let found: Vec<_> = histogram(&counts)
            .iter()
            .map(|b| (b.from_ns, b.to_ns, b.calls))
            .collect();
        assert_eq!(found, [(1024, 2048, 3), (2048, 4096, 0), (4096, 8192, 1)]);
        counts[63] = 1;
        assert_eq!(histogram(&counts).last().map(|b| b.to_ns), Some(u64::MAX));
    }
}
