//! Functions of the kernel: calls, time, callers.
use super::Style;
use super::paint::{Page, left, right};
use super::stacks::wrap;
use crate::functions::{CallersAnswer, FunctionAnswer, FunctionsAnswer};
use crate::human;
use crate::shorten::shorten;

/// Places told of per function; the JSON output has all.
const CALLERS: usize = 5;
/// Columns of a number.
const NUMBER: usize = 10;
/// Columns before a histogram's bar, and after it.
const BEFORE_BAR: usize = 14;
const AFTER_BAR: usize = 20;
/// Columns before a caller.
const BEFORE_CALLER: usize = 30;

/// Renders the answer.
pub fn render_functions(answer: &FunctionsAnswer, style: &Style) -> String {
    let mut page = Page::new(style);
    add_table(&mut page, answer);
    for function in answer.functions.iter().filter(|f| f.calls > 0) {
        add_function(&mut page, function);
    }
    add_losses(&mut page, answer);
    for note in &answer.notes {
        page.wrapped(note, 0, 2);
    }
    page.finish()
}

fn add_table(page: &mut Page, answer: &FunctionsAnswer) {
    let heading = page.bold("Kernel functions");
    page.line(format!(
        "{heading}  calls {} in {}",
        whose(&answer.pids),
        human::duration(answer.duration_ns)
    ));
    let titles = ["calls", "per s", "total", "mean", "longest"];
    let header: String = titles.iter().map(|t| right(t, NUMBER)).collect();
    let header = page.dim(&format!("{header}  function"));
    page.line(header);
    for f in &answer.functions {
        let numbers = [
            human::count(f.calls),
            human::count(f.calls_per_s.round() as u64),
            time(f, f.total_ns),
            time(f, f.mean_ns),
            time(f, f.max_ns),
        ];
        let numbers: String = numbers.iter().map(|n| right(n, NUMBER)).collect();
        let room = page.width - titles.len() * NUMBER - 2;
        let name = page.bold(&shorten(&f.name, room));
        page.line(format!("{numbers}  {name}"));
    }
}

/// Whose calls are counted.
pub(super) fn whose(pids: &[u32]) -> String {
    match pids {
        [] => "of all processes".to_owned(),
        [pid] => format!("of process {pid}"),
        pids => format!("of {} processes", pids.len()),
    }
}

/// A time of timed calls; a dash where there are none.
fn time(function: &FunctionAnswer, ns: u64) -> String {
    if function.timed == 0 {
        "-".to_owned()
    } else {
        human::duration(ns)
    }
}

fn add_function(page: &mut Page, function: &FunctionAnswer) {
    page.heading(&function.name, "time of a call, from entry to return");
    let most = function
        .histogram
        .iter()
        .map(|b| b.calls)
        .max()
        .unwrap_or(0);
    let room = page.width - BEFORE_BAR - AFTER_BAR;
    for bucket in &function.histogram {
        let length = (bucket.calls as f64 / most.max(1) as f64 * room as f64).ceil() as usize;
        page.line(format!(
            "{}  {} {}{}",
            right(
                &format!("≥ {}", human::duration(bucket.from_ns)),
                BEFORE_BAR - 2
            ),
            left(&"█".repeat(length), room),
            right(&human::count(bucket.calls), 9),
            right(&human::percent(bucket.calls, function.timed), 9),
        ));
    }
    let shown = &function.callers[..CALLERS.min(function.callers.len())];
    if shown.is_empty() {
        return;
    }
    let header = format!(
        "{}{}{}  called by",
        right("share", 8),
        right("calls", NUMBER),
        right("mean", NUMBER)
    );
    let header = page.dim(&header);
    page.line(header);
    for caller in shown {
        add_caller(page, function, caller);
    }
    let rest = function.callers.len() - shown.len();
    if rest > 0 {
        let more = human::counted(rest as u64, "more place", "more places");
        page.line(format!("{}{more}", " ".repeat(BEFORE_CALLER)));
    }
}

fn add_caller(page: &mut Page, function: &FunctionAnswer, caller: &CallersAnswer) {
    let mean = human::duration(caller.total_ns / caller.calls.max(1));
    let numbers = format!(
        "{}{}{}",
        right(&human::percent(caller.calls, function.calls), 8),
        right(&human::count(caller.calls), NUMBER),
        right(&mean, NUMBER)
    );
    add_place(page, &numbers, BEFORE_CALLER, &caller.frames);
}

/// Numbers, and behind so many columns the functions of a place, in two lines at most.
pub(super) fn add_place(page: &mut Page, numbers: &str, columns: usize, frames: &[String]) {
    let room = page.width - columns;
    let names: Vec<String> = frames.iter().map(|f| shorten(f, room)).collect();
    for (at, line) in wrap(&names, room).iter().take(2).enumerate() {
        let before = if at == 0 { numbers } else { "" };
        page.line(format!("{}{line}", left(before, columns)));
    }
}

fn add_losses(page: &mut Page, answer: &FunctionsAnswer) {
    page.heading("How far to trust it", "");
    let mut nothing = true;
    for f in &answer.functions {
        let losses = &f.losses;
        let lost = [
            (
                losses.missed,
                "not counted, of any process: our program ran on that processor already",
            ),
            (
                losses.own,
                "not counted: made by our own programs, or by an interrupt of them",
            ),
            (losses.untimed, "counted but not timed: too many at once"),
            (losses.without_caller, "counted without a caller"),
        ];
        for (calls, what) in lost.iter().filter(|(n, _)| *n > 0) {
            nothing = false;
            let calls = human::counted(*calls, "call", "calls");
            page.wrapped(&format!("{}: {calls} {what}.", f.name), 2, 4);
        }
        if losses.unfinished > 0 {
            let calls = human::counted(losses.unfinished, "call", "calls");
            page.wrapped(&format!("{}: {calls} had not returned.", f.name), 2, 4);
        }
    }
    if nothing {
        page.line("  Every call was counted.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{FunctionLosses, histogram};
    use unicode_width::UnicodeWidthStr;

    fn answer() -> FunctionsAnswer {
        let mut counts = [0; 64];
        (counts[8], counts[9], counts[14]) = (9_000, 900, 99);
        let frames = ["do_sys_openat2", "__x64_sys_openat", "do_syscall_64"];
        FunctionsAnswer {
            duration_ns: 5_000_000_000,
            pids: vec![4711],
            functions: vec![
                FunctionAnswer {
                    name: "vfs_open".into(),
                    calls: 10_000,
                    timed: 9_999,
                    calls_per_s: 2000.0,
                    total_ns: 4_000_000,
                    mean_ns: 400,
                    max_ns: 20_000,
                    histogram: histogram(&counts),
                    callers: vec![CallersAnswer {
                        frames: frames.map(str::to_owned).to_vec(),
                        calls: 10_000,
                        total_ns: 4_000_000,
                    }],
                    losses: FunctionLosses {
                        missed: 3,
                        unfinished: 1,
                        ..FunctionLosses::default()
                    },
                },
                FunctionAnswer {
                    name: "a_function_that_nobody_called_and_has_a_long_name".into(),
                    ..FunctionAnswer::default()
                },
            ],
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_is_told_of_functions() {
        let text = render_functions(&answer(), &Style::default());
        for line in [
            "Kernel functions  calls of process 4711 in 5.00 s",
            "     10.0k     2 000   4.00 ms    400 ns   20.0 µs  vfs_open",
            " 100.0 %     10.0k    400 ns  do_sys_openat2 ← __x64_sys_openat ← do_syscall_64",
            "  vfs_open: 3 calls not counted, of any process: our program ran on that",
            "  vfs_open: 1 call had not returned.",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line:?} in\n{text}");
        }
        assert!(text.lines().all(|l| l.width() <= 80), "too wide:\n{text}");
        assert!(!text.contains("Every call was counted"));
    }

    #[test]
    fn narrow_pages_hold() {
        let style = Style {
            width: 60,
            color: false,
            ..Style::default()
        };
        let text = render_functions(&answer(), &style);
        assert!(text.lines().all(|l| l.width() <= 60), "too wide:\n{text}");
    }
}
