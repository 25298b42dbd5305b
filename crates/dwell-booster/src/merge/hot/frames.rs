//! Which functions' call frame information holds for a copy elsewhere.
use crate::merge::eh_frame::block;
use crate::module::Module;
use gimli::{
    BaseAddresses, CallFrameInstruction, CieOrFde, EhFrame, EndianSlice, FrameDescriptionEntry,
    LittleEndian, Operation, UnwindExpression, UnwindSection as _,
};
use std::collections::BTreeSet;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Register number of the instruction pointer.
const RIP: u16 = 16;

/// Stated addresses of the functions of a module whose entries tell the same wherever they are.
pub(crate) fn movable(module: &Module<'_>) -> Result<BTreeSet<u64>, gimli::Error> {
    let Ok(Some(block)) = block(module) else {
        return Ok(BTreeSet::new());
    };
    let mut section = EhFrame::from(EndianSlice::new(block.bytes, LittleEndian));
    section.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(block.stated);
    let mut entries = section.entries(&bases);
    let mut found = BTreeSet::new();
    while let Some(entry) = entries.next()? {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let fde = partial.parse(EhFrame::cie_from_offset)?;
        // Signal frames are known by their address, and by their bytes.
        if !fde.is_signal_trampoline() && is_movable(&section, &bases, &fde)? {
            found.insert(fde.initial_address());
        }
    }
    Ok(found)
}

fn is_movable(
    section: &EhFrame<Slice<'_>>,
    bases: &BaseAddresses,
    fde: &FrameDescriptionEntry<Slice<'_>>,
) -> Result<bool, gimli::Error> {
    let both = [
        fde.cie().instructions(section, bases),
        fde.instructions(section, bases),
    ];
    for mut instructions in both {
        while let Some(instruction) = instructions.next()? {
            let expression = match instruction {
                CallFrameInstruction::SetLoc { .. } => return Ok(false),
                CallFrameInstruction::DefCfaExpression { expression }
                | CallFrameInstruction::Expression { expression, .. }
                | CallFrameInstruction::ValExpression { expression, .. } => expression,
                _ => continue,
            };
            if !keeps_its_meaning(section, fde, expression)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether an expression asks for no address of code.
fn keeps_its_meaning(
    section: &EhFrame<Slice<'_>>,
    fde: &FrameDescriptionEntry<Slice<'_>>,
    expression: UnwindExpression<usize>,
) -> Result<bool, gimli::Error> {
    let mut operations = expression.get(section)?.operations(fde.cie().encoding());
    while let Some(operation) = operations.next()? {
        match operation {
            Operation::Address { .. } => return Ok(false),
            Operation::Register { register } | Operation::RegisterOffset { register, .. }
                if register.0 == RIP =>
            {
                return Ok(false);
            }
            _ => {}
        }
    }
    Ok(true)
}
