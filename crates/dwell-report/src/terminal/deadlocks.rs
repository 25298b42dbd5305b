//! Deadlocks: before everything else, since nothing else matters to these threads.
use super::locks::add_frames;
use super::paint::Page;
use crate::answer::{LockDeadlock, LockThread, StuckThread};
use crate::human;
use crate::shorten::one_line;

/// Threads of one circle, and of those that wait behind it, that are named.
const THREADS: usize = 16;
const INDENT: usize = 2;

/// The section, when there is a deadlock.
pub(super) fn add_section(page: &mut Page, deadlocks: &[LockDeadlock]) {
    for deadlock in deadlocks {
        let about = match deadlock.threads.len() {
            1 => "a thread waits for a lock that it holds itself".to_owned(),
            count => format!("{count} threads wait for each other, for ever"),
        };
        page.heading("Deadlock", &about);
        for thread in deadlock.threads.iter().take(THREADS) {
            add_thread(page, thread);
        }
        let more = deadlock.threads.len().saturating_sub(THREADS);
        if more > 0 {
            page.wrapped(&format!("… and {more} more"), INDENT, INDENT);
        }
        if !deadlock.behind.is_empty() {
            let named = deadlock.behind.iter().take(THREADS).map(name);
            let text = format!(
                "{} behind them: {}{}",
                human::counted(deadlock.behind.len() as u64, "thread waits", "threads wait"),
                named.collect::<Vec<_>>().join(", "),
                if deadlock.behind.len() > THREADS {
                    " …"
                } else {
                    ""
                },
            );
            page.wrapped(&one_line(&text), INDENT, 2 * INDENT);
        }
    }
}

fn add_thread(page: &mut Page, stuck: &StuckThread) {
    let waited = stuck.waited_ns.map_or_else(String::new, |ns| {
        format!("has waited {} ", human::duration(ns))
    });
    let owner = match stuck.held_by == stuck.thread {
        true => "it holds itself".to_owned(),
        false => format!("{} holds", name(&stuck.held_by)),
    };
    let text = format!(
        "{} {waited}for {}, which {owner}",
        name(&stuck.thread),
        stuck.lock
    );
    page.wrapped(&one_line(&text), INDENT, 2 * INDENT);
    add_frames(page, &stuck.frames, 4 * INDENT);
}

fn name(thread: &LockThread) -> String {
    format!("{} ({})", thread.name, thread.tid)
}
