//! A JVM whose tables are right and whose everything else is hostile.
#![no_main]
use dwell_hotspot::{BlobKind, Jvm, code_row};
use dwell_maps::Memory;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/dwell-hotspot/tests/made/mod.rs"]
mod made;

fuzz_target!(|data: &[u8]| {
    let Some((version, data)) = data.split_first() else {
        return;
    };
    if data.is_empty() {
        return;
    }
    // Whatever an address is, something is there.
    let at = |address: u64| data.get(address as usize % data.len()).copied();
    let memory = made::Made::new(u32::from(version % 32), at);
    let Some(jvm) = memory.jvm() else {
        return;
    };
    look(&jvm, &memory);
});

fn look(jvm: &Jvm, memory: &impl Memory) {
    for (range, heap) in jvm.code_heaps(memory) {
        for address in [range.start, range.start / 2 + range.end / 2, range.end - 1] {
            for returned in [false, true] {
                code_row(memory, &heap, address, returned);
            }
            let Some(blob) = jvm.blob(memory, &heap, address) else {
                continue;
            };
            if let BlobKind::Method { method, .. } = blob.kind {
                jvm.methods_at(memory, blob.address, method, address);
            }
        }
    }
    let method = memory.word(0).unwrap_or(0);
    jvm.method_at(memory, method, Some(method as u32));
    jvm.bytecode(memory, method, method);
    let class = jvm.class_of(memory, method).unwrap_or(0);
    jvm.class_name(memory, class);
}
