//! The functions of a module, by its call frame information.
use crate::Refusal;
use crate::merge::eh_frame;
use crate::module::Module;

/// Stated address and length, sorted, none overlapping; those whose bytes are code that nobody writes.
///
/// Symbols are not asked: stripped programs have none for most functions, and those of assembly
/// without call frame information tell their end only sometimes.
pub(crate) fn of(module: &Module<'_>) -> Result<Vec<(u64, u64)>, Refusal> {
    let frames = eh_frame::frames(module, 0).map_err(|why| {
        let why = format!("its call frame information cannot be read: {why}");
        Refusal::unsupported(&module.path, why)
    })?;
    let mut all: Vec<(u64, u64)> = frames.iter().map(|f| (f.0, f.1)).collect();
    all.sort_unstable();
    let mut end = 0;
    all.retain(|&(start, len)| {
        let apart = start >= end && len > 0 && is_code(module, start, len);
        if apart {
            end = start + len;
        }
        apart
    });
    Ok(all)
}

fn is_code(module: &Module<'_>, start: u64, len: u64) -> bool {
    module.segments.iter().any(|s| {
        let file_end = s.stated_address + s.file_size;
        s.executable
            && !s.writable
            && s.stated_address <= start
            && start.checked_add(len).is_some_and(|end| end <= file_end)
    })
}
