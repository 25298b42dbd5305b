//! Examines the finished file: it is read anew, by its own headers, and compared with what it is made
//! of. A difference is a fault of this crate, and the file is not given out.
use super::Merge;
use super::eh_frame;
use super::image::Image;
use super::symbols::SymbolTables;
use crate::Refusal;
use crate::module::{Module, Relocation, relocations};
use crate::values::{Value, Values};
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection as _};
use object::elf;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn verify(
    merge: &Merge<'_, '_>,
    image: &Image,
    values: &Values,
    symbols: &SymbolTables<'_>,
) -> Result<(), Refusal> {
    let failed = |why: String| Err(Refusal::Check(why));
    let merged = match Module::parse("the merged file", &image.bytes) {
        Ok(module) => module,
        Err(why) => return failed(why.to_string()),
    };
    if let Err(why) = same_bytes(merge, &merged, values)
        .and_then(|()| same_relocations(merge, &merged, values))
        .and_then(|()| exports_are_found(&merged, symbols))
        .and_then(|()| same_call_frames(merge, &merged))
    {
        return failed(why);
    }
    Ok(())
}

/// Every byte of a module that is loaded and not relocated is what it was.
fn same_bytes(merge: &Merge<'_, '_>, merged: &Module<'_>, values: &Values) -> Result<(), String> {
    for (index, base) in merge.layout.merged() {
        let module = &merge.closure.modules[index];
        for s in module.segments.iter().filter(|s| !s.writable) {
            let len = s.file_size as usize;
            let old = module.elf.bytes_at(s.stated_address, len);
            let new = merged.elf.bytes_at(s.stated_address + base, len);
            // The first bytes are the ELF header, which the program's has other tables.
            let skip = if index == 0 && s.file_offset == 0 {
                64
            } else {
                0
            };
            let same = old
                .zip(new)
                .is_some_and(|(o, n)| o.get(skip..) == n.get(skip..));
            if len > skip && !same {
                return Err(format!(
                    "{}: bytes at {:#x} differ",
                    module.name, s.stated_address
                ));
            }
        }
    }
    for copy in &values.copies {
        if merged.elf.bytes_at(copy.to, copy.len as usize).is_none() {
            return Err(format!("the copy at {:#x} is not in the file", copy.to));
        }
    }
    Ok(())
}

/// Every place holds what was resolved for it, by what the loader will find in the file.
fn same_relocations(
    merge: &Merge<'_, '_>,
    merged: &Module<'_>,
    values: &Values,
) -> Result<(), String> {
    let found = relocations(merged).map_err(str::to_owned)?;
    let by_place: BTreeMap<u64, &Relocation> = found.iter().map(|r| (r.stated, r)).collect();
    if by_place.len() != found.len() {
        return Err("a place has two relocations".into());
    }
    for r in &found {
        if !merged.writable(r.stated, 8) {
            return Err(format!("the place {:#x} cannot be written", r.stated));
        }
        if !values.places.contains_key(&r.stated) {
            return Err(format!("a relocation too many at {:#x}", r.stated));
        }
    }
    for (&place, &value) in &values.places {
        let r = by_place.get(&place).copied();
        if !holds(merge, merged, values, (place, value), r) {
            return Err(format!("{place:#x} should hold {value:x?}, has {r:x?}"));
        }
    }
    Ok(())
}

fn holds(
    merge: &Merge<'_, '_>,
    merged: &Module<'_>,
    values: &Values,
    (place, value): (u64, Value),
    r: Option<&Relocation>,
) -> bool {
    let is = |kind: elf::RelocationType| r.is_some_and(|r| r.kind == kind.0);
    let addend = r.map_or(0, |r| r.addend as u64);
    match value {
        Value::Constant(number) => r.is_none() && merged.word(place) == number,
        Value::Image(address) if merge.layout.fixed => r.is_none() && merged.word(place) == address,
        Value::Image(address) => is(elf::R_X86_64_RELATIVE) && addend == address,
        Value::Indirect(address) => is(elf::R_X86_64_IRELATIVE) && addend == address,
        Value::TlsDescriptor(offset) => is(elf::R_X86_64_TLSDESC) && addend == offset,
        Value::Import {
            kind,
            import,
            addend,
        } => r.is_some_and(|r| {
            let symbol = merged.symbols.get(r.symbol);
            let import = &values.imports[import];
            let named = symbol.is_some_and(|s| s.name == import.name);
            let version = merged.versions.of(r.symbol).map(|v| v.name.as_str());
            let wanted = import.version.as_ref().map(|(name, _)| name.as_str());
            r.kind == kind && r.addend == addend && named && version == wanted
        }),
    }
}

/// The hash table leads to every export.
fn exports_are_found(merged: &Module<'_>, symbols: &SymbolTables<'_>) -> Result<(), String> {
    for export in &symbols.exports {
        let found = merged.symbols.named(export.name).iter();
        let has = |&&index: &&u32| {
            let version = merged.versions.of(index).map(|v| v.name.as_str());
            let symbol = merged.symbols.get(index);
            version == export.version.map(|(name, _)| name)
                && symbol.is_some_and(|s| s.value == export.value && s.size == export.size)
        };
        if !found.into_iter().any(|i| has(&i)) {
            let name = String::from_utf8_lossy(export.name);
            return Err(format!("the export {name} cannot be found"));
        }
    }
    Ok(())
}

/// What an entry of call frame information says that a move could spoil.
type Frame = (u64, u64, Option<gimli::Pointer>, Option<gimli::Pointer>);

/// Every entry of every module is there, and the search table leads to it.
fn same_call_frames(merge: &Merge<'_, '_>, merged: &Module<'_>) -> Result<(), String> {
    let mut wanted = BTreeSet::new();
    for (index, base) in merge.layout.merged() {
        let module = &merge.closure.modules[index];
        wanted.extend(frames(module, base)?.into_iter().map(key));
    }
    let found: BTreeSet<_> = frames(merged, 0)?.into_iter().map(key).collect();
    if let Some(missing) = wanted.symmetric_difference(&found).next() {
        return Err(format!(
            "call frame information of {:#x} differs",
            missing.0
        ));
    }
    Ok(())
}

fn key((start, len, table, personality): Frame) -> (u64, u64, Option<u64>, Option<u64>) {
    let address = |p: gimli::Pointer| match p {
        gimli::Pointer::Direct(at) => at << 1,
        gimli::Pointer::Indirect(at) => at << 1 | 1,
    };
    (start, len, table.map(address), personality.map(address))
}

/// The entries of a module as gimli reads them, moved by `base`.
fn frames(module: &Module<'_>, base: u64) -> Result<Vec<Frame>, String> {
    let Some(block) = eh_frame::block(module).map_err(str::to_owned)? else {
        return Ok(Vec::new());
    };
    let mut section = EhFrame::from(EndianSlice::new(block.bytes, LittleEndian));
    section.set_address_size(8);
    // The section is read where it will be, so that all distances lead to image addresses.
    let bases = BaseAddresses::default().set_eh_frame(block.stated.wrapping_add(base));
    let mut entries = section.entries(&bases);
    let mut frames = Vec::new();
    while let Some(entry) = entries.next().map_err(|e| e.to_string())? {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let fde = partial
            .parse(EhFrame::cie_from_offset)
            .map_err(|e| e.to_string())?;
        frames.push((
            fde.initial_address(),
            fde.len(),
            fde.lsda(),
            fde.personality(),
        ));
    }
    Ok(frames)
}
