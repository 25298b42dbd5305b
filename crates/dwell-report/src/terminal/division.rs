//! How time divides: a bar per process and thread group.
use super::paint::{Page, left, right};
use crate::answer::{Answer, Division, Process};
use crate::human;
use crate::shorten::middle;
use dwell_analysis::apportion::apportion;
use dwell_analysis::{Reason, State};
use std::collections::BTreeMap;

/// Most processes, and groups of one process, that get a line of their own.
const MOST_PROCESSES: usize = 8;
const MOST_GROUPS: usize = 8;
/// Columns of the numbers: threads, CPUs, running, runnable.
const NUMBERS: [usize; 4] = [5, 6, 8, 9];
/// Columns of the bar, and of the reasons at least.
const BAR: usize = 14;
const NARROW_BAR: usize = 6;
const REASONS: usize = 11;

fn bar_width(page: &Page) -> usize {
    if page.width < 76 { NARROW_BAR } else { BAR }
}

/// Spinning is told from this share of the thread time on.
const SPINNING_SHARE: f64 = 0.001;

/// One line of the table.
struct Row {
    name: String,
    indent: usize,
    division: Division,
}

pub(super) fn add(page: &mut Page, answer: &Answer) {
    let total = &answer.total;
    let about = format!(
        "{} of thread time, {:.2} CPUs in use",
        human::duration(total.lifetime_ns),
        total.cpus
    );
    page.heading("How it divides", &about);
    let rows = rows(answer);
    // What the numbers, the bar and the shortest reasons leave.
    let bar = bar_width(page);
    let room = page.width - bar - NUMBERS.iter().sum::<usize>() - 4 - REASONS;
    let widest = rows
        .iter()
        .map(|r| r.indent + r.name.chars().count())
        .max()
        .unwrap_or(0);
    let name_width = widest.clamp(10, room);
    let [threads, cpus, running, runnable] = NUMBERS;
    let spin = |row: &Row| spins(row.division.spinning_ns, row.division.lifetime_ns);
    let spin = rows.iter().any(spin);
    let header = format!(
        "{}{}{}  {}{}{}  {}",
        left("", name_width),
        right("thr", threads),
        right("CPUs", cpus),
        left("", bar),
        right("running", running),
        right("runnable", runnable),
        if spin { "waiting" } else { "blocked" },
    );
    let header = page.dim(&header);
    page.line(header);
    for row in &rows {
        add_row(page, row, name_width);
    }
    if let Some(legend) = idle_line(answer) {
        page.wrapped(&legend, 0, 2);
    }
}

fn add_row(page: &mut Page, row: &Row, name_width: usize) {
    let d = &row.division;
    let name = format!(
        "{}{}",
        " ".repeat(row.indent),
        middle(&row.name, name_width - row.indent)
    );
    let [threads, cpus, running, runnable] = NUMBERS;
    let name = left(&name, name_width);
    let name = if row.indent == 0 {
        page.bold(&name)
    } else {
        name
    };
    let used = name_width + NUMBERS.iter().sum::<usize>() + bar_width(page) + 4;
    let line = format!(
        "{name}{}{}  {}{}{}  {}",
        right(&human::count(d.threads), threads),
        right(&format!("{:.2}", d.cpus), cpus),
        state_bar(page, &states(d), bar_width(page)),
        right(&tight(d.running_ns, d.lifetime_ns), running),
        right(&tight(d.runnable_ns, d.lifetime_ns), runnable),
        waiting(page, d, page.width.saturating_sub(used)),
    );
    page.line(line);
}

/// A share without the blank before its sign.
fn tight(part: u64, whole: u64) -> String {
    human::percent(part, whole).replace(' ', "")
}

/// Time by state in the order of [`State::all`].
fn states(division: &Division) -> Vec<(State, u64)> {
    let ns = |state: State| match state {
        State::Running => division.running_ns.saturating_sub(division.spinning_ns),
        State::Spinning => division.spinning_ns,
        State::Runnable => division.runnable_ns,
        State::Blocked(reason) => division
            .blocked_by_reason_ns
            .get(reason.name())
            .copied()
            .unwrap_or(0),
        State::Stolen => division.stolen_ns,
        State::Lost => division.lost_ns,
    };
    State::all().map(|state| (state, ns(state))).collect()
}

/// A bar of so many columns, divided like the times of the states.
pub(super) fn state_bar(page: &Page, states: &[(State, u64)], width: usize) -> String {
    if states.iter().all(|(_, ns)| *ns == 0) {
        return " ".repeat(width);
    }
    let weights: Vec<u64> = states.iter().map(|(_, ns)| *ns).collect();
    let cells = apportion(width as u64, &weights);
    let cell = |(state, _): &(State, u64)| match state {
        State::Running => "█",
        State::Spinning => "▒",
        State::Runnable => "▓",
        State::Blocked(_) => "░",
        State::Stolen => "x",
        State::Lost => "?",
    };
    // In colour, every state is a full block of its own hue.
    let glyph = |at: &(State, u64)| {
        if page.state(at.0, "x") == "x" {
            cell(at)
        } else {
            "█"
        }
    };
    let parts = states.iter().zip(cells);
    parts
        .map(|(at, n)| page.state(at.0, &glyph(at).repeat(n as usize)))
        .collect()
}

/// Whether spinning is worth a word.
pub(super) fn spins(spinning_ns: u64, lifetime_ns: u64) -> bool {
    spinning_ns > 0 && spinning_ns as f64 >= SPINNING_SHARE * lifetime_ns as f64
}

/// What of the running time was spent waiting, what others had of the processor, and reasons for being blocked, in this order and
/// the longest of these first; where not all of it fits, what took most of the time.
fn waiting(page: &Page, division: &Division, width: usize) -> String {
    let lifetime_ns = division.lifetime_ns;
    let named = |(state, ns): (State, u64)| {
        let name = match state {
            State::Spinning => "spin",
            // As short as the others, so that there is room for another one.
            State::Blocked(Reason::Condition) => "cond",
            State::Blocked(reason) => reason.name(),
            State::Stolen => state.name(),
            State::Running | State::Runnable | State::Lost => return None,
        };
        let told = match state {
            State::Spinning => spins(ns, lifetime_ns),
            // One in two hundred is noise here.
            _ => ns > 0 && ns as f64 >= 0.005 * lifetime_ns as f64,
        };
        told.then_some((state, name, ns))
    };
    let mut parts: Vec<_> = states(division).into_iter().filter_map(named).collect();
    parts.sort_by_key(|(_, _, ns)| std::cmp::Reverse(*ns));
    let text = |(state, name, ns): (State, &str, u64)| {
        let share = 100.0 * ns as f64 / lifetime_ns as f64;
        let share = match share < 9.95 && state.reason().is_none() {
            true => tight(ns, lifetime_ns),
            false => format!("{share:.0}%"),
        };
        (state, format!("{name} {share}"))
    };
    let mut used = 0;
    let fits = |(_, text): &(State, String)| {
        used += text.len() + if used == 0 { 0 } else { 2 };
        used <= width
    };
    let mut texts: Vec<(State, String)> = parts.into_iter().map(text).take_while(fits).collect();
    texts.sort_by_key(|(state, _)| match state {
        State::Blocked(_) => State::COUNT,
        other => other.index(),
    });
    let texts = texts.iter().map(|(state, text)| page.state(*state, text));
    texts.collect::<Vec<_>>().join("  ")
}

fn idle_line(answer: &Answer) -> Option<String> {
    const MOST_POOLS: usize = 4;
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for pool in &answer.idle_pools {
        *by_name.entry(&pool.group).or_default() += pool.threads;
    }
    let mut pools: Vec<(&str, u64)> = by_name.into_iter().collect();
    pools.sort_by_key(|&(_, threads)| std::cmp::Reverse(threads));
    let named: Vec<String> = pools
        .iter()
        .take(MOST_POOLS)
        .map(|(group, threads)| {
            format!(
                "{group} ({})",
                human::counted(*threads, "thread", "threads")
            )
        })
        .collect();
    let more = pools.len().saturating_sub(MOST_POOLS);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!named.is_empty()).then(|| {
        format!(
            "Idle, waiting for work, left out below: {}{more}",
            named.join(", ")
        )
    })
}

fn rows(answer: &Answer) -> Vec<Row> {
    let merged = if answer.processes.len() > MOST_PROCESSES {
        merge_namesakes(&answer.processes)
    } else {
        answer
            .processes
            .iter()
            .map(|p| (format!("{} ({})", p.name, p.pid), p.clone()))
            .collect()
    };
    let mut rows = Vec::new();
    for (name, process) in merged.iter().take(MOST_PROCESSES) {
        rows.push(Row {
            name: name.clone(),
            indent: 0,
            division: process.division.clone(),
        });
        add_groups(&mut rows, process);
    }
    if merged.len() > MOST_PROCESSES {
        let rest = &merged[MOST_PROCESSES..];
        let mut division = Division::default();
        for (_, process) in rest {
            sum(&mut division, &process.division);
        }
        rows.push(Row {
            name: format!("{} more", rest.len()),
            indent: 0,
            division,
        });
    }
    rows
}

fn add_groups(rows: &mut Vec<Row>, process: &Process) {
    if process.groups.len() < 2 {
        return;
    }
    for group in process.groups.iter().take(MOST_GROUPS) {
        rows.push(Row {
            name: group.name.clone(),
            indent: 2,
            division: group.division.clone(),
        });
    }
    if process.groups.len() > MOST_GROUPS {
        let rest = &process.groups[MOST_GROUPS..];
        let mut division = Division::default();
        for group in rest {
            sum(&mut division, &group.division);
        }
        rows.push(Row {
            name: format!("{} more", rest.len()),
            indent: 2,
            division,
        });
    }
}

/// Processes with the same name become one line: a build starts hundreds of compilers.
fn merge_namesakes(processes: &[Process]) -> Vec<(String, Process)> {
    let mut merged: Vec<(u64, Process)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for process in processes {
        let place = *places.entry(&process.name).or_insert_with(|| {
            merged.push((
                0,
                Process {
                    name: process.name.clone(),
                    ..Process::default()
                },
            ));
            merged.len() - 1
        });
        let (count, into) = &mut merged[place];
        *count += 1;
        sum(&mut into.division, &process.division);
        for group in &process.groups {
            match into.groups.iter_mut().find(|g| g.name == group.name) {
                Some(known) => sum(&mut known.division, &group.division),
                None => into.groups.push(group.clone()),
            }
        }
    }
    merged.sort_by_key(|(_, p)| {
        (
            std::cmp::Reverse(p.division.running_ns),
            std::cmp::Reverse(p.division.lifetime_ns),
        )
    });
    let named = |(count, process): (u64, Process)| match count {
        1 => (process.name.clone(), process),
        _ => (format!("{} ×{count}", process.name), process),
    };
    merged.into_iter().map(named).collect()
}

fn sum(into: &mut Division, more: &Division) {
    into.threads += more.threads;
    into.lifetime_ns = into.lifetime_ns.saturating_add(more.lifetime_ns);
    into.running_ns = into.running_ns.saturating_add(more.running_ns);
    into.spinning_ns = into.spinning_ns.saturating_add(more.spinning_ns);
    into.runnable_ns = into.runnable_ns.saturating_add(more.runnable_ns);
    into.blocked_ns = into.blocked_ns.saturating_add(more.blocked_ns);
    into.stolen_ns = into.stolen_ns.saturating_add(more.stolen_ns);
    into.lost_ns = into.lost_ns.saturating_add(more.lost_ns);
    into.cpus += more.cpus;
    for (reason, ns) in &more.blocked_by_reason_ns {
        let cell = into.blocked_by_reason_ns.entry(reason.clone()).or_default();
        *cell = cell.saturating_add(*ns);
    }
}
