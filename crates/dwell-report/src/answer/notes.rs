//! What stands out, and what to do next.
use super::interpreters::PYTHON;
use super::{Answer, Options};
use crate::human;

/// Shares of thread time from which something is worth a note.
const NOTED_SHARE: f64 = 0.005;
const NOTED_RUNNABLE_SHARE: f64 = 0.05;
const NOTED_UNTOLD_SHARE: f64 = 0.05;
/// Of the time on processors.
const NOTED_STOLEN_SHARE: f64 = 0.01;
/// Closure promised per thread.
const CLOSURE_LIMIT: f64 = 0.001;

pub(super) fn notes(answer: &Answer, options: &Options) -> Vec<String> {
    let mut notes = Vec::new();
    if !answer.recording.complete {
        notes.push(
            "The recording was cut short; it holds everything up to its last second.".to_owned(),
        );
    }
    notes.extend(imported_note(answer));
    notes.extend(closure_note(answer));
    notes.extend(runnable_note(answer));
    notes.extend(stolen_note(answer));
    notes.extend(cut_short_note(answer));
    notes.extend(interpreter_note(answer));
    let recording = options.recording.as_deref();
    if let Some(recording) = recording {
        notes.push(format!("Flame graph: dwell export --to svg {recording}"));
        notes.push(format!(
            "Every number of this answer: dwell report --json {recording}"
        ));
    }
    notes
}

/// Another profiler's samples alone tell nothing of waits: that none is shown does not mean that nobody waited.
fn imported_note(answer: &Answer) -> Option<String> {
    let total = &answer.total;
    let waits = total.blocked_ns.saturating_add(total.runnable_ns);
    (answer.recording.tool.contains(" import, ") && waits == 0).then(|| {
        "The imported file tells when threads ran, not what they waited for: perf needs -e sched:sched_switch for that."
            .to_owned()
    })
}

fn share(part: u64, answer: &Answer) -> f64 {
    part as f64 / answer.total.lifetime_ns.max(1) as f64
}

fn closure_note(answer: &Answer) -> Option<String> {
    let closure = &answer.closure;
    (closure.max_error_share > CLOSURE_LIMIT).then(|| {
        let tid = closure.worst_tid.map_or(String::new(), |tid| format!(" (tid {tid})"));
        let error = human::share(closure.max_error_share);
        format!("The states of a thread{tid} miss its lifetime by {error}: its numbers are that uncertain.")
    })
}

fn runnable_note(answer: &Answer) -> Option<String> {
    let runnable_ns = answer.total.runnable_ns;
    let waiting = share(runnable_ns, answer);
    let wanted = runnable_ns as f64 / answer.total.running_ns.max(1) as f64;
    (waiting > NOTED_RUNNABLE_SHARE && wanted > NOTED_RUNNABLE_SHARE).then(|| {
        let time = human::duration(runnable_ns);
        let cpus = human::counted(u64::from(answer.recording.cpus), "CPU", "CPUs");
        format!("Threads waited {time} for one of {cpus}: fewer threads or more CPUs would shorten that.")
    })
}

fn stolen_note(answer: &Answer) -> Option<String> {
    let stolen_ns = answer.total.stolen_ns;
    let on_processors = answer.total.running_ns.saturating_add(stolen_ns);
    (stolen_ns as f64 > NOTED_STOLEN_SHARE * on_processors as f64).then(|| {
        let share = human::percent(stolen_ns, on_processors);
        let time = human::duration(stolen_ns);
        format!("Others had {time} ({share}) of the processors' time meant for these threads: the host of this machine (steal), or interrupts.")
    })
}

fn cut_short_note(answer: &Answer) -> Option<String> {
    let (why, ns) = answer
        .losses
        .cut_short_ns
        .iter()
        .max_by_key(|(_, ns)| **ns)?;
    (share(*ns, answer) > NOTED_SHARE).then(|| {
        let remedy = match why.as_str() {
            "no_unwind_info" | "bad_frame_pointer" => {
                ": code without .eh_frame; compile it with -fasynchronous-unwind-tables or frame pointers"
            }
            "tables_not_ready" => ": recorded before the unwind tables were loaded; record for longer",
            "too_deep" => ": deeper than the limit",
            _ => "",
        };
        let cut = human::share(share(*ns, answer));
        format!("{cut} of the time has a stack that is cut short ({why}){remedy}.")
    })
}

/// Who looks for the functions of a program that is interpreted shall not take the interpreter's for all there is to see.
fn interpreter_note(answer: &Answer) -> Option<String> {
    let (language, ns) = answer.untold_ns.iter().max_by_key(|(_, ns)| **ns)?;
    let remedy = match language.as_str() {
        PYTHON => " They are told of CPython 3.8 to 3.14.",
        _ => "",
    };
    (share(*ns, answer) > NOTED_UNTOLD_SHARE).then(|| {
        let untold = human::share(share(*ns, answer));
        format!("{untold} of the time is in an interpreter of {language}, whose functions are not told: stacks show the interpreter's own.{remedy}")
    })
}
