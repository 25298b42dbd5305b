//! The targets of a `switch`.
use super::entries::Entries;
use crate::ElfFile;
use iced_x86::{Instruction, OpKind, Register};

/// Most targets that are read of one table.
const MAX_TARGETS: usize = 1024;

/// The targets of an indirect jump, or empty. `bases` are the addresses that the function took before
/// (position-independent code adds a table's offsets to its address).
///
/// A table ends where `is_target` says no (it is told whether the table's length is known), where the
/// code takes another address, or after `limit` entries (the comparison before the jump).
pub(super) fn targets(
    file: &ElfFile<'_>,
    entries: &Entries,
    jump: &Instruction,
    bases: &[u64],
    limit: Option<u32>,
    is_target: &impl Fn(u64, bool) -> bool,
) -> Vec<u64> {
    let inside = |target: &u64| is_target(*target, limit.is_some());
    let limit = limit.map_or(MAX_TARGETS, |n| MAX_TARGETS.min(n as usize));
    let is_table = jump.memory_base() == Register::None && jump.memory_index() != Register::None;
    match jump.op0_kind() {
        OpKind::Memory if is_table => absolute(file, jump.memory_displacement64())
            .take_while(inside)
            .take(limit)
            .collect(),
        // The address taken last is most likely the table's; a wrong one has no target inside.
        OpKind::Register => bases
            .iter()
            .rev()
            .map(|&base| {
                let room = usize::try_from(entries.room_at(base) / 4).unwrap_or(usize::MAX);
                relative(file, base)
                    .take_while(inside)
                    .take(limit.min(room))
                    .collect::<Vec<_>>()
            })
            .find(|found| !found.is_empty())
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Entries of 8 bytes: the addresses themselves.
fn absolute<'a>(file: &ElfFile<'a>, table: u64) -> impl Iterator<Item = u64> + 'a {
    let bytes = file.bytes_from(table).unwrap_or_default();
    let (entries, _) = bytes.as_chunks();
    entries.iter().copied().map(u64::from_le_bytes)
}

/// Entries of 4 bytes: distances from the table.
fn relative<'a>(file: &ElfFile<'a>, table: u64) -> impl Iterator<Item = u64> + 'a {
    let bytes = file.bytes_from(table).unwrap_or_default();
    let (entries, _) = bytes.as_chunks();
    let distances = entries.iter().copied().map(i32::from_le_bytes);
    distances.map(move |distance| table.wrapping_add_signed(distance.into()))
}
