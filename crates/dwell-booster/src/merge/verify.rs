//! Examines the finished file: it is read anew, by its own headers, and compared with what it is made
//! of. A difference is a fault of this crate, and the file is not given out.
use super::direct;
use super::eh_frame::{Frame, frames};
use super::hot::{self, Hot};
use super::inside::{self, Inside};
use super::symbols::SymbolTables;
use super::{Made, Merge};
use crate::Refusal;
use crate::module::{Module, Relocation, relocations};
use crate::values::{Value, Values};
use object::elf;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Examines the finished file.
pub(super) fn verify(merge: &Merge<'_, '_>, made: &Made<'_>) -> Result<(), Refusal> {
    let merged = Module::parse_merged(&made.image.bytes);
    let merged = merged.map_err(|why| Refusal::Check(why.to_string()))?;
    let (values, direct, hot) = (&made.values, &made.direct, &made.hot);
    same_bytes(merge, &merged, made)
        .and_then(|()| same_relocations(merge, &merged, values))
        .and_then(|()| can_be_written(&merged, &made.written))
        .and_then(|()| exports_are_found(&merged, &made.symbols))
        .and_then(|()| same_call_frames(merge, &merged, hot))
        .and_then(|()| direct::verify(merge, &merged, direct, &hot.clones))
        .and_then(|()| inside::verify(merge, &merged, made.inside.as_ref()))
        .and_then(|()| hot::verify(merge, &merged, direct, hot))
        .map_err(Refusal::Check)
}

/// Every byte of a module that is loaded, not relocated and not of a changed instruction is what it was.
fn same_bytes(merge: &Merge<'_, '_>, merged: &Module<'_>, made: &Made<'_>) -> Result<(), String> {
    let in_loader = made.inside.iter().flat_map(Inside::changed);
    let in_calls = made.direct.changed();
    let all = in_loader.chain(in_calls).chain(made.hot.changed());
    let mut all: Vec<Range<u64>> = all.collect();
    all.sort_unstable_by_key(|c| c.start);
    for (index, base) in merge.layout.placed() {
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
            let at = s.stated_address + base;
            let same = old.zip(new).is_some_and(|(old, new)| {
                let from = all.partition_point(|c| c.start < at);
                let inside = all[from..].iter();
                let inside = inside.take_while(|c| c.end <= at + len as u64);
                let changed = inside.map(|c| (c.start - at) as usize..(c.end - at) as usize);
                same_but_for(changed, skip, (old, new))
            });
            if len > skip && !same {
                return Err(format!(
                    "{}: bytes at {:#x} differ",
                    module.name, s.stated_address
                ));
            }
        }
    }
    for copy in &made.values.copies {
        if merged.elf.bytes_at(copy.to, copy.len as usize).is_none() {
            return Err(format!("the copy at {:#x} is not in the file", copy.to));
        }
    }
    Ok(())
}

/// Whether two files are the same from `skip` on, outside of the ranges, which are in order.
fn same_but_for(
    changed: impl Iterator<Item = Range<usize>>,
    skip: usize,
    (old, new): (&[u8], &[u8]),
) -> bool {
    let mut from = skip;
    let end = std::iter::once(old.len()..old.len());
    changed.chain(end).all(|range| {
        let before = from..range.start.max(from);
        from = range.end.max(from);
        old.get(before.clone()) == new.get(before)
    })
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

/// What is written to at each start besides relocations' places lies in a writable range.
fn can_be_written(merged: &Module<'_>, written: &[Range<u64>]) -> Result<(), String> {
    let mut all = written.iter();
    match all.find(|range| !merged.writable(range.start, range.end - range.start)) {
        Some(range) => Err(format!("{:#x} cannot be written", range.start)),
        None => Ok(()),
    }
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

/// Every entry of every module is there, and the search table leads to it.
/// Copies have the originals'.
fn same_call_frames(merge: &Merge<'_, '_>, merged: &Module<'_>, hot: &Hot) -> Result<(), String> {
    let mut wanted = BTreeSet::new();
    for (index, base) in merge.layout.placed() {
        let module = &merge.closure.modules[index];
        for frame in frames(module, base)? {
            let copy = hot.clones.copy_of(frame.0);
            let copy = copy.filter(|(clone, at)| clone.at == *at);
            wanted.extend(copy.map(|(_, at)| key((at, frame.1, frame.2, frame.3))));
            wanted.insert(key(frame));
        }
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
