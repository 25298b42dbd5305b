//! Examines the loader in the finished file: each changed place is decoded again, and must do what it did.
use super::Inside;
use super::windows::{ABOVE, BELOW, JUMP, Window, decode};
use crate::merge::Merge;
use crate::module::Module;
use iced_x86::{Code, Instruction};

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
    let jump = decode(merged.elf.bytes_at(at, JUMP as u64 as usize)?, at)?;
    let [(jump, _)] = jump.as_slice() else {
        return None;
    };
    let mut here = jump.near_branch_target();
    (jump.code() == Code::Jmp_rel32_64).then_some(())?;
    for (before, _) in decode(old, at)? {
        if before.code() == Code::Cpuid {
            let bytes = merged
                .elf
                .bytes_at(here, BELOW.len() + JUMP + ABOVE.len())?;
            let rest = bytes.strip_prefix(&BELOW)?.strip_suffix(&ABOVE)?;
            let (call, _) = *decode(rest, here + BELOW.len() as u64)?.first()?;
            let right =
                call.code() == Code::Call_rel32_64 && call.near_branch_target() == inside.answering;
            right.then_some(())?;
            here += bytes.len() as u64;
        } else {
            let bytes = merged.elf.bytes_at(here, before.len())?;
            let (after, _) = *decode(bytes, here)?.first()?;
            same(&before, &after).then_some(())?;
            here += before.len() as u64;
        }
    }
    let (back, _) = *decode(merged.elf.bytes_at(here, JUMP)?, here)?.first()?;
    let right = back.code() == Code::Jmp_rel32_64 && back.near_branch_target() == at + window.len;
    right.then_some(())
}

/// Whether two instructions at different places do the same: all that they name is equal.
fn same(a: &Instruction, b: &Instruction) -> bool {
    let memory = |i: &Instruction| match i.is_ip_rel_memory_operand() {
        true => i.ip_rel_memory_address(),
        false => i.memory_displacement64(),
    };
    let operands = (0..a.op_count())
        .all(|n| a.op_kind(n) == b.op_kind(n) && a.op_register(n) == b.op_register(n));
    let immediates = (0..a.op_count()).all(|n| a.try_immediate(n).ok() == b.try_immediate(n).ok());
    a.code() == b.code()
        && a.len() == b.len()
        && operands
        && immediates
        && memory(a) == memory(b)
        && a.memory_base() == b.memory_base()
        && a.memory_index() == b.memory_index()
        && a.memory_index_scale() == b.memory_index_scale()
        && a.segment_prefix() == b.segment_prefix()
}
