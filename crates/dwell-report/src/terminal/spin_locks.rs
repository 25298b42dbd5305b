//! Spin locks of the kernel: how many operations, who waited, who held.
use super::Style;
use super::functions::{add_place, whose};
use super::paint::{Page, right};
use crate::human;
use crate::spin_locks::{SpinLocksAnswer, SpinPlace};

/// Places told of, of each kind; the JSON output has all.
const PLACES: usize = 8;
/// Columns before a place's functions.
const BEFORE_PLACE: usize = 26;

/// Renders the answer.
pub fn render_spin_locks(answer: &SpinLocksAnswer, style: &Style) -> String {
    let mut page = Page::new(style);
    add_totals(&mut page, answer);
    add_functions(&mut page, answer);
    let about = "by who wanted a lock that was held";
    add_places(
        &mut page,
        "Waited",
        about,
        &answer.waiters,
        answer.contended,
    );
    let about = "by who released a lock that others waited for";
    add_places(&mut page, "Held up", about, &answer.holders, answer.awaited);
    add_losses(&mut page, answer);
    for note in &answer.notes {
        page.wrapped(note, 0, 2);
    }
    page.finish()
}

fn add_totals(page: &mut Page, answer: &SpinLocksAnswer) {
    let heading = page.bold("Kernel spin locks");
    page.line(format!(
        "{heading}  operations {} in {}",
        whose(&answer.pids),
        human::duration(answer.duration_ns)
    ));
    let seconds = answer.duration_ns.max(1) as f64 / 1e9;
    page.line(format!(
        "  {} acquisitions, {} per second; {} found the lock held ({})",
        human::count(answer.acquired),
        human::count((answer.acquired as f64 / seconds) as u64),
        human::count(answer.contended),
        human::percent(answer.contended, answer.acquired),
    ));
    let kept = match answer.buffer_lasts_times {
        Some(times) => format!(
            "Only operations with somebody waiting were kept: the buffer lasts {} times longer.",
            human::count(times.round() as u64)
        ),
        None => "Nobody waited for any of them: nothing was kept.".to_owned(),
    };
    page.wrapped(&kept, 2, 2);
}

fn add_functions(page: &mut Page, answer: &SpinLocksAnswer) {
    let header = format!(
        "{}{}{}{}  function",
        right("calls", 11),
        right("contended", 11),
        right("share", 9),
        right("failed", 9)
    );
    let header = page.dim(&header);
    page.line("");
    page.line(header);
    for f in answer.functions.iter().filter(|f| f.traced) {
        page.line(format!(
            "{}{}{}{}  {}",
            right(&human::count(f.operations), 11),
            right(&human::count(f.contended), 11),
            right(&human::percent(f.contended, f.operations), 9),
            right(&human::count(f.failed_tries), 9),
            f.name
        ));
    }
    let hidden = answer.functions.iter().filter(|f| !f.traced);
    let hidden: Vec<&str> = hidden.map(|f| f.name.as_str()).collect();
    if !hidden.is_empty() {
        let text = format!(
            "Not traceable in this kernel, so not counted: {}.",
            hidden.join(", ")
        );
        page.wrapped(&text, 2, 4);
    }
}

fn add_places(page: &mut Page, heading: &str, about: &str, places: &[SpinPlace], all: u64) {
    if places.is_empty() {
        return;
    }
    page.heading(heading, about);
    let header = format!(
        "{}{}{}",
        right("share", 8),
        right("times", 9),
        right("locks", 7)
    );
    let header = page.dim(&header);
    page.line(header);
    for place in places.iter().take(PLACES) {
        let numbers = format!(
            "{}{}{}",
            right(&human::percent(place.times, all), 8),
            right(&human::count(place.times), 9),
            right(&human::count(place.locks), 7)
        );
        add_place(page, &numbers, BEFORE_PLACE, &place.frames);
    }
}

fn add_losses(page: &mut Page, answer: &SpinLocksAnswer) {
    page.heading("How far to trust it", "");
    let losses = &answer.losses;
    let lost = [
        (
            losses.missed,
            "not counted, of any process: our program ran on that processor already",
        ),
        (
            losses.no_room,
            "counted but without a place: the buffer was full",
        ),
        (
            losses.nested,
            "counted but without a place: they interrupted the keeping of another",
        ),
    ];
    if lost.iter().all(|(n, _)| *n == 0) {
        page.line("  Every operation was counted, and every contended one has its place.");
    }
    for (n, what) in lost.iter().filter(|(n, _)| *n > 0) {
        let text = format!("{} {what}.", human::counted(*n, "operation", "operations"));
        page.wrapped(&text, 2, 4);
    }
    if answer.contended > 0 && answer.awaited == 0 {
        page.wrapped(
            "No release was seen that somebody waited for: a virtual machine without paravirtual spin locks \
             keeps no mark of who waits.",
            2,
            4,
        );
    }
    page.wrapped(
        "Whether a lock is held is asked just before it is wanted: what comes between is seen at the release.",
        2,
        4,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spin_locks::{OperationsAnswer, SpinLosses};
    use unicode_width::UnicodeWidthStr;

    fn answer() -> SpinLocksAnswer {
        let frames = ["do_fcntl", "__x64_sys_fcntl", "do_syscall_64"];
        let place = SpinPlace {
            frames: frames.map(str::to_owned).to_vec(),
            times: 500,
            locks: 1,
        };
        let function = |name: &str, traced| OperationsAnswer {
            name: name.into(),
            traced,
            operations: 1_000_000,
            contended: 500,
            failed_tries: 7,
            missed: 0,
        };
        SpinLocksAnswer {
            duration_ns: 2_000_000_000,
            acquired: 1_000_000,
            contended: 500,
            released: 1_000_000,
            awaited: 480,
            buffer_lasts_times: Some(2040.8),
            functions: vec![
                function("_raw_spin_lock", true),
                function("_raw_spin_lock_bh", false),
            ],
            waiters: vec![place.clone()],
            holders: vec![place],
            losses: SpinLosses {
                no_room: 3,
                ..SpinLosses::default()
            },
            ..SpinLocksAnswer::default()
        }
    }

    #[test]
    fn what_is_told_of_spin_locks() {
        let text = render_spin_locks(&answer(), &Style::default());
        for line in [
            "Kernel spin locks  operations of all processes in 2.00 s",
            "  1.00M acquisitions, 500k per second; 500 found the lock held (0.05 %)",
            "      1.00M        500   0.05 %        7  _raw_spin_lock",
            "  Not traceable in this kernel, so not counted: _raw_spin_lock_bh.",
            " 100.0 %      500      1  do_fcntl ← __x64_sys_fcntl ← do_syscall_64",
            "  3 operations counted but without a place: the buffer was full.",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line:?} in\n{text}");
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(
            words.join(" ").contains("lasts 2 041 times longer"),
            "{text}"
        );
        assert!(text.lines().all(|l| l.width() <= 80), "too wide:\n{text}");
    }

    #[test]
    fn quiet_locks() {
        let text = render_spin_locks(&SpinLocksAnswer::default(), &Style::default());
        assert!(
            text.contains("nothing was kept") && text.contains("Every operation"),
            "{text}"
        );
        assert!(!text.contains("Held up"), "{text}");
    }
}
