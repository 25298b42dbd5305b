//! The dynamic section: where the loader finds the tables.
use super::Merge;
use super::arrays::Arrays;
use super::tables::Tables;
use super::writable::Writable;
use crate::module::Array;
use object::elf;

impl Tables {
    pub(crate) fn dynamic(
        &self,
        merge: &Merge<'_, '_>,
        writable: &Writable,
        arrays: &Arrays,
    ) -> Vec<u8> {
        let pie = if merge.layout.fixed {
            0
        } else {
            elf::DF_1_PIE.0
        };
        let at = |name: &str| self.table(name).at;
        let len = |name: &str| self.table(name).len;
        let names = self
            .names
            .iter()
            .map(|&(tag, name)| (tag.0, u64::from(name)));
        let mut entries: Vec<(i64, u64)> = names.collect();
        entries.extend(array_entries(merge, writable, arrays));
        entries.extend([
            (elf::DT_GNU_HASH.0, at(".gnu.hash")),
            (elf::DT_STRTAB.0, at(".dynstr")),
            (elf::DT_SYMTAB.0, at(".dynsym")),
            (elf::DT_STRSZ.0, len(".dynstr")),
            (elf::DT_SYMENT.0, 24),
            (elf::DT_DEBUG.0, 0),
            (elf::DT_VERSYM.0, at(".gnu.version")),
            (elf::DT_VERDEF.0, at(".gnu.version_d")),
            (elf::DT_VERDEFNUM.0, self.defined as u64),
            (elf::DT_FLAGS.0, elf::DF_BIND_NOW.0),
            (elf::DT_FLAGS_1.0, elf::DF_1_NOW.0 | pie),
        ]);
        if self.needed > 0 {
            entries.push((elf::DT_VERNEED.0, at(".gnu.version_r")));
            entries.push((elf::DT_VERNEEDNUM.0, self.needed as u64));
        }
        if len(".rela.dyn") > 0 {
            entries.push((elf::DT_RELA.0, at(".rela.dyn")));
            entries.push((elf::DT_RELASZ.0, len(".rela.dyn")));
            entries.push((elf::DT_RELAENT.0, 24));
            entries.push((elf::DT_RELACOUNT.0, self.relative as u64));
        }
        if len(".relr.dyn") > 0 {
            entries.push((elf::DT_RELR.0, at(".relr.dyn")));
            entries.push((elf::DT_RELRSZ.0, len(".relr.dyn")));
            entries.push((elf::DT_RELRENT.0, 8));
        }
        let words = entries.iter().flat_map(|&(tag, value)| [tag as u64, value]);
        words.flat_map(u64::to_le_bytes).collect()
    }
}

/// The program's constructors where they are, and all destructors.
fn array_entries(
    merge: &Merge<'_, '_>,
    writable: &Writable,
    arrays: &Arrays,
) -> impl Iterator<Item = (i64, u64)> {
    let own = merge.layout.own();
    let program = &merge.closure.modules[0].dynamic;
    let moved = |array: Array| Array {
        stated: array.stated.wrapping_add(own),
        ..array
    };
    let array = |at: elf::DynamicTag, size: elf::DynamicTag, array: Array| {
        let entries = [(at.0, array.stated), (size.0, array.size)];
        entries.into_iter().filter(move |_| array.size > 0)
    };
    let fini = Array {
        stated: writable.fini,
        size: 8 * arrays.fini.len() as u64,
    };
    let init = program
        .init
        .map(|at| (elf::DT_INIT.0, at.wrapping_add(own)));
    let preinit = match arrays.preinit.len() as u64 {
        0 => moved(program.preinit_array),
        len => Array {
            stated: writable.preinit,
            size: 8 * len,
        },
    };
    array(elf::DT_PREINIT_ARRAY, elf::DT_PREINIT_ARRAYSZ, preinit)
        .chain(init)
        .chain(array(
            elf::DT_INIT_ARRAY,
            elf::DT_INIT_ARRAYSZ,
            moved(program.init_array),
        ))
        .chain(array(elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ, fini))
}
