//! What is added and written to at start: the initial image of the thread-local variables, the lists
//! of constructors and destructors, the dynamic section. And the code behind it.
use super::Merge;
use super::arrays::Arrays;
use super::choices::{Chosen, stack_end};
use super::entry::{self, Start};
use super::inside::{Inside, Places};
use super::{plugins, stand_in};
use crate::PAGE;
use crate::Refusal;
use crate::selection::LIBC;
use crate::values::{Value, Values};

/// The added writable range and the added code behind it.
#[derive(Debug)]
pub(crate) struct Writable {
    pub bytes: Vec<u8>,
    pub code: Vec<u8>,
    /// Image address of the code, where the merged program begins.
    pub entry: u64,
    /// Image address of the destructors.
    pub fini: u64,
    /// Image address of what is called first.
    pub preinit: u64,
    pub inside: Option<Inside>,
    pub dynamic: u64,
    pub dynamic_len: u64,
}

/// Bytes for the dynamic section: more entries than there can be.
fn dynamic_len(merge: &Merge<'_, '_>) -> u64 {
    const ENTRIES: u64 = 40;
    16 * (ENTRIES + merge.kept().count() as u64)
}

impl Writable {
    /// Places the parts and adds what the arrays hold to `values`.
    pub(crate) fn new(
        merge: &Merge<'_, '_>,
        arrays: &Arrays,
        chosen: &mut Chosen,
        values: &mut Values,
    ) -> Result<Self, Refusal> {
        let layout = merge.layout;
        let mut bytes = thread_local_image(merge);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let init = layout.end + bytes.len() as u64;
        let fini = init + 8 * arrays.init.len() as u64;
        let preinit = fini + 8 * arrays.fini.len() as u64;
        let dlopen = preinit + 8 * arrays.preinit.len() as u64;
        let choices = dlopen + 8;
        let known = choices + chosen.len();
        let early = known + 8;
        let dynamic = (early + 16).next_multiple_of(16);
        let dynamic_len = dynamic_len(merge);
        bytes.resize((dynamic + dynamic_len - layout.end) as usize, 0);
        for (number, value) in arrays.all().enumerate() {
            values.places.insert(init + 8 * number as u64, *value);
        }

        let entry = layout.end + (bytes.len() as u64).next_multiple_of(PAGE);
        let mut read_only = entry::read_only_ranges(merge.closure, layout);
        read_only.push(layout.end..entry);
        let start = Start {
            read_only,
            functions: (init, arrays.init.len() as u32),
            program: program_entry(merge),
        };
        // With the C library in it, it is looked at earlier: before the loader runs, or while it relocates.
        let mut code = match merge.stand_in {
            Some(stand_in) if merge.soname != LIBC => stand_in::code(stand_in),
            _ => Vec::new(),
        };
        code.extend(entry::code(entry + code.len() as u64, &start));
        let plugins_at = entry + code.len() as u64;
        if plugins::divert(merge, values, (plugins_at, dlopen)) {
            code.extend(plugins::code(merge, plugins_at, dlopen));
        }
        let guard = entry + code.len() as u64;
        chosen.put(merge, values, (choices, guard));
        code.extend(chosen.code(merge.guard, guard));
        if let Some(stand_in) = merge.stand_in
            && merge.soname == LIBC
            && layout.loader.is_none()
        {
            let at = entry + code.len() as u64;
            let stack = stack_end(values);
            values.places.insert(early, stack);
            values.places.insert(early + 8, Value::Indirect(at));
            code.extend(stand_in::resolver(stand_in, at, early));
        }
        let places = Places {
            at: entry + code.len() as u64,
            known,
            program: entry,
        };
        let inside = Inside::of(merge, places)?;
        code.extend(inside.iter().flat_map(|i| &i.code));
        Ok(Writable {
            bytes,
            code,
            entry,
            fini,
            preinit,
            inside,
            dynamic,
            dynamic_len,
        })
    }
}

/// Where the program itself begins.
fn program_entry(merge: &Merge<'_, '_>) -> u64 {
    let stated = merge.closure.modules[0].elf.entry().unwrap_or_default();
    stated.wrapping_add(merge.layout.own())
}

/// The initial values of all modules' thread-local variables.
fn thread_local_image(merge: &Merge<'_, '_>) -> Vec<u8> {
    let tls = &merge.layout.tls;
    let mut bytes = vec![0; tls.file_size as usize];
    for (module, offset) in merge.closure.modules.iter().zip(&tls.offsets) {
        let Some((block, offset)) = module.tls.zip(*offset) else {
            continue;
        };
        let len = block.file_size as usize;
        if let Some(initial) = module.elf.bytes_at(block.stated, len) {
            bytes[offset as usize..offset as usize + len].copy_from_slice(initial);
        }
    }
    bytes
}
