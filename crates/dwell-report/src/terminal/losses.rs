//! What was lost, whether it adds up, what to do next.
use super::paint::Page;
use crate::answer::Answer;
use crate::human;

pub(super) fn add(page: &mut Page, answer: &Answer) {
    page.heading("How far to trust it", "");
    add_lost(page, answer);
    add_stacks(page, answer);
    let closure = match answer.closure.max_error_share {
        0.0 => "Every thread's states add up to its lifetime exactly.".to_owned(),
        error => format!(
            "Every thread's states add up to its lifetime within {}.",
            human::share(error)
        ),
    };
    page.wrapped(&closure, 2, 4);
    add_cost(page, answer);
    if !answer.notes.is_empty() {
        page.line("");
    }
    for note in &answer.notes {
        page.wrapped(note, 0, 2);
    }
}

fn add_lost(page: &mut Page, answer: &Answer) {
    let losses = &answer.losses;
    if losses.nothing_lost {
        page.line("  Nothing was lost.");
        return;
    }
    for loss in &losses.events {
        let of = match (loss.produced, loss.share) {
            (Some(produced), Some(share)) => {
                format!(" of {} ({})", human::count(produced), human::share(share))
            }
            _ => String::new(),
        };
        let text = format!(
            "Lost: {}{of} {}",
            human::count(loss.lost),
            loss.name.replace('_', " ")
        );
        let text = if loss.share.is_none_or(|s| s > 0.001) {
            page.warning(&text)
        } else {
            text
        };
        page.line(format!("  {text}"));
    }
    for (ns, what) in [
        (
            losses.unknown_state_ns,
            "of thread time in an unknown state",
        ),
        (
            losses.orphan_ns,
            "of waits by threads that are not in the recording",
        ),
    ] {
        if ns > 0 {
            let text = page.warning(&format!("Lost: {} {what}", human::duration(ns)));
            page.line(format!("  {text}"));
        }
    }
}

fn add_stacks(page: &mut Page, answer: &Answer) {
    let lifetime_ns = answer.total.lifetime_ns;
    let sums = [&answer.losses.without_stack_ns, &answer.losses.cut_short_ns];
    let [without, cut] =
        sums.map(|sums| sums.values().fold(0u64, |sum, ns| sum.saturating_add(*ns)));
    let samples = human::counted(answer.recording.samples, "stack", "stacks");
    let mut text = format!(
        "{samples} taken, one per {} of thread time.",
        human::duration(answer.recording.period_ns),
    );
    for (ns, what) in [
        (without, "has no stack"),
        (cut, "has one that is cut short"),
    ] {
        if ns > 0 {
            let share = human::percent(ns, lifetime_ns);
            text.push_str(&format!(" {share} of the time {what}."));
        }
    }
    page.wrapped(&text, 2, 4);
}

fn add_cost(page: &mut Page, answer: &Answer) {
    let recording = &answer.recording;
    if recording.recorder_cpu_ns == 0 || recording.window_ns == 0 {
        return;
    }
    let text = format!(
        "Recording took {} of one CPU and {} of memory.",
        human::percent(recording.recorder_cpu_ns, recording.window_ns),
        human::bytes(recording.recorder_peak_rss_bytes),
    );
    page.wrapped(&text, 2, 4);
}
