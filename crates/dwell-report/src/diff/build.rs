//! From runs to what changed.
use super::noise::{Values, change, limit, sampling_variance};
use super::predictions;
use super::run::WaitKey;
use super::tree::{Both, DiffTree};
use super::{Change, DiffAnswer, FunctionChange, Measure, Per, Run, Side, WaitChange};
use crate::answer::Frame;
use dwell_analysis::State;
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::Hash;

/// Least change of a function or a wait that is told, as a share of the greater side's time in states like it.
const LEAST_SHARE: f64 = 0.005;
const SECOND_NS: f64 = 1e9;
/// Shares of stolen time from which it is worth a word.
const STOLEN_SHARE: f64 = 0.02;

/// Both sides with what each recording's times are multiplied by.
pub struct Sides {
    before: Vec<(Run, f64)>,
    after: Vec<(Run, f64)>,
    per: Per,
}

impl Sides {
    /// Puts runs side by side. `Per::Work` has a number above zero for each run, those before first.
    pub fn new(before: Vec<Run>, after: Vec<Run>, per: Per) -> Sides {
        let firsts = before.len();
        let mut scaled: Vec<(Run, f64)> = before
            .into_iter()
            .chain(after)
            .enumerate()
            .map(|(at, run)| {
                let scale = scale(&run, &per, at);
                (run, scale)
            })
            .collect();
        let after = scaled.split_off(firsts);
        let mut sides = Sides {
            before: scaled,
            after,
            per,
        };
        sides.join_names();
        sides
    }

    /// A program that was built under another name is still the same program.
    fn join_names(&mut self) {
        let only = |runs: &[(Run, f64)]| {
            let (first, rest) = runs.split_first()?;
            let [name] = first.0.processes.as_slice() else {
                return None;
            };
            let same = rest
                .iter()
                .all(|(run, _)| run.processes == first.0.processes);
            same.then(|| name.clone())
        };
        if let (Some(was), Some(is)) = (only(&self.before), only(&self.after))
            && was != is
        {
            let name = format!("{was} → {is}");
            let all = self.before.iter_mut().chain(&mut self.after);
            all.for_each(|(run, _)| run.rename(&name));
        }
    }

    /// The stacks of both sides, their times as means of the side's recordings.
    pub(crate) fn tree(&self) -> DiffTree {
        let lines = |runs: &[(Run, f64)], both: fn(f64) -> Both| {
            let count = runs.len() as f64;
            let of = |(run, scale): &(Run, f64)| {
                let weighted = run.lines.iter();
                let weighted =
                    weighted.map(|l| (l.stack.clone(), both(l.ns as f64 * scale / count)));
                weighted.collect::<Vec<_>>()
            };
            runs.iter().flat_map(of).collect::<Vec<_>>()
        };
        let mut all = lines(&self.before, |before| Both { before, after: 0.0 });
        all.extend(lines(&self.after, |after| Both { before: 0.0, after }));
        let sample = |runs: &[(Run, f64)]| {
            let periods = runs.iter().map(|(run, scale)| run.period_ns as f64 * scale);
            periods.sum::<f64>() / (runs.len() as f64).powi(2)
        };
        let sample = Both {
            before: sample(&self.before),
            after: sample(&self.after),
        };
        DiffTree::of(all, sample)
    }

    /// A quantity of every recording, with the variance that sampling it brings.
    fn change(&self, of: impl Fn(&Run) -> (f64, f64)) -> Change {
        let values = |runs: &[(Run, f64)]| {
            let mut values = Values::default();
            for (run, scale) in runs {
                let (value, variance) = of(run);
                values.push(value * scale, variance * scale * scale);
            }
            values
        };
        change(&values(&self.before), &values(&self.after))
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.before.iter().chain(&self.after).map(|(run, _)| run)
    }

    /// Every key that any recording has.
    fn keys<'s, K: Eq + Hash + Ord + Clone + 's, V: 's>(
        &'s self,
        of: impl Fn(&'s Run) -> &'s FxHashMap<K, V>,
    ) -> Vec<K> {
        let keys: FxHashSet<&K> = self.runs().flat_map(|run| of(run).keys()).collect();
        let mut keys: Vec<K> = keys.into_iter().cloned().collect();
        keys.sort_unstable();
        keys
    }
}

fn scale(run: &Run, per: &Per, at: usize) -> f64 {
    let over = |ns: u64| if ns == 0 { 0.0 } else { SECOND_NS / ns as f64 };
    match per {
        Per::Run => 1.0,
        Per::Second => over(run.window_ns),
        Per::ThreadTime => over(run.times.total()),
        Per::Work(units) => 1.0 / units[at],
    }
}

impl DiffAnswer {
    /// Compares.
    pub fn of(sides: &Sides) -> DiffAnswer {
        let mut answer = DiffAnswer {
            per: sides.per.name().to_owned(),
            before: side(&sides.before),
            after: side(&sides.after),
            measures: measures(sides),
            notes: notes(sides),
            ..DiffAnswer::default()
        };
        answer.add_functions(sides);
        answer.add_waits(sides);
        answer.add_findings(sides);
        answer
    }

    fn least(&self, measures: &[&str]) -> f64 {
        let greater = |name: &&str| self.measure(name).map_or(0.0, |c| c.before.max(c.after));
        LEAST_SHARE * measures.iter().map(greater).sum::<f64>()
    }

    fn add_functions(&mut self, sides: &Sides) {
        let least = self.least(&["running"]);
        let of = |key: &(String, bool), part: fn(&(u64, u64)) -> u64| {
            sides.change(|run| {
                let ns = run.functions.get(key).map_or(0, part) as f64;
                (ns, sampling_variance(ns, run.period_ns as f64))
            })
        };
        let keys = sides.keys(|run| &run.functions);
        let all = keys.into_iter().map(|key| {
            let own = of(&key, |sums| sums.0);
            (key, own)
        });
        let function = |((name, kernel), own): ((String, bool), Change)| FunctionChange {
            total: of(&(name.clone(), kernel), |sums| sums.1),
            function: Frame {
                function: name,
                kernel,
            },
            own,
        };
        let told = self.told(all.collect(), least);
        self.functions = told.into_iter().map(function).collect();
    }

    fn add_waits(&mut self, sides: &Sides) {
        let waiting: Vec<String> = State::all()
            .filter(|s| *s == State::Runnable || s.reason().is_some())
            .map(measure_name)
            .collect();
        let waiting: Vec<&str> = waiting.iter().map(String::as_str).collect();
        let least = self.least(&waiting);
        let keys = sides.keys(|run| &run.waits);
        let all = keys.into_iter().map(|key| {
            // A site's sum is exact.
            let ns = |run: &Run| run.waits.get(&key).map_or(0.0, |ns| *ns as f64);
            let time = sides.change(|run| (ns(run), 0.0));
            (key, time)
        });
        let told = self.told(all.collect(), least);
        self.waits = told
            .into_iter()
            .map(|(key, time)| wait(&key, time))
            .collect();
    }

    /// The changes that are worth a word, the greatest first; the others are counted.
    fn told<K>(&mut self, all: Vec<(K, Change)>, least: f64) -> Vec<(K, Change)> {
        let changed = all.into_iter().filter(|(_, c)| c.difference != 0.0);
        let (mut told, small): (Vec<_>, Vec<_>) =
            changed.partition(|(_, c)| c.before.max(c.after) >= least);
        let before = told.len() + small.len();
        // What is looked at together gives many a chance to be told by chance.
        let limit = limit(told.iter().map(|(_, c)| c.chance));
        told.retain_mut(|(_, c)| {
            c.significant = c.chance.is_none_or(|chance| chance <= limit);
            c.significant && c.difference.abs() >= least
        });
        self.left_out += (before - told.len()) as u64;
        told.sort_by(|(_, a), (_, b)| b.difference.abs().total_cmp(&a.difference.abs()));
        told
    }

    /// A finding of one side is one that most of its recordings have.
    fn add_findings(&mut self, sides: &Sides) {
        let most = |runs: &[(Run, f64)], rule: &str| {
            let has = |(run, _): &&(Run, f64)| run.findings.iter().any(|f| f.rule == rule);
            2 * runs.iter().filter(has).count() > runs.len()
        };
        let mut rules: Vec<&str> = sides
            .runs()
            .flat_map(|r| &r.findings)
            .map(|f| f.rule.as_str())
            .collect();
        rules.sort_unstable();
        rules.dedup();
        let first = |runs: &[(Run, f64)], rule: &str| {
            let mut all = runs.iter().flat_map(|(run, _)| &run.findings);
            all.find(|f| f.rule == rule).cloned()
        };
        for rule in rules {
            let before = most(&sides.before, rule).then(|| first(&sides.before, rule));
            let check = before.flatten().and_then(|f| predictions::check(self, &f));
            self.predictions.extend(check);
            match (most(&sides.before, rule), most(&sides.after, rule)) {
                (true, true) => self.findings_stayed.push(rule.to_owned()),
                (true, false) => self.findings_gone.extend(first(&sides.before, rule)),
                (false, true) => self.findings_new.extend(first(&sides.after, rule)),
                (false, false) => {}
            }
        }
    }
}

fn wait(key: &WaitKey, time: Change) -> WaitChange {
    WaitChange {
        who: key.who.clone(),
        reason: key.reason.to_owned(),
        syscall: key.syscall.clone(),
        frames: key.frames(),
        time,
    }
}

fn side(runs: &[(Run, f64)]) -> Side {
    Side {
        target: runs
            .first()
            .map(|(run, _)| run.target.clone())
            .unwrap_or_default(),
        recordings: runs.len() as u64,
    }
}

fn measure_name(state: State) -> String {
    match state.reason() {
        Some(reason) => format!("{}:{}", state.name(), reason.name()),
        None => state.name().to_owned(),
    }
}

fn measures(sides: &Sides) -> Vec<Measure> {
    let mut measures = Vec::new();
    let mut add = |name: String, change: Change| {
        if change.before != 0.0 || change.after != 0.0 {
            measures.push(Measure { name, change });
        }
    };
    if matches!(sides.per, Per::Run | Per::Work(_)) {
        add(
            "duration".to_owned(),
            sides.change(|run| (run.window_ns as f64, 0.0)),
        );
    }
    for state in State::all() {
        let ns = |run: &Run| match state {
            State::Running => run.times.running(),
            _ => run.times.get(state),
        };
        add(
            measure_name(state),
            sides.change(|run| (ns(run) as f64, 0.0)),
        );
    }
    let threads = |runs: &[(Run, f64)]| {
        let mut values = Values::default();
        runs.iter()
            .for_each(|(run, _)| values.push(run.threads as f64, 0.0));
        values
    };
    add(
        "threads".to_owned(),
        change(&threads(&sides.before), &threads(&sides.after)),
    );
    measures
}

/// What makes a comparison less sure than its numbers look.
fn notes(sides: &Sides) -> Vec<String> {
    let mut notes = Vec::new();
    let mut machines: Vec<_> = sides.runs().map(|run| &run.machine).collect();
    machines.sort_unstable();
    machines.dedup();
    if machines.len() > 1 {
        let named: Vec<String> = machines
            .iter()
            .map(|(host, kernel, cpus)| format!("{host} (Linux {kernel}, {cpus} CPUs)"))
            .collect();
        notes.push(format!(
            "Recorded on machines that differ: {}.",
            named.join(", ")
        ));
    }
    if sides.runs().any(|run| !run.complete) {
        notes.push("A recording was cut short.".to_owned());
    }
    let mut codes: Vec<i32> = sides.runs().filter_map(|run| run.exit_code).collect();
    codes.sort_unstable();
    codes.dedup();
    if codes.len() > 1 {
        let codes: Vec<String> = codes.iter().map(i32::to_string).collect();
        notes.push(format!(
            "The commands ended with different exit codes: {}.",
            codes.join(", ")
        ));
    }
    let stolen = |run: &Run| run.times.stolen() as f64 / run.times.running().max(1) as f64;
    let most = sides.runs().map(stolen).fold(0.0, f64::max);
    if most > STOLEN_SHARE {
        notes.push(format!(
            "Others had the processors for up to {:.0} % of the time that the threads ran: durations are worse for it, CPU \
             time hardly.",
            100.0 * most
        ));
    }
    if sides.before.len() < 2 && sides.after.len() < 2 {
        notes.push(
            "One recording of each: how much runs differ by themselves is not known. Several of each (BEFORE… --after \
             AFTER…) tell it."
                .to_owned(),
        );
    }
    notes
}
