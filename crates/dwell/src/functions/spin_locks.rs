//! `dwell functions --spin-locks`.
use super::{beyond, count, names};
use crate::cli::FunctionsArgs;
use crate::{naming, terminal};
use dwell_collector::functions::spin_locks::{Operation, Operations, SpinLockCounts, SpinLocks};
use dwell_report::spin_locks::{OperationsAnswer, SpinLocksAnswer, SpinLosses, SpinPlace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::process::ExitCode;

/// Counts until told to stop, and prints the answer.
pub fn spin_locks(args: &FunctionsArgs) -> anyhow::Result<ExitCode> {
    let mut locks = SpinLocks::attach(&args.pid, args.keep_all)?;
    let duration_ns = count(args, || locks.drain())?;
    let answer = answer(&locks.finish(), duration_ns, &args.pid);
    let text = if args.json {
        dwell_report::json::render_spin_locks(&answer)
    } else {
        dwell_report::terminal::render_spin_locks(&answer, &terminal::style(&std::io::stdout()))
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn answer(counts: &SpinLockCounts, duration_ns: u64, pids: &[u32]) -> SpinLocksAnswer {
    let mut symbolizer = naming::symbolizer();
    let stacks = counts.places.iter().map(|p| p.frames.as_slice());
    let names = names(&mut symbolizer, stacks);
    let sum = |operation, number: fn(&Operations) -> u64| -> u64 {
        let of = counts.functions.iter().filter(|f| f.operation == operation);
        of.map(number).sum()
    };
    let (acquired, released) = (
        sum(Operation::Acquire, |f| f.all),
        sum(Operation::Release, |f| f.all),
    );
    let to_keep = counts.kept + counts.no_room + counts.nested;
    SpinLocksAnswer {
        duration_ns,
        pids: pids.to_vec(),
        acquired,
        contended: sum(Operation::Acquire, |f| f.contended),
        released,
        awaited: sum(Operation::Release, |f| f.contended),
        buffer_lasts_times: (to_keep > 0).then(|| (acquired + released) as f64 / to_keep as f64),
        functions: counts.functions.iter().map(operations).collect(),
        waiters: places(counts, Operation::Acquire, &names),
        holders: places(counts, Operation::Release, &names),
        losses: SpinLosses {
            missed: counts.functions.iter().map(|f| f.missed).sum(),
            no_room: counts.no_room,
            nested: counts.nested,
        },
        notes: symbolizer.notes(),
    }
}

fn operations(function: &Operations) -> OperationsAnswer {
    OperationsAnswer {
        name: function.function.to_owned(),
        traced: function.traced,
        operations: function.all,
        contended: function.contended,
        failed_tries: function.failed,
        missed: function.missed,
    }
}

/// Places with the same names are one.
fn places(
    counts: &SpinLockCounts,
    operation: Operation,
    names: &HashMap<u64, String>,
) -> Vec<SpinPlace> {
    let mut places: BTreeMap<Vec<String>, (u64, BTreeSet<u64>)> = BTreeMap::new();
    for place in counts.places.iter().filter(|p| p.operation == operation) {
        let frames = beyond(place.function, &place.frames, names);
        let (times, locks) = places.entry(frames).or_default();
        *times += place.times;
        locks.extend(&place.locks);
    }
    let mut places: Vec<SpinPlace> = places
        .into_iter()
        .map(|(frames, (times, locks))| SpinPlace {
            frames,
            times,
            locks: locks.len() as u64,
        })
        .collect();
    places.sort_by_key(|p| Reverse(p.times));
    places
}
