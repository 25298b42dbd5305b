//! Names for the stubs through which a module calls other modules (`malloc@plt`).
//!
//! Stubs have no symbols, yet stripped programs spend time there. Each one jumps through a slot
//! of the global offset table, and the relocation of that slot carries the name.
use std::collections::HashMap;

use object::read::RelocationTarget;
use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags,
    elf as abi,
};

use crate::elf::Elf;
use crate::queries::Queries;
use crate::symtab::Names;

/// `jmp *disp32(%rip)`, the heart of every stub. `endbr64` (4 bytes) and `bnd` (1 byte), and in
/// some linkers' stubs a `mov` (6 bytes), come before it.
const JMP_RIP: [u8; 2] = [0xff, 0x25];
/// Length of that jump, bytes.
const JMP_LENGTH: usize = 6;

/// Most relocations read: twice as many as the largest program we know of has.
const MAX_RELOCATIONS: usize = 4 << 20;

/// What a slot of the global offset table leads to.
#[derive(Clone, Copy)]
enum Target<'d> {
    /// A function of another module.
    Named(&'d [u8]),
    /// An indirect function of the module itself: the stated address of its resolver.
    Resolver(u64),
}

/// Whether a section is one of stubs.
pub(crate) fn holds_stubs<'d>(section: &impl ObjectSection<'d>) -> bool {
    section.name_bytes().is_ok_and(|n| n.starts_with(b".plt"))
}

/// The raw name for each address that lies in a stub, with its index in the queries.
pub(crate) fn stub_names(elf: &Elf<'_>, queries: &Queries) -> Vec<(usize, String)> {
    if elf.file.architecture() != Architecture::X86_64 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut slots = None;
    for section in elf.file.sections() {
        let end = section.address().saturating_add(section.size());
        let inside = queries.within(section.address(), end);
        if inside.is_empty() || !holds_stubs(&section) {
            continue;
        }
        let Ok(code) = section.data() else { continue };
        let slots = slots.get_or_insert_with(|| slots_of(elf));
        for i in inside {
            let offset = queries.all()[i] - section.address();
            let target = stub_at(code, section.address(), offset, slots);
            found.extend(target.map(|t| (i, t)));
        }
    }
    name_all(elf, found)
}

/// Where each slot leads, by the slot's stated address.
fn slots_of<'d>(elf: &Elf<'d>) -> HashMap<u64, Target<'d>> {
    let mut slots = HashMap::new();
    let symbols = elf.file.dynamic_symbol_table();
    for (address, relocation) in elf
        .file
        .dynamic_relocations()
        .into_iter()
        .flatten()
        .take(MAX_RELOCATIONS)
    {
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            continue;
        };
        let target = match (r_type, relocation.target()) {
            (abi::R_X86_64_JUMP_SLOT | abi::R_X86_64_GLOB_DAT, RelocationTarget::Symbol(index)) => {
                let symbol = symbols.as_ref().and_then(|t| t.symbol_by_index(index).ok());
                symbol.and_then(|s| s.name_bytes().ok()).map(Target::Named)
            }
            (abi::R_X86_64_IRELATIVE, _) => Some(Target::Resolver(relocation.addend() as u64)),
            _ => None,
        };
        slots.extend(target.map(|t| (address, t)));
    }
    slots
}

/// What the stub around `offset` jumps to. Stubs are 16 bytes long, in `.plt.got` sometimes 8.
fn stub_at<'d>(
    code: &[u8],
    section_address: u64,
    offset: u64,
    slots: &HashMap<u64, Target<'d>>,
) -> Option<Target<'d>> {
    [8, 16].into_iter().find_map(|length| {
        let start = offset - offset % length;
        let stub = code.get(usize::try_from(start).ok()?..)?;
        let stub = &stub[..stub.len().min(length as usize)];
        let (at, disp) = stub
            .windows(JMP_LENGTH)
            .enumerate()
            .find_map(|(at, jump)| {
                let (opcode, disp) = jump.split_first_chunk::<2>()?;
                (*opcode == JMP_RIP).then_some((at, i32::from_le_bytes(disp.try_into().ok()?)))
            })?;
        let next = section_address + start + (at + JMP_LENGTH) as u64;
        slots.get(&next.wrapping_add_signed(disp.into())).copied()
    })
}

/// Names of the targets, with `@plt` behind them.
fn name_all(elf: &Elf<'_>, found: Vec<(usize, Target<'_>)>) -> Vec<(usize, String)> {
    let resolver = |t: &Target<'_>| match t {
        Target::Resolver(address) => Some(*address),
        Target::Named(_) => None,
    };
    let mut resolvers = Queries::new(
        &found
            .iter()
            .filter_map(|(_, t)| resolver(t))
            .collect::<Vec<_>>(),
    );
    let mut names = Names::new(&resolvers);
    if resolvers.len() > 0 {
        names.add(elf, &mut resolvers);
    }
    let names = names.finish(&resolvers, &elf.code_ranges());
    let name = |target: Target<'_>| {
        let raw = match target {
            Target::Named(name) => name,
            Target::Resolver(address) => names[resolvers.index(address)?]?,
        };
        Some(format!(
            "{}@plt",
            crate::demangle::demangle(&String::from_utf8_lossy(raw))
        ))
    };
    found
        .into_iter()
        .filter_map(|(i, target)| Some((i, name(target)?)))
        .collect()
}
