//! A short window as a table for people who look on: by process, thread, function, state or way of waiting.
//!
//! Shares are of the window's length: 100 % is one thread that ran, or waited, all the time.
use crate::plumbing::is_plumbing;
use dwell_analysis::hottest::{self, HotStack};
use dwell_analysis::summary::Share;
use dwell_analysis::{Analysis, State, Times, groups};
use rustc_hash::FxHashMap;

/// What a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// A process.
    Process,
    /// A thread.
    #[default]
    Thread,
    /// A function.
    Function,
    /// What threads did.
    State,
    /// A way of waiting: reason and system call.
    Reason,
}

impl View {
    /// Every view.
    pub const ALL: [View; 5] = [
        View::Process,
        View::Thread,
        View::Function,
        View::State,
        View::Reason,
    ];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            View::Process => "process",
            View::Thread => "thread",
            View::Function => "function",
            View::State => "state",
            View::Reason => "reason",
        }
    }

    /// Heads of the columns of numbers, shares of the window's length in per cent but for `WAITS`.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            View::Process | View::Thread => &["ON CPU", "SPIN", "WANTS", "BLOCKED"],
            View::Function => &["SELF", "ON CPU", "OFF CPU"],
            View::State => &["TIME"],
            View::Reason => &["TIME", "WAITS"],
        }
    }
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// In step with [`View::columns`].
    pub numbers: Vec<f64>,
    /// What the row is.
    pub name: String,
    /// What is behind it: the way it waited most, the place where most of it was.
    pub detail: String,
    /// The state that the detail is of.
    pub state: Option<State>,
}

/// A window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// Its length, ns.
    pub window_ns: u64,
    /// Number of threads.
    pub threads: u64,
    /// How all thread time divides, waits of idle pools included.
    pub times: Times,
    /// Unordered.
    pub rows: Vec<Row>,
}

impl Live {
    /// The rows of a view.
    pub fn of(analysis: &Analysis<'_>, view: View) -> Live {
        let total = &analysis.summary.total;
        let percent = Percent(analysis.summary.window_ns.max(1) as f64 / 100.0);
        Live {
            window_ns: analysis.summary.window_ns,
            threads: total.threads,
            times: total.times,
            rows: match view {
                View::Process => processes(analysis, percent),
                View::Thread => threads(analysis, percent),
                View::Function => functions(analysis, percent),
                View::State => places(analysis, percent, |s| Some((s.state, String::new()))),
                View::Reason => places(analysis, percent, |s| {
                    s.state.reason()?;
                    Some((
                        s.state,
                        analysis.profile.syscalls[s.syscall as usize].clone(),
                    ))
                }),
            },
        }
    }

    /// Keeps the rows with a text in their name or detail, small or capital, and orders them by a column of numbers, the
    /// greatest first, or by name when there is no such column.
    pub fn arrange(&mut self, filter: &str, column: usize) {
        let filter = filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        self.rows.retain(|row| has(&row.name) || has(&row.detail));
        let number = |row: &Row| row.numbers.get(column).copied().unwrap_or(0.0);
        self.rows.sort_by(|a, b| {
            let by_number = number(b).total_cmp(&number(a));
            by_number.then_with(|| a.name.cmp(&b.name))
        });
    }
}

/// ns of a hundredth of the window.
#[derive(Clone, Copy)]
struct Percent(f64);

impl Percent {
    fn of(self, ns: u64) -> f64 {
        ns as f64 / self.0
    }
}

fn processes(analysis: &Analysis<'_>, percent: Percent) -> Vec<Row> {
    let rows = analysis.tables.processes.iter();
    let rows = rows.zip(&analysis.summary.processes);
    let shown = rows.filter(|(_, share)| share.times.total() > 0);
    shown
        .map(|(process, share)| {
            let name = format!("{:>7} {}", process.pid, process.name);
            divided(name, share, percent)
        })
        .collect()
}

fn threads(analysis: &Analysis<'_>, percent: Percent) -> Vec<Row> {
    let rows = analysis.tables.threads.iter().enumerate();
    let rows = rows.zip(&analysis.summary.threads);
    let shown = rows.filter(|(_, share)| share.times.total() > 0);
    shown
        .map(|((position, thread), share)| {
            let group = &analysis.groups.groups[analysis.groups.of_thread(position)];
            let process = groups::process_name(analysis.tables, group.process);
            let name = match process == thread.name {
                true => format!("{:>7} {process}", thread.tid),
                false => format!("{:>7} {process}/{}", thread.tid, thread.name),
            };
            divided(name, share, percent)
        })
        .collect()
}

/// How some threads' time divides, and how they waited most.
fn divided(name: String, share: &Share, percent: Percent) -> Row {
    let times = &share.times;
    let waits = times
        .iter()
        .filter(|(s, ns)| s.reason().is_some() && *ns > 0);
    let most = waits.max_by_key(|(_, ns)| *ns).map(|(state, _)| state);
    Row {
        numbers: [
            times.running(),
            times.spinning(),
            times.runnable(),
            times.blocked(),
        ]
        .map(|ns| percent.of(ns))
        .to_vec(),
        name,
        detail: most
            .and_then(State::reason)
            .map_or("", |r| r.name())
            .to_owned(),
        state: most,
    }
}

fn functions(analysis: &Analysis<'_>, percent: Percent) -> Vec<Row> {
    let off_cpu = |t: &Times| t.blocked().saturating_add(t.runnable());
    let row = |hot: &hottest::HotFunction| {
        let function = analysis.names.function(hot.function);
        let numbers = [hot.own.running(), hot.total.running(), off_cpu(&hot.total)];
        Row {
            numbers: numbers.map(|ns| percent.of(ns)).to_vec(),
            name: function.name.clone(),
            detail: if function.kernel { "[k]" } else { "" }.to_owned(),
            state: None,
        }
    };
    hottest::functions(analysis, false)
        .iter()
        .map(row)
        .collect()
}

/// Time by what a stack is put under, with the place where most of it was.
fn places(
    analysis: &Analysis<'_>,
    percent: Percent,
    key: impl Fn(&HotStack) -> Option<(State, String)>,
) -> Vec<Row> {
    #[derive(Default)]
    struct Sum {
        ns: u64,
        waits: u64,
        by_place: FxHashMap<String, u64>,
    }
    let mut sums: FxHashMap<(State, String), Sum> = FxHashMap::default();
    for stack in hottest::stacks(analysis, |_| true) {
        let Some(key) = key(&stack) else { continue };
        let sum = sums.entry(key).or_default();
        sum.ns = sum.ns.saturating_add(stack.weight_ns);
        sum.waits = sum.waits.saturating_add(stack.waits);
        let place = sum.by_place.entry(place(analysis, &stack)).or_default();
        *place = place.saturating_add(stack.weight_ns);
    }
    let row = |((state, syscall), sum): ((State, String), Sum)| {
        let place = sum.by_place.into_iter();
        let place = place.max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
        let said = state.reason().map_or(state.name(), |reason| reason.name());
        Row {
            numbers: vec![percent.of(sum.ns), sum.waits as f64],
            name: format!("{said} {syscall}").trim_end().to_owned(),
            detail: place.map(|(place, _)| place).unwrap_or_default(),
            state: Some(state),
        }
    };
    sums.into_iter().map(row).collect()
}

/// `process: function`, the innermost that tells something.
fn place(analysis: &Analysis<'_>, stack: &HotStack) -> String {
    let innermost = stack.path.iter().rev().map(|f| analysis.names.function(*f));
    let tells = innermost
        .clone()
        .find(|f| !f.kernel && !is_plumbing(&f.name));
    let function = tells.or_else(|| innermost.clone().next());
    let who = analysis.groups.labels[stack.label].short();
    match function {
        Some(function) => format!("{who}: {}", function.name),
        None => who,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::testing::{Scale, drawn, fixture};

    fn live(tables: &dwell_recording::Tables, view: View) -> Live {
        Live::of(&Analysis::of(tables), view)
    }

    #[test]
    fn every_view_but_functions_adds_up_to_all_thread_time() {
        let tables = fixture(Scale::default());
        let all = live(&tables, View::Thread);
        let total = 100.0 * all.times.total() as f64 / all.window_ns as f64;
        let left_out = |state| 100.0 * all.times.get(state) as f64 / all.window_ns as f64;
        for view in [View::Process, View::Thread] {
            let rows = live(&tables, view).rows;
            // Spinning is part of the first.
            let sum: f64 = rows
                .iter()
                .map(|r| r.numbers[0] + r.numbers[2] + r.numbers[3])
                .sum();
            let others = left_out(State::Stolen) + left_out(State::Lost);
            assert!(
                (sum + others - total).abs() < 1e-6 * total,
                "{view:?}: {sum} of {total}"
            );
        }
        let states: f64 = live(&tables, View::State)
            .rows
            .iter()
            .map(|r| r.numbers[0])
            .sum();
        assert!((states - total).abs() < 1e-6 * total, "{states} of {total}");
        let reasons: f64 = live(&tables, View::Reason)
            .rows
            .iter()
            .map(|r| r.numbers[0])
            .sum();
        let blocked = 100.0 * all.times.blocked() as f64 / all.window_ns as f64;
        assert!(
            (reasons - blocked).abs() < 1e-6 * total,
            "{reasons} of {blocked}"
        );
    }

    #[test]
    fn rows_are_found_by_text_and_ordered_by_column() {
        let tables = drawn(
            "thread | main    | worker     | worker
             state  | running | lock futex | running
             time   | 300     | 500        | 100
             stack  | main    | main       | main
                    | compute | take       | Other",
        );
        let mut threads = live(&tables, View::Thread);
        threads.arrange("", 0);
        let names: Vec<_> = threads
            .rows
            .iter()
            .map(|r| r.name.trim().split(' ').nth(1))
            .collect();
        assert_eq!(names, [Some("demo/main"), Some("demo/worker")]);
        threads.arrange("", 3);
        assert!(threads.rows[0].name.ends_with("worker") && threads.rows[0].detail == "lock");
        let mut functions = live(&tables, View::Function);
        functions.arrange("OTHER", 0);
        let [other] = functions.rows.as_slice() else {
            panic!("{functions:?}")
        };
        assert_eq!(other.name, "Other");
        let mut reasons = live(&tables, View::Reason);
        reasons.arrange("", 0);
        assert_eq!(reasons.rows[0].name, "lock futex");
        assert_eq!(reasons.rows[0].detail, "demo/worker: take");
        for view in View::ALL {
            for row in live(&tables, view).rows {
                assert!(row.numbers.len() >= view.columns().len(), "{view:?}");
            }
        }
    }
}
