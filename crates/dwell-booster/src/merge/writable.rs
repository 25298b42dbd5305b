//! What is added and written to at start: the initial image of the thread-local variables, the lists
//! of constructors and destructors, the dynamic section. And the code behind it.
//!
//! Lists and dynamic section go where the modules' own dynamic sections were, if they fit: those pages are written to in any
//! case, and a page of their own would be memory that each process has beyond what the stock program needs. The initial
//! image stays where it is when it is one module's.
use super::Merge;
use super::arrays::Arrays;
use super::choices::{Chosen, stack_end};
use super::entry::{self, Start};
use super::headers::page_of;
use super::inside::{Inside, Places};
use super::registered::Registered;
use super::{plugins, settled, stand_in};
use crate::PAGE;
use crate::Refusal;
use crate::selection::LIBC;
use crate::values::{Value, Values};
use std::ops::Range;

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
    /// Image address of the code for starts by the kernel instead of the stock program.
    pub registered: Option<u64>,
    /// Image addresses of the dynamic section, and perhaps zeroes behind it.
    pub dynamic: Range<u64>,
    /// A library's dynamic section that holds the lists: it is to be zeroes before.
    pub emptied: Option<Range<u64>>,
    /// What is written to at each start besides relocations' places, image addresses: dynamic section and lists.
    pub written: [Range<u64>; 2],
    /// Pages of writable ranges that nobody writes to, image addresses.
    pub settled: Vec<Range<u64>>,
}

/// Most bytes of the dynamic section.
fn dynamic_len(merge: &Merge<'_, '_>, arrays: &Arrays) -> u64 {
    // `Tables::dynamic` has that many when every table is there, with the name and the end.
    const ALWAYS: usize = 27;
    let own = &merge.closure.modules[0].dynamic;
    let before = usize::from(!arrays.preinit.is_empty() || own.preinit_array.size > 0);
    let paths = own.rpath.iter().chain(&own.runpath).count();
    16 * (ALWAYS + 2 * before + paths + merge.kept().count()) as u64
}

/// Where a module's own dynamic section was, as image addresses, when nobody writes there at start.
fn old_dynamic(merge: &Merge<'_, '_>, values: &Values, (index, base): (usize, u64)) -> Range<u64> {
    let module = &merge.closure.modules[index];
    let stated = &module.dynamic_range;
    let in_file = |s: &dwell_elf::Segment| {
        s.writable
            && s.stated_address <= stated.start
            && stated.end <= s.stated_address + s.file_size
    };
    let range = stated.start.wrapping_add(base)..stated.end.wrapping_add(base);
    let used = values.places.range(range.clone()).next().is_some();
    match module.segments.iter().any(in_file) && range.start % 8 == 0 && !used {
        true => range,
        false => 0..0,
    }
}

/// Finds room in the dynamic sections of libraries, best on a page that the loader writes to. The first entry stays, as the
/// end of an empty section: code may look for its own module's.
fn room(merge: &Merge<'_, '_>, values: &Values, len: u64) -> Option<Range<u64>> {
    let libraries = merge.layout.merged().skip(1);
    let old = libraries.map(|library| old_dynamic(merge, values, library));
    let fits = old.filter(|range| range.end - range.start >= 16 + len);
    fits.min_by_key(|range| !settled::is_written(merge.layout, values, &around(range)))
}

/// The pages that a range touches.
fn around(range: &Range<u64>) -> Range<u64> {
    page_of(range.start)..range.end.next_multiple_of(PAGE)
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
        let mut end = (layout.end + bytes.len() as u64).next_multiple_of(8);
        let lists_len = 8 * arrays.all().count() as u64 + chosen.len() + 32;
        let emptied = room(merge, values, lists_len);
        let init = emptied.as_ref().map_or(end, |room| room.start + 16);
        end += lists_len * u64::from(emptied.is_none());
        let fini = init + 8 * arrays.init.len() as u64;
        let preinit = fini + 8 * arrays.fini.len() as u64;
        let dlopen = preinit + 8 * arrays.preinit.len() as u64;
        let choices = dlopen + 8;
        let known = choices + chosen.len();
        let early = known + 8;
        debug_assert_eq!(early + 16, init + lists_len);
        let dynamic_len = dynamic_len(merge, arrays);
        let mut dynamic = old_dynamic(merge, values, (0, layout.own()));
        if dynamic.end - dynamic.start < dynamic_len {
            end = end.next_multiple_of(16) + dynamic_len;
            dynamic = end - dynamic_len..end;
        }
        bytes.resize((end - layout.end) as usize, 0);
        for (number, value) in arrays.all().enumerate() {
            values.places.insert(init + 8 * number as u64, *value);
        }

        let entry = layout.end + (bytes.len() as u64).next_multiple_of(PAGE);
        let written = [dynamic.clone(), init..init + lists_len];
        let mut read_only = entry::read_only_ranges(merge.closure, layout);
        read_only.extend((entry > layout.end).then_some(layout.end..entry));
        let settled = settled::settled(merge, values, &read_only, &written);
        read_only.retain(|range| !settled.contains(range));
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
        let at = entry + code.len() as u64;
        // Nothing else uses that place when the loader is in the file.
        let kept = (!chosen.resolvers.is_empty()).then_some(early);
        let mut registered = Registered::of(merge, at, kept)?;
        let guard = at + registered.as_ref().map_or(0, |r| r.bytes.len() as u64);
        let resolver = registered.as_ref().map_or(guard, Registered::compares);
        chosen.put(merge, values, (choices, resolver));
        let differently = registered.as_ref().map(Registered::differently);
        let comparison = chosen.code(merge.guard, guard, differently);
        let registered_at = code.len();
        code.resize((guard - entry) as usize, 0);
        code.extend(comparison);
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
        let mut inside = Inside::of(merge, places)?;
        if let Some((registered, inside)) = registered.as_mut().zip(inside.as_mut()) {
            registered.lead(guard, inside);
            code[registered_at..][..registered.bytes.len()].copy_from_slice(&registered.bytes);
        }
        code.extend(inside.iter().flat_map(|i| &i.code));
        Ok(Writable {
            bytes,
            code,
            entry,
            fini,
            preinit,
            inside,
            registered: registered.as_ref().map(Registered::at),
            dynamic,
            emptied,
            written,
            settled,
        })
    }
}

/// Where the program itself begins.
fn program_entry(merge: &Merge<'_, '_>) -> u64 {
    let stated = merge.closure.modules[0].elf.entry().unwrap_or_default();
    stated.wrapping_add(merge.layout.own())
}

/// The initial values of all modules' thread-local variables; nothing when they stay where they are.
fn thread_local_image(merge: &Merge<'_, '_>) -> Vec<u8> {
    let tls = &merge.layout.tls;
    if tls.in_place.is_some() {
        return Vec::new();
    }
    let mut bytes = vec![0; tls.file_size as usize];
    for (module, offset) in merge.closure.modules.iter().zip(&tls.offsets) {
        let in_file = module.tls.filter(|block| block.file_size > 0);
        let Some((block, offset)) = in_file.zip(*offset) else {
            continue;
        };
        let len = block.file_size as usize;
        if let Some(initial) = module.elf.bytes_at(block.stated, len) {
            bytes[offset as usize..offset as usize + len].copy_from_slice(initial);
        }
    }
    bytes
}
