//! Pages that nobody writes to, although they are writable for the loader: what linkers keep apart for it
//! (`PT_GNU_RELRO`), and the initial image of thread-local variables.
//!
//! Where addresses are final the loader has next to nothing left to write. Such pages are mapped with what lies before them,
//! which nobody writes to, either: that spares each start a range of memory and the call that protects it. The program's
//! own hold the dynamic section, which the loader writes to.
use super::Merge;
use super::headers::page_of;
use crate::layout::Layout;
use crate::values::{Value, Values};
use std::ops::Range;

/// Which of the ranges of pages that are made read-only at start nobody writes to before, image addresses. `written` is
/// what is written to besides relocations' places.
pub(crate) fn settled(
    merge: &Merge<'_, '_>,
    values: &Values,
    read_only: &[Range<u64>],
    written: &[Range<u64>],
) -> Vec<Range<u64>> {
    let layout = merge.layout;
    let meets = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
    let is_settled = |range: &&Range<u64>| {
        merge.fuse
            && !is_written(layout, values, range)
            && !written.iter().any(|other| meets(range, other))
            && (range.start == layout.end || from_the_file(merge, range))
    };
    read_only.iter().filter(is_settled).cloned().collect()
}

/// Whether relocation is left for the loader in a range.
pub(crate) fn is_written(layout: &Layout, values: &Values, range: &Range<u64>) -> bool {
    let mut places = values.places.range(range.clone());
    places.any(|(_, value)| match value {
        Value::Constant(_) => false,
        Value::Image(_) => !layout.fixed,
        Value::Indirect(_) | Value::TlsDescriptor(_) | Value::Import { .. } => true,
    })
}

/// Whether a writable range of a library begins on the first of these pages, and has bytes in the file for all of them.
fn from_the_file(merge: &Merge<'_, '_>, pages: &Range<u64>) -> bool {
    merge.layout.merged().skip(1).any(|(index, base)| {
        let mut segments = merge.closure.modules[index].segments.iter();
        segments.any(|s| {
            let at = s.stated_address + base;
            s.writable && page_of(at) == pages.start && pages.end <= at + s.file_size
        })
    })
}
