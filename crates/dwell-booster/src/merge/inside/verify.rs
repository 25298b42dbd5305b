//! Examines the loader in the finished file: each changed place is decoded again, and must do what it did.
use super::Inside;
use super::windows::{ABOVE, BELOW, JUMP, Window};
use crate::merge::Merge;
use crate::merge::decoded::{branch_target, decode};
use crate::module::Module;
use iced_x86::Code;

/// Checks all changed places.
pub(crate) fn verify(
    merge: &Merge<'_, '_>,
    merged: &Module<'_>,
    inside: Option<&Inside>,
) -> Result<(), String> {
    let Some(inside) = inside else {
        return Ok(());
    };
    for (window, _) in &inside.windows {
        if same_meaning(merge, merged, inside, window).is_none() {
            return Err(format!(
                "the loader's question at {:#x} leads astray",
                window.stated
            ));
        }
    }
    Ok(())
}

/// Whether a window leads to the instructions that it had, the question answered, and back.
fn same_meaning(
    merge: &Merge<'_, '_>,
    merged: &Module<'_>,
    inside: &Inside,
    window: &Window,
) -> Option<()> {
    let at = window.stated + inside.base;
    let loader = &merge.closure.modules[inside.module];
    let old = loader.elf.bytes_at(window.stated, window.len as usize)?;
    // Where the branch at an address leads, which must be of this kind.
    let branch = |bytes: &[u8], at: u64, code: Code| {
        let branch = decode(bytes, at)?.first()?.instruction;
        branch_target(&branch).filter(|_| branch.code() == code)
    };
    let bytes = merged.elf.bytes_at(at, JUMP)?;
    let mut here = branch(bytes, at, Code::Jmp_rel32_64)?;
    for before in decode(old, at)? {
        if before.instruction.code() == Code::Cpuid {
            let bytes = merged
                .elf
                .bytes_at(here, BELOW.len() + JUMP + ABOVE.len())?;
            let rest = bytes.strip_prefix(&BELOW)?.strip_suffix(&ABOVE)?;
            let called = branch(rest, here + BELOW.len() as u64, Code::Call_rel32_64)?;
            (called == inside.answering).then_some(())?;
            here += bytes.len() as u64;
        } else {
            let bytes = merged.elf.bytes_at(here, before.bytes.len())?;
            let all = decode(bytes, here)?;
            let after = all.first()?;
            let place = before.instruction.memory_displacement64();
            let same = before.is_like(after) && after.instruction.memory_displacement64() == place;
            same.then_some(())?;
            here += bytes.len() as u64;
        }
    }
    let back = branch(merged.elf.bytes_at(here, JUMP)?, here, Code::Jmp_rel32_64)?;
    (back == at + window.len).then_some(())
}
