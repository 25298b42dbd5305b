//! What happened on locks while somebody waited, and one lock over time.
use super::Style;
use super::locks::{add_frames, alike, name};
use super::paint::{Page, right};
use crate::answer::{ContendedLock, Frame, LockHolder, LockTimeline};
use crate::human;
use crate::shorten::{middle, shorten};
use dwell_analysis::{Reason, State};
use unicode_width::UnicodeWidthStr;

const LOCK: State = State::Blocked(Reason::Lock);
/// Locks told of; the JSON output has all that were asked for.
const LOCKS: usize = 8;
/// Owners told of one lock.
const HOLDERS: usize = 3;
/// Kinds of waiters told of one lock.
const WAITERS: usize = 2;
/// Where owners are off the processor is told from this share of the holds on.
const AWAY: f64 = 0.01;
/// Columns before what is told of one lock.
const PARTY: usize = 9;
/// Owners told of in a timeline: as many as have a letter.
const OWNERS: usize = 26;
/// Columns before the name of a lock.
const COLUMNS: usize = 62;
/// Columns of the function in which a lock was acquired.
const FUNCTION: usize = 40;
/// Columns before a timeline's parts.
const MARGIN: usize = 7;

/// The section, when anything is known.
pub(super) fn add_section(page: &mut Page, locks: &[ContendedLock]) {
    if locks.is_empty() {
        return;
    }
    page.heading(
        "Contended",
        "waits, and holds of those who had waited; mean, 99 of 100, longest",
    );
    let header = format!(
        "{}{}{}{}{}{}{}{}",
        right("waits", 7),
        right("mean", 9),
        right("99 %", 9),
        right("longest", 9),
        right("held", 9),
        right("99 %", 9),
        right("longest", 8),
        if page.width < COLUMNS + "lock".len() {
            ""
        } else {
            "  lock"
        },
    );
    let header = page.dim(&header);
    page.line(header);
    for lock in locks.iter().take(LOCKS) {
        add_lock(page, lock);
    }
}

fn add_lock(page: &mut Page, lock: &ContendedLock) {
    let (wait, hold) = (&lock.wait, &lock.hold);
    let held = |ns: u64| match hold.count {
        0 => "-".to_owned(),
        _ => human::duration(ns),
    };
    let numbers = format!(
        "{}{}{}{}{}{}{}",
        right(&human::count(wait.count), 7),
        right(&human::duration(wait.mean_ns), 9),
        right(&human::duration(wait.p99_ns), 9),
        right(&human::duration(wait.max_ns), 9),
        right(&held(hold.mean_ns), 9),
        right(&held(hold.p99_ns), 9),
        right(&held(hold.max_ns), 8),
    );
    let room = page.width.saturating_sub(COLUMNS);
    let name = |page: &Page, room| page.state(LOCK, &name(&lock.name, room));
    if room >= lock.name.width().min(16) {
        page.line(format!("{numbers}  {}", name(page, room)));
    } else {
        page.line(numbers);
        page.line(format!("         {}", name(page, page.width - 9)));
    }
    for waiter in alike(page, &lock.waiters, PARTY + 8).iter().take(WAITERS) {
        let waited: u64 = lock.waiters.iter().map(|w| w.waited_ns).sum();
        let share = human::percent(waiter.waited_ns, waited);
        add_party(page, &share, "waited:", &waiter.group, &waiter.frames);
    }
    let blamed = lock.owners.iter().filter(|h| h.waited_ns > 0);
    for holder in blamed.take(HOLDERS) {
        let share = human::percent(holder.waited_ns, wait.sum_ns);
        add_party(page, &share, "held by", &told(holder), &holder.frames);
    }
    for away in lock.away.iter().filter(|a| a.share >= AWAY).take(HOLDERS) {
        let what = match &away.reason {
            Some(reason) => format!("of the time held blocked ({reason}):"),
            None => "of the time held waiting for a CPU:".to_owned(),
        };
        let share = human::share(away.share);
        add_party(page, &share, &what, &away.group, &away.frames);
    }
    for inversion in lock.inversions.iter().take(HOLDERS) {
        let share = human::percent(inversion.waited_ns, wait.sum_ns);
        let what = format!("priority inversion: {} waited,", inversion.waiter_priority);
        let owner = format!("{} ({}) held it", inversion.owner, inversion.owner_priority);
        add_party(page, &share, &what, &owner, &[]);
    }
    let facts = page.dim(&facts(lock).join(" · "));
    page.wrapped(&facts, PARTY, PARTY);
}

fn facts(lock: &ContendedLock) -> Vec<String> {
    let mut facts = vec![format!("up to {} waiting at a time", lock.longest_queue)];
    if lock.gave_up > 0 {
        facts.push(format!(
            "{} given up",
            human::counted(lock.gave_up, "wait", "waits")
        ));
    }
    if lock.unclaimed_ns > 0 {
        let share = human::percent(lock.unclaimed_ns, lock.wait.sum_ns);
        facts.push(format!(
            "for {share} of the waiting nobody is known to have held it"
        ));
    }
    let convoys = &lock.convoys;
    if convoys.dominate {
        facts.push(format!(
            "a convoy: from waiter to waiter {} without getting free, {} long",
            human::counted(convoys.most_hand_offs, "time", "times"),
            human::duration(convoys.longest_ns),
        ));
    }
    facts
}

/// Who waited for a lock or held it, which part of the time, and below that where.
fn add_party(page: &mut Page, share: &str, what: &str, who: &str, frames: &[Frame]) {
    let text = format!("{}{} {what} {who}", " ".repeat(PARTY), right(share, 7));
    page.line(middle(&text, page.width));
    add_frames(page, frames, PARTY + 8);
}

fn told(holder: &LockHolder) -> String {
    let group = holder.group.as_deref().unwrap_or("nobody known");
    match &holder.function {
        Some(function) => {
            let function = shorten(function, FUNCTION);
            let seen = match holder.at_another_lock {
                true => " (seen at another lock)",
                false => "",
            };
            format!("{group} in {function}{seen}")
        }
        None => group.to_owned(),
    }
}

/// How many parts a timeline has in this style.
pub fn timeline_parts(style: &Style) -> usize {
    Page::new(style).width - MARGIN
}

/// Renders a timeline; it should have [`timeline_parts`].
pub fn render_timeline(timeline: &LockTimeline, style: &Style) -> String {
    let mut page = Page::new(style);
    let lock = &timeline.lock;
    let name = page.bold(&shorten(&lock.name, page.width - lock.kind.width() - 2));
    let kind = page.dim(&lock.kind);
    page.line(format!("{name}  {kind}"));
    let length = timeline.part_ns.saturating_mul(timeline.parts.len() as u64);
    let about = format!(
        "{} from {} on, {} a column; {} in {}",
        human::duration(length),
        human::duration(timeline.at_ns),
        human::duration(timeline.part_ns),
        human::counted(lock.wait.count, "wait", "waits"),
        human::counted(lock.blocks, "block", "blocks"),
    );
    page.wrapped(&about, 0, 0);
    page.line("");
    let owners: String = timeline
        .parts
        .iter()
        .map(|part| match part.owner {
            Some(owner) => letter(owner),
            None => ' ',
        })
        .collect();
    let queue: String = timeline.parts.iter().map(|p| bar(p.waiting)).collect();
    let queue = page.state(LOCK, queue.trim_end());
    page.line(format!("queue  {queue}"));
    page.line(format!("owner  {owners}"));
    page.line("");
    let held: u64 = timeline.owners.iter().map(|o| o.held_ns).sum();
    for (number, owner) in timeline.owners.iter().enumerate().take(OWNERS) {
        let share = human::percent(owner.held_ns, held);
        let text = format!("{}  {} ({})", right(&share, 7), owner.thread, owner.tid);
        page.line(middle(
            &format!("     {} {text}", letter(number)),
            page.width,
        ));
    }
    let more = timeline.owners.len().saturating_sub(OWNERS);
    if more > 0 {
        page.line(format!("     * {more} more"));
    }
    let most = lock.longest_queue;
    let legend = format!(
        "Queue: how many waited, on average over a column: 1 is ▁, 8 or more █, less ·; {most} at most. Owner: who \
         held the lock longest in a column, while somebody waited."
    );
    page.line("");
    page.wrapped(&legend, 0, 0);
    page.finish()
}

fn letter(owner: usize) -> char {
    (b'a'..=b'z').nth(owner).map_or('*', char::from)
}

fn bar(waiting: f64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    match waiting {
        w if w <= 0.0 => ' ',
        w if w < 0.5 => '·',
        w => BARS[(w.round() as usize).clamp(1, 8) - 1],
    }
}
