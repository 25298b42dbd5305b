//! What was recorded.
use super::paint::Page;
use crate::answer::Recording;
use crate::human;
use crate::shorten::{middle, one_line};

pub(super) fn add(page: &mut Page, recording: &Recording) {
    let target = page.bold(&middle(&one_line(&recording.target), page.width - 7));
    page.line(format!("dwell  {target}"));
    let mut facts = vec![
        format!(
            "{} on {}",
            human::duration(recording.window_ns),
            recording.host
        ),
        human::counted(u64::from(recording.cpus), "CPU", "CPUs"),
        human::counted(recording.processes, "process", "processes"),
        human::counted(recording.threads, "thread", "threads"),
    ];
    if let Some(code) = recording.exit_code {
        facts.push(format!("exit code {code}"));
    }
    if !recording.complete {
        facts.push("cut short".to_owned());
    }
    page.wrapped(&facts.join(" · "), 0, 0);
}
