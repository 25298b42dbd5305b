//! What is added and written to at start: the initial image of the thread-local variables, the arrays
//! of constructors and destructors, the dynamic section. And the code that then protects it.
use super::Merge;
use super::arrays::Arrays;
use super::stub;
use crate::PAGE;
use crate::values::{Value, Values};

/// The added writable range and the added code behind it.
#[derive(Debug)]
pub(crate) struct Writable {
    pub bytes: Vec<u8>,
    pub stub: Vec<u8>,
    /// Image addresses of the arrays: preinit, init, fini.
    pub preinit: u64,
    pub init: u64,
    /// How many constructors there are, with ours.
    pub init_len: usize,
    pub fini: u64,
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
    pub(crate) fn new(merge: &Merge<'_, '_>, arrays: &Arrays, values: &mut Values) -> Self {
        let layout = merge.layout;
        let mut bytes = thread_local_image(merge);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let preinit = layout.end + bytes.len() as u64;
        let init = preinit + 8 * arrays.preinit.len() as u64;
        let init_len = arrays.init.len() + 1;
        let fini = init + 8 * init_len as u64;
        let dynamic = (fini + 8 * arrays.fini.len() as u64).next_multiple_of(16);
        let dynamic_len = dynamic_len(merge);
        bytes.resize((dynamic + dynamic_len - layout.end) as usize, 0);

        let code_at = layout.end + (bytes.len() as u64).next_multiple_of(PAGE);
        let mut ranges = stub::read_only_ranges(merge.closure, layout);
        ranges.push(layout.end..code_at);
        let own = Value::Image(code_at);
        let before = arrays.preinit.iter();
        let functions = before.chain([&own]).chain(&arrays.init).chain(&arrays.fini);
        for (number, value) in functions.enumerate() {
            values.places.insert(preinit + 8 * number as u64, *value);
        }
        Writable {
            bytes,
            stub: stub::code(code_at, &ranges),
            preinit,
            init,
            init_len,
            fini,
            dynamic,
            dynamic_len,
        }
    }
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
