//! Hottest stacks, innermost first.
use super::paint::{Page, left, right};
use crate::answer::{Answer, Frame, Stack};
use crate::human;
use crate::plumbing::{is_plumbing, is_standard};
use crate::shorten::{brief, middle, shorten};
use dwell_analysis::{Reason, State};
use unicode_width::UnicodeWidthStr;

/// Columns before the reason of a wait.
const OFF_CPU_NUMBERS: usize = 48;
/// Lines a stack may take.
const STACK_LINES: usize = 2;
/// Functions shown; the rest is in the JSON output.
const FUNCTIONS: usize = 6;
/// Columns the stack is indented by.
const INDENT: usize = 9;

pub(super) fn add_on_cpu(page: &mut Page, answer: &Answer) {
    page.heading("Hottest on CPU", "share of all thread time");
    if answer.on_cpu.is_empty() {
        page.line("  Nothing ran.");
        return;
    }
    add_functions(page, answer);
    for stack in answer.on_cpu.iter().take(page.stacks) {
        let spins = match state(stack) {
            State::Spinning => "  spinning",
            _ => "",
        };
        let who = middle(&who(stack), page.width - 24 - spins.len());
        let line = format!(
            "{}{}  {who}{}",
            share(page, stack),
            time(stack.time_ns),
            page.state(State::Spinning, spins)
        );
        page.line(line);
        add_frames(page, &stack.frames);
    }
}

/// Functions say more than stacks where a program's time is spread over many paths.
fn add_functions(page: &mut Page, answer: &Answer) {
    let header = page.dim(&format!("{}{}", right("self", 7), right("total", 10)));
    page.line(header);
    for hot in answer.functions_on_cpu.iter().take(FUNCTIONS) {
        let percent = |sums: &std::collections::BTreeMap<String, u64>| {
            let on_cpu = State::all().filter(|s| s.on_cpu()).map(State::name);
            let ns: u64 = on_cpu.filter_map(|state| sums.get(state)).sum();
            human::percent(ns, answer.total.lifetime_ns)
        };
        let kernel = if hot.function.kernel { " [k]" } else { "" };
        let line = format!(
            "{}{}  {}{kernel}",
            page.bold(&right(&percent(&hot.self_ns), 7)),
            right(&percent(&hot.total_ns), 10),
            shorten(&hot.function.function, page.width - 24),
        );
        page.line(line);
    }
    let header = page.dim(&format!("{}{}", right("stack", 7), right("time", 10)));
    page.line(header);
}

pub(super) fn add_off_cpu(page: &mut Page, answer: &Answer) {
    page.heading("Hottest off CPU", "share of all thread time");
    if answer.off_cpu.is_empty() {
        page.line("  Nothing waited.");
        return;
    }
    let header = format!(
        "{}{}{}  why",
        right("waits", 26),
        right("mean", 10),
        right("longest", 10)
    );
    let header = page.dim(&header);
    page.line(header);
    for stack in answer.off_cpu.iter().take(page.stacks) {
        let why = middle(&why(stack), page.width - OFF_CPU_NUMBERS);
        let room = page.width.saturating_sub(OFF_CPU_NUMBERS + why.width() + 2);
        let group = if room < 4 {
            String::new()
        } else {
            middle(&stack.group, room)
        };
        let line = format!(
            "{}{}{}{}{}  {}  {group}",
            share(page, stack),
            time(stack.time_ns),
            right(&waits(stack.waits), 9),
            right(&known(stack.mean_ns), 10),
            right(&known(stack.max_ns), 10),
            page.state(state(stack), &why),
        );
        page.line(line);
        add_frames(page, &stack.frames);
    }
}

fn share(page: &Page, stack: &Stack) -> String {
    page.bold(&right(&human::share(stack.share), 7))
}

fn time(ns: u64) -> String {
    right(&human::duration(ns), 10)
}

fn waits(n: u64) -> String {
    if n == 0 {
        "-".to_owned()
    } else {
        human::count(n)
    }
}

fn known(ns: u64) -> String {
    if ns == 0 {
        "-".to_owned()
    } else {
        human::duration(ns)
    }
}

fn who(stack: &Stack) -> String {
    if stack.process == stack.group {
        stack.group.clone()
    } else {
        format!("{}/{}", stack.process, stack.group)
    }
}

fn why(stack: &Stack) -> String {
    match (stack.state.as_str(), stack.syscall.as_str()) {
        ("blocked", "") => stack.reason.clone(),
        ("blocked", syscall) => format!("{} {syscall}", stack.reason),
        _ => "wants a CPU".to_owned(),
    }
}

fn state(stack: &Stack) -> State {
    match stack.state.as_str() {
        "blocked" => State::Blocked(Reason::from_name(&stack.reason)),
        "runnable" => State::Runnable,
        "spinning" => State::Spinning,
        _ => State::Running,
    }
}

/// Writes a stack, innermost first, in at most [`STACK_LINES`] lines. When it is too long, frames
/// between the innermost ones and the outermost telling one are left out.
fn add_frames(page: &mut Page, frames: &[Frame]) {
    let width = page.width - INDENT;
    let names = telling(frames, width);
    for shown in (1..=names.len()).rev() {
        let mut pieces = names[..shown].to_vec();
        if shown < names.len() {
            if shown + 1 < names.len() {
                pieces.push("…".to_owned());
            }
            pieces.push(names[names.len() - 1].clone());
        }
        let lines = wrap(&pieces, width);
        if lines.len() <= STACK_LINES || shown == 1 {
            for (place, line) in lines.iter().enumerate() {
                // The innermost function stands out.
                let bright = if place == 0 { pieces[0].len() } else { 0 };
                let (bright, dim) = line.split_at(bright);
                let line = format!("{}{bright}{}", left("", INDENT), page.dim(dim));
                page.line(line);
            }
            return;
        }
    }
}

/// Names of the frames that tell something, repetitions counted, each short enough for a line. Where these need more than
/// [`STACK_LINES`] lines the names are brief, and what a standard library does within is left out.
pub(super) fn telling(frames: &[Frame], width: usize) -> Vec<String> {
    let innermost_kernel = frames
        .iter()
        .position(|f| f.kernel && !is_plumbing(&f.function));
    let tells = |(place, frame): &(usize, &Frame)| {
        let kernel = !frame.kernel || Some(*place) == innermost_kernel;
        kernel && !is_plumbing(&frame.function)
    };
    let mut kept: Vec<&Frame> = frames
        .iter()
        .enumerate()
        .filter(tells)
        .map(|(_, f)| f)
        .collect();
    if kept.is_empty() {
        kept = frames.iter().collect();
    }
    let longest = (width * 2 / 3).min(56);
    let whole = named(&kept, |name| shorten(name, longest));
    if wrap(&whole, width).len() <= STACK_LINES {
        return whole;
    }
    named(&without_inner_workings(&kept), |name| {
        shorten(&brief(name), longest)
    })
}

/// Of a standard library only what was called of it, and where the time itself went.
fn without_inner_workings<'f>(frames: &[&'f Frame]) -> Vec<&'f Frame> {
    let standard = |place: usize| frames.get(place).is_some_and(|f| is_standard(&f.function));
    let telling = |place: &usize| *place == 0 || !standard(*place) || !standard(*place + 1);
    let places = (0..frames.len()).filter(telling);
    places.map(|place| frames[place]).collect()
}

fn named(frames: &[&Frame], name: impl Fn(&str) -> String) -> Vec<String> {
    let names: Vec<(String, bool)> = frames
        .iter()
        .map(|f| (name(&f.function), f.kernel))
        .collect();
    let with_times = |run: &[(String, bool)]| {
        let (name, kernel) = &run[0];
        let kernel = if *kernel { " [k]" } else { "" };
        let times = match run.len() {
            1 => String::new(),
            times => format!(" ×{times}"),
        };
        format!("{name}{kernel}{times}")
    };
    names.chunk_by(|a, b| a == b).map(with_times).collect()
}

pub(super) fn wrap(pieces: &[String], width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (place, piece) in pieces.iter().enumerate() {
        let arrow = if place == 0 { "" } else { " ← " };
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() || line.width() + arrow.width() + piece.width() <= width {
            line.push_str(arrow);
            line.push_str(piece);
        } else {
            lines.push(format!("← {piece}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<Frame> {
        let frame = |name: &&str| match name.strip_suffix("_[k]") {
            Some(name) => Frame {
                function: name.to_owned(),
                kernel: true,
            },
            None => Frame {
                function: (*name).to_owned(),
                kernel: false,
            },
        };
        names.iter().map(frame).collect()
    }

    #[test]
    fn plumbing_and_repetitions_are_folded() {
        let stack = frames(&[
            "schedule_[k]",
            "futex_wait_[k]",
            "do_futex_[k]",
            "f",
            "f",
            "main",
            "_start",
        ]);
        assert_eq!(telling(&stack, 70), ["futex_wait [k]", "f ×2", "main"]);
        assert_eq!(telling(&frames(&["clone3"]), 70), ["clone3"]);
        assert!(!is_plumbing("scheduler_run") && is_plumbing("__x64_sys_futex"));
    }

    #[test]
    fn whole_names_become_brief_where_there_is_no_room() {
        let read = [
            "__GI___libc_read",
            "<std::sys::fd::unix::FileDesc>::read_buf",
            "<&std::fs::File as std::io::Read>::read_buf",
            "<std::fs::File as std::io::Read>::read_buf",
            "std::io::default_read_to_end::<std::fs::File>",
            "std::fs::read::inner",
            "searchd::index::load",
            "std::thread::lifecycle::spawn_unchecked::<searchd::main::{closure#0}, ()>::{closure#1}",
            "<alloc::boxed::Box<dyn core::ops::function::FnOnce<(), Output = ()> + core::marker::Send> as \
             core::ops::function::FnOnce<()>>::call_once",
            "<std::sys::thread::unix::Thread>::new::thread_start",
        ];
        assert_eq!(
            telling(&frames(&read), 71).join(" < "),
            "__GI___libc_read < read::inner < index::load"
        );
        assert_eq!(telling(&frames(&read[5..]), 71), read[5..7]);
    }

    #[test]
    fn long_stacks_keep_both_ends() {
        let names: Vec<String> = (0..40).map(|i| format!("function_{i:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut page = Page::new(&crate::terminal::Style::default());
        add_frames(&mut page, &frames(&names));
        let text = page.finish();
        assert_eq!(text.lines().count(), STACK_LINES);
        assert!(
            text.contains("function_00") && text.contains("… ← function_39"),
            "{text}"
        );
        assert!(text.lines().all(|l| l.width() <= 80));
    }
}
