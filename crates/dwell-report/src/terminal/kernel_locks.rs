//! Locks of the kernel, in the answer about locks.
use super::locks::{COLUMNS, waits_columns, waits_header};
use super::paint::Page;
use super::stacks::{telling, wrap};
use crate::answer::{KernelLockPlace, KernelLocks};
use crate::human;
use crate::shorten::shorten;
use unicode_width::UnicodeWidthStr;

/// Places told of; the JSON output has more.
const PLACES: usize = 8;
const INDENT: usize = 10;

/// The section, when locks of the kernel were recorded.
pub(super) fn add_section(page: &mut Page, kernel: &KernelLocks) {
    if kernel.waits == 0 && kernel.lost == 0 {
        page.line("");
        page.line("No thread was seen to wait for a lock of the kernel.");
        return add_limits(page, kernel);
    }
    page.heading(
        "Kernel locks",
        "waited for, spinning or asleep, by who wanted them",
    );
    let header = page.dim(&format!("{}  wanted by", waits_header()));
    page.line(header);
    for place in kernel.places.iter().take(PLACES) {
        add_place(page, place, kernel.waited_ns);
    }
    add_limits(page, kernel);
}

fn add_place(page: &mut Page, place: &KernelLockPlace, all_ns: u64) {
    let caller = place.caller.as_deref().unwrap_or("[no stack kept]");
    let mut kind = place.kind.clone();
    if place.locks > 1 {
        kind.push_str(&format!(", {} locks", human::count(place.locks)));
    }
    let mut room = page.width - COLUMNS;
    match room.checked_sub(2 + kind.width()) {
        Some(left) if left >= caller.width().min(16) => room = left,
        _ => kind.clear(),
    }
    let line = format!(
        "{}  {}  {}",
        waits_columns(
            page,
            (place.waited_ns, all_ns),
            place.waits,
            (place.mean_ns, place.max_ns)
        ),
        shorten(caller, room),
        page.dim(&kind),
    );
    page.line(line);
    if place.frames.len() > 1 {
        let width = page.width - INDENT;
        let names = telling(&place.frames, width);
        let names = page.dim(&wrap(&names, width).swap_remove(0));
        page.line(format!("{}{names}", " ".repeat(INDENT)));
    }
}

fn add_limits(page: &mut Page, kernel: &KernelLocks) {
    page.line("");
    page.wrapped(
        "Of a spin lock on hardware (native queued spin lock) a single waiter is not seen, only those that \
         queue behind it.",
        0,
        2,
    );
    if kernel.lost > 0 {
        let text = format!(
            "Waits for locks of the kernel that found no room and are not told of: {}.",
            human::count(kernel.lost)
        );
        page.wrapped(&text, 0, 2);
    }
}
