//! `dwell functions`: calls of kernel functions.
mod spin_locks;

use crate::cli::FunctionsArgs;
use crate::{naming, terminal};
use dwell_collector::functions::{FunctionCalls, Functions, wait};
use dwell_report::functions::{
    CallersAnswer, FunctionAnswer, FunctionLosses, FunctionsAnswer, histogram,
};
use dwell_symbols::Symbolizer;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// Counts until told to stop, and prints the answer.
pub fn functions(args: &FunctionsArgs) -> anyhow::Result<ExitCode> {
    for pid in &args.pid {
        let process = format!("/proc/{pid}");
        anyhow::ensure!(std::path::Path::new(&process).exists(), "no process {pid}");
    }
    if args.spin_locks {
        return spin_locks::spin_locks(args);
    }
    let mut functions = Functions::attach(&args.names, &args.pid)?;
    let duration_ns = count(args, || ())?;
    functions.detach();
    let answer = answer(&functions.read()?, duration_ns, &args.pid);
    let text = if args.json {
        dwell_report::json::render_functions(&answer)
    } else {
        dwell_report::terminal::render_functions(&answer, &terminal::style(&std::io::stdout()))
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Waits while programs count; how long, ns.
fn count(args: &FunctionsArgs, meanwhile: impl FnMut()) -> anyhow::Result<u64> {
    let started = Instant::now();
    eprintln!("dwell: counting; Ctrl-C ends it");
    wait(args.duration, &args.pid, meanwhile)?;
    Ok(started.elapsed().as_nanos() as u64)
}

fn answer(counted: &[FunctionCalls], duration_ns: u64, pids: &[u32]) -> FunctionsAnswer {
    let mut symbolizer = naming::symbolizer();
    let callers_of_all = counted.iter().flat_map(|f| &f.callers);
    let names = names(&mut symbolizer, callers_of_all.map(|c| c.frames.as_slice()));
    let seconds = duration_ns.max(1) as f64 / 1e9;
    let mut functions: Vec<FunctionAnswer> = counted
        .iter()
        .map(|f| FunctionAnswer {
            name: f.name.clone(),
            calls: f.calls,
            timed: f.timed,
            calls_per_s: f.calls as f64 / seconds,
            total_ns: f.total_ns,
            mean_ns: f.total_ns / f.timed.max(1),
            max_ns: f.max_ns,
            histogram: histogram(&f.buckets),
            callers: callers(f, &names),
            losses: FunctionLosses {
                missed: f.missed,
                own: f.own,
                unfinished: f.unfinished(),
                untimed: f.untimed,
                without_caller: f.without_caller,
                unknown_returns: f.unknown_returns,
            },
        })
        .collect();
    functions.sort_by_key(|f| Reverse((f.total_ns, f.calls)));
    FunctionsAnswer {
        duration_ns,
        pids: pids.to_vec(),
        functions,
        notes: symbolizer.notes(),
    }
}

/// The kernel's names of all addresses of some stacks.
fn names<'s>(
    symbolizer: &mut Symbolizer,
    stacks: impl Iterator<Item = &'s [u64]>,
) -> HashMap<u64, String> {
    let mut addresses: Vec<u64> = stacks.flatten().copied().collect();
    addresses.sort_unstable();
    addresses.dedup();
    let found = symbolizer.kernel(&addresses);
    let name = |(address, chain): (&u64, Vec<dwell_symbols::Symbol>)| {
        let name = chain.into_iter().next().map(|s| s.function);
        (*address, name.unwrap_or_else(|| format!("{address:#x}")))
    };
    addresses.iter().zip(found).map(name).collect()
}

/// Places with the same names are one.
fn callers(function: &FunctionCalls, names: &HashMap<u64, String>) -> Vec<CallersAnswer> {
    let mut places: BTreeMap<Vec<String>, (u64, u64)> = BTreeMap::new();
    for place in &function.callers {
        let sums = places
            .entry(beyond(&function.name, &place.frames, names))
            .or_default();
        sums.0 += place.calls;
        sums.1 += place.total_ns;
    }
    let mut places: Vec<CallersAnswer> = places
        .into_iter()
        .map(|(frames, (calls, total_ns))| CallersAnswer {
            frames,
            calls,
            total_ns,
        })
        .collect();
    places.sort_by_key(|c| Reverse(c.calls));
    places
}

/// The names from the caller on: what comes before is our program, and the function itself.
fn beyond(function: &str, frames: &[u64], names: &HashMap<u64, String>) -> Vec<String> {
    let frames: Vec<String> = frames
        .iter()
        .filter_map(|pc| names.get(pc).cloned())
        .collect();
    let own = frames.iter().position(|name| name == function);
    frames[own.map_or(0, |at| at + 1)..].to_vec()
}
