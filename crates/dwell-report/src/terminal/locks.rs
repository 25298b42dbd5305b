//! Locks: a table, and each of the worst ones with who waited and who held them up.
use super::Style;
use super::division::spins;
use super::paint::{Page, left, right};
use super::stacks::{telling, wrap};
use crate::answer::{
    Answer, Blame, CountedProcess, Frame, LockAnswer, LockCounts, LocksAnswer, Party, Spun, Waiter,
};
use crate::human;
use crate::missed;
use crate::shorten::{middle, one_line, shorten};
use dwell_analysis::locks::kinds;
use dwell_analysis::{Reason, State};
use unicode_width::UnicodeWidthStr;

const LOCK: State = State::Blocked(Reason::Lock);
/// Locks told in detail; the table has more, and the JSON output all that were asked for.
const DETAILED: usize = 5;
/// Waiters, and edges of blame, told of one lock.
const PARTIES: usize = 3;
/// Lines of the graph of who blocks whom.
const EDGES: usize = 8;
/// Kinds of waiting for work that are named.
const IDLE_KINDS: usize = 4;
/// Functions that spun.
const SPINNERS: usize = 8;
/// Locks named in the report of everything.
const REPORTED: usize = 5;
/// The report of everything tells of locks from this share of thread time on.
const REPORTED_SHARE: f64 = 0.01;
const INDENT: usize = 6;
/// Columns before the name in a table of waits: [`waits_columns`] and two blanks.
pub(super) const COLUMNS: usize = 44;
/// Columns for what was counted, where there is room.
const COUNTED: usize = 19;
/// Least columns of a name.
const NAME: usize = 16;

/// Renders the answer about locks.
pub fn render_locks(answer: &LocksAnswer, style: &Style) -> String {
    let mut page = Page::new(style);
    let target = middle(&one_line(&answer.recording.target), page.width - 7);
    let target = page.bold(&target);
    page.line(format!("locks  {target}"));
    add_uses(&mut page, answer);
    if let Some(counts) = &answer.lock_counts {
        add_counts(&mut page, counts);
    }
    super::deadlocks::add_section(&mut page, &answer.deadlocks);
    if answer.locks.is_empty() {
        page.line("");
        page.line("No thread waited for a lock.");
    } else {
        page.heading("Locks", "by the time that threads waited for them");
        add_table(&mut page, &answer.locks, answer.waited_ns);
        let more = answer.count.saturating_sub(answer.locks.len() as u64);
        if more > 0 {
            let more = page.dim(&format!("  and {more} more; -n shows more"));
            page.line(more);
        }
        add_graph(&mut page, answer);
        for lock in answer.locks.iter().take(DETAILED) {
            add_lock(&mut page, lock);
        }
    }
    super::contention::add_section(&mut page, &answer.contended);
    if spins(answer.spun_ns, answer.thread_time_ns) {
        add_spun(&mut page, &answer.spun, answer.spun_ns, SPINNERS);
    }
    add_idle(&mut page, answer);
    add_unattributed(&mut page, answer);
    if let Some(kernel) = &answer.kernel {
        super::kernel_locks::add_section(&mut page, kernel);
    }
    page.finish()
}

/// The section of the report of everything, when lock waits matter.
pub(super) fn add_section(page: &mut Page, answer: &Answer) {
    super::deadlocks::add_section(page, &answer.deadlocks);
    let waited = answer.locks_waited_ns;
    let matters = waited > 0 && (waited as f64) >= REPORTED_SHARE * answer.total.lifetime_ns as f64;
    if matters || answer.lock_counts.is_some() {
        page.heading("Locks", "waited for; `dwell locks` tells who held them");
    }
    if let Some(counts) = &answer.lock_counts {
        add_counts(page, counts);
    }
    if waited > 0 && (matters || answer.lock_counts.is_some()) {
        let worst = &answer.locks[..answer.locks.len().min(REPORTED)];
        add_table(page, worst, waited);
    }
    if spins(answer.total.spinning_ns, answer.total.lifetime_ns) {
        add_spun(page, &answer.spun, answer.total.spinning_ns, REPORTED);
    }
}

/// What ran and only waited: a lock that spins has no word that the kernel knows of.
fn add_spun(page: &mut Page, spun: &[Spun], spun_ns: u64, most: usize) {
    let about = format!(
        "{} on a CPU, waiting for a lock or for news; share of thread time",
        human::duration(spun_ns)
    );
    page.heading("Spun", &about);
    let width = page.width - 21;
    for spun in spun.iter().take(most) {
        let who = middle(&spun.group, width / 3);
        let room = width - 2 - who.width();
        let name = |frame: &Frame| {
            let kernel = if frame.kernel { " [k]" } else { "" };
            format!("{}{kernel}", shorten(&frame.function, room - kernel.len()))
        };
        let chain = [Some(&spun.function), spun.caller.as_ref()];
        let chain: Vec<String> = chain.into_iter().flatten().map(name).collect();
        let chain = wrap(&chain, room).swap_remove(0);
        let line = format!(
            "{}{}  {}  {}",
            page.bold(&right(&human::share(spun.share), 7)),
            right(&human::duration(spun.time_ns), 10),
            page.state(State::Spinning, &chain),
            page.dim(&who),
        );
        page.line(line);
    }
}

/// What was done with all locks, and what of it was not counted.
fn add_counts(page: &mut Page, counts: &LockCounts) {
    if counts.locks > 0 {
        let mut text = format!(
            "{} of {}, {} of which found it not free.",
            human::counted(counts.acquired, "acquisition", "acquisitions"),
            human::counted(counts.locks, "lock", "locks"),
            human::percent(counts.contended, counts.acquired),
        );
        if counts.nested > 0 {
            text.push_str(&format!(
                " Threads acquired what they held already {} more.",
                human::counted(counts.nested, "time", "times"),
            ));
        }
        if counts.unwaited_locks > 0 {
            text.push_str(&format!(
                " No thread waited for {} of these locks, acquired {}.",
                human::count(counts.unwaited_locks),
                human::counted(counts.unwaited_acquired, "time", "times"),
            ));
        }
        page.wrapped(&text, 0, 0);
    }
    for process in &counts.processes {
        for text in shortcomings(process) {
            let text = one_line(&format!("{} ({}): {text}", process.name, process.pid));
            page.wrapped(&text, 0, 2);
        }
    }
}

/// What the counts of a process lack, and what counting did to it.
fn shortcomings(process: &CountedProcess) -> Vec<String> {
    /// What a look at the program's own waits would stumble over.
    const LONG_PAUSE_NS: u64 = 10_000_000;
    let mut found = Vec::new();
    if process.attach_pause_ns >= LONG_PAUSE_NS {
        found.push(format!(
            "held still for {} to attach to it, which the recording has as sleeping or stopped.",
            human::duration(process.attach_pause_ns)
        ));
    }
    if !process.missed.is_empty() {
        found.push(format!(
            "not counted: {}.",
            missed::in_short(&process.missed).join("; ")
        ));
    }
    if process.forgotten > 0 {
        found.push(format!(
            "{} whose outcome was not seen, not counted.",
            human::counted(process.forgotten, "call", "calls")
        ));
    }
    if process.lost_events > 0 {
        found.push(format!(
            "{} of {} contended operations were not written down in time: waits and holds are missing, counts are not.",
            human::count(process.lost_events),
            human::count(process.events),
        ));
    }
    if process.released_free > 0 {
        found.push(format!(
            "{} released that nobody held: a mistake of the program.",
            human::counted(process.released_free, "mutex was", "mutexes were")
        ));
    }
    found
}

fn add_uses(page: &mut Page, answer: &LocksAnswer) {
    let of = |used: &str| answer.futex_ns.get(used).copied().unwrap_or(0);
    let share = human::percent(of("lock"), answer.thread_time_ns);
    let lock = format!(
        "{} for locks ({share} of thread time)",
        human::duration(of("lock"))
    );
    let mut text = format!(
        "Threads waited on futexes {}, {} for work",
        page.state(LOCK, &lock),
        human::duration(of("idle")),
    );
    text.push_str(&format!(
        ", {} for work up to a time limit",
        human::duration(of("timed"))
    ));
    if of("unknown") > 0 {
        text.push_str(&format!(
            ", {} for what is not known",
            human::duration(of("unknown"))
        ));
    }
    page.wrapped(&format!("{text}."), 0, 0);
}

/// Heads of [`waits_columns`].
pub(super) fn waits_header() -> String {
    let heads = [
        ("share", 7),
        ("waited", 9),
        ("waits", 8),
        ("mean", 9),
        ("longest", 9),
    ];
    heads.map(|(head, width)| right(head, width)).concat()
}

/// How long was waited, and of how much that is a part (ns); how often; mean and longest wait (ns).
pub(super) fn waits_columns(
    page: &Page,
    (waited_ns, all_ns): (u64, u64),
    waits: u64,
    (mean_ns, max_ns): (u64, u64),
) -> String {
    let share = page.bold(&right(&human::percent(waited_ns, all_ns), 7));
    let waited = right(&human::duration(waited_ns), 9);
    let waits = right(&human::count(waits), 8);
    let [mean, longest] = [mean_ns, max_ns].map(|ns| right(&human::duration(ns), 9));
    [share, waited, waits, mean, longest].concat()
}

fn add_table(page: &mut Page, locks: &[LockAnswer], waited_ns: u64) {
    let is_counted = locks.iter().any(|l| l.acquired.is_some());
    let tells = is_counted && page.width >= COLUMNS + COUNTED + NAME;
    let header = format!(
        "{}{}  lock",
        waits_header(),
        if tells {
            right("acquired", 10) + &right("not free", 9)
        } else {
            String::new()
        },
    );
    let header = page.dim(&header);
    page.line(header);
    for lock in locks {
        let mut kind = kind(lock);
        let mut room = page.width - COLUMNS - if tells { COUNTED } else { 0 };
        if room >= NAME + 2 + kind.width() {
            room -= 2 + kind.width();
        } else {
            kind.clear();
        }
        let line = format!(
            "{}{}  {}  {}",
            waits_columns(
                page,
                (lock.waited_ns, waited_ns),
                lock.waits,
                (lock.mean_ns, lock.max_ns)
            ),
            if tells { counts(lock) } else { String::new() },
            page.state(LOCK, &name(&lock.name, room)),
            page.dim(&kind),
        );
        page.line(line);
    }
}

/// The columns of what was counted.
fn counts(lock: &LockAnswer) -> String {
    let acquired = lock.acquired.map_or_else(String::new, human::count);
    let share = lock.contended_share.map_or_else(String::new, human::share);
    right(&acquired, 10) + &right(&share, 9)
}

/// The name of a lock in at most so many columns. One on the heap is told by its address and by who wants it: where there
/// is no room for both by the latter, but for code without a name, which many locks have in common.
pub(super) fn name(name: &str, room: usize) -> String {
    let Some((address, caller)) = name.split_once(" in ").filter(|_| name.starts_with("0x")) else {
        return shorten(name, room);
    };
    let number = address.split(' ').next().unwrap_or(address);
    match room.checked_sub(address.len() + 4) {
        Some(left) if left >= NAME => format!("{address} in {}", shorten(caller, left)),
        _ if caller.starts_with('[') => shorten(number, room),
        _ => shorten(caller, room),
    }
}

fn kind(lock: &LockAnswer) -> String {
    match lock.runtime.as_str() {
        "" => lock.kind.clone(),
        runtime => format!("{runtime} {}", lock.kind),
    }
}

fn add_graph(page: &mut Page, answer: &LocksAnswer) {
    page.heading(
        "Who blocks whom",
        "waiter ← who let it go on, share of the waiting",
    );
    let width = answer
        .blocks
        .iter()
        .take(EDGES)
        .map(|e| e.waiter.width())
        .max()
        .unwrap_or(0)
        .min((page.width - 22) / 2);
    for edge in answer.blocks.iter().take(EDGES) {
        let line = format!(
            "{}{}  {} ← {}",
            page.bold(&right(&human::percent(edge.waited_ns, answer.waited_ns), 7)),
            right(&human::duration(edge.waited_ns), 9),
            left(&middle(&edge.waiter, width), width),
            middle(&who(&edge.waker), page.width - 22 - width),
        );
        page.line(line);
    }
}

fn who(party: &Party) -> String {
    match (party.kind.as_str(), party.name.as_str()) {
        ("nobody", _) => "nobody known".to_owned(),
        ("interrupt", "[timer]") => "[timer]: gave up waiting".to_owned(),
        ("foreign", name) => format!("{name} (not recorded)"),
        (_, name) => name.to_owned(),
    }
}

fn add_lock(page: &mut Page, lock: &LockAnswer) {
    page.line("");
    let kind = kind(lock);
    let room = page.width - 2 - kind.width().min(page.width / 2);
    let name = page.bold(&name(&lock.name, room));
    let kind = page.dim(&kind);
    page.line(format!("{name}  {kind}"));
    page.wrapped(&facts(lock), 2, 2);
    for waiter in alike(page, &lock.waiters, INDENT + 4).iter().take(PARTIES) {
        let share = human::percent(waiter.waited_ns, lock.waited_ns);
        let line = format!("  {} waited: {}", right(&share, 7), waiter.group);
        page.line(middle(&line, page.width));
        add_frames(page, &waiter.frames, INDENT + 4);
    }
    for blame in lock.blame.iter().take(PARTIES) {
        add_blame(page, lock, blame);
    }
}

fn facts(lock: &LockAnswer) -> String {
    let mut facts = vec![format!(
        "{} in {}",
        human::duration(lock.waited_ns),
        human::counted(lock.waits, "wait", "waits")
    )];
    if lock.kept_waits > 1 {
        facts.push(format!(
            "half up to {}, 99 % up to {}",
            human::duration(lock.p50_ns),
            human::duration(lock.p99_ns)
        ));
    }
    facts.push(format!("longest {}", human::duration(lock.max_ns)));
    if lock.queue_longest > 1 {
        facts.push(format!(
            "up to {} waiting at a time, {:.1} on average",
            lock.queue_longest, lock.queue_mean
        ));
    }
    if let Some(acquired) = lock.acquired {
        let mut text = format!("acquired {}", human::counted(acquired, "time", "times"));
        if let Some(share) = lock.contended_share {
            text.push_str(&format!(
                ", {} of them not free at first",
                human::share(share)
            ));
        }
        // Who waits again and again for one acquisition makes no share of them.
        let most = lock.contended_share.unwrap_or(1.0);
        if let Some(share) = lock.waited_share.filter(|share| *share <= most) {
            text.push_str(&format!(", {} waited", human::share(share)));
        }
        if let Some(nested) = lock.nested.filter(|nested| *nested > 0) {
            let times = human::counted(nested, "time", "times");
            text.push_str(&format!(", and {times} more by its holder"));
        }
        facts.push(text);
    }
    let mut text = facts.join(" · ");
    if lock.convoy {
        text.push_str(" · a convoy: it goes from waiter to waiter");
    }
    text
}

fn add_blame(page: &mut Page, lock: &LockAnswer, blame: &Blame) {
    let share = human::percent(blame.blamed_ns, lock.waited_ns);
    let share = page.state(LOCK, &right(&share, 7));
    let what = match blame.waker.kind.as_str() {
        "nobody" => "no release seen, waited by",
        "interrupt" => "given up by",
        _ => "",
    };
    let line = match what {
        "" => format!("released by {} to {}", who(&blame.waker), blame.waiter),
        what => format!("{what} {}", blame.waiter),
    };
    let line = middle(&line, page.width - 10);
    page.line(format!("  {share} {line}"));
    add_frames(page, &blame.frames, INDENT + 4);
}

/// The innermost telling functions, in one line: from the one on that uses the lock.
pub(super) fn add_frames(page: &mut Page, frames: &[Frame], indent: usize) {
    if frames.is_empty() {
        return;
    }
    let line = page.dim(&chain(frames, page.width - indent));
    page.line(format!("{}{line}", " ".repeat(indent)));
}

fn chain(frames: &[Frame], width: usize) -> String {
    if frames.is_empty() {
        return String::new();
    }
    let user = frames
        .iter()
        .position(|f| !f.kernel && !kinds::belongs_to_lock(&f.function));
    let names = telling(&frames[user.unwrap_or(0)..], width);
    wrap(&names, width).swap_remove(0)
}

/// Waiters, the longest first; as one those who differ only where their stacks are not shown.
pub(super) fn alike(page: &Page, waiters: &[Waiter], indent: usize) -> Vec<Waiter> {
    let mut found: Vec<(String, Waiter)> = Vec::new();
    for waiter in waiters {
        let shown = chain(&waiter.frames, page.width - indent);
        let known = found
            .iter_mut()
            .find(|(line, w)| *line == shown && w.group == waiter.group);
        match known {
            Some((_, known)) => {
                known.waits += waiter.waits;
                known.waited_ns += waiter.waited_ns;
            }
            None => found.push((shown, waiter.clone())),
        }
    }
    found.sort_by_key(|(_, w)| std::cmp::Reverse(w.waited_ns));
    found.into_iter().map(|(_, waiter)| waiter).collect()
}

fn add_idle(page: &mut Page, answer: &LocksAnswer) {
    if answer.waiting_for_work.is_empty() {
        return;
    }
    let mut kinds: Vec<(String, u64)> = Vec::new();
    for lock in &answer.waiting_for_work {
        let kind = kind(lock);
        match kinds.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, ns)) => *ns = ns.saturating_add(lock.waited_ns),
            None => kinds.push((kind, lock.waited_ns)),
        }
    }
    kinds.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let named: Vec<String> = kinds
        .iter()
        .take(IDLE_KINDS)
        .map(|(kind, ns)| format!("{kind} {}", human::duration(*ns)))
        .collect();
    page.line("");
    page.wrapped(
        &format!("Waiting for work, no lock: {}.", named.join(", ")),
        0,
        2,
    );
}

fn add_unattributed(page: &mut Page, answer: &LocksAnswer) {
    if answer.unattributed_ns > 0 {
        let text = format!(
            "{} of the waiting for locks ({}) is charged to nobody: its end was not seen.",
            human::duration(answer.unattributed_ns),
            human::percent(answer.unattributed_ns, answer.waited_ns)
        );
        page.wrapped(&text, 0, 2);
    }
}
