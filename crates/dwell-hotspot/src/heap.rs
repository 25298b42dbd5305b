//! Blobs: the pieces that a code heap is made of.
use crate::layout::Jvm;
use dwell_abi::events::CodeHeap;
use dwell_maps::Memory;

/// Each leads back by up to 254 segments; `SEGMENT_HOPS` of `unwind.h`.
const HOPS: usize = 16;
const FREE_SEGMENT: u8 = 0xff;

/// A piece of a code heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its address.
    pub address: u64,
    /// What it is.
    pub kind: BlobKind,
}

/// What a blob is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobKind {
    /// A compiled method.
    Method {
        /// The address of HotSpot's `Method`.
        method: u64,
        /// What tells its code from other code that was or will be there.
        compile_id: u32,
    },
    /// Anything else, by HotSpot's name.
    Stub(String),
}

/// The address of the blob that holds an actual address, as `CodeHeap::find_block_for` finds it.
pub(crate) fn find(memory: &impl Memory, heap: &CodeHeap, address: u64) -> Option<u64> {
    let mut segment = address.checked_sub(heap.low)? >> heap.segment_shift;
    for _ in 0..HOPS {
        let [back] = memory.bytes(heap.segment_map.checked_add(segment)?)?;
        match back {
            FREE_SEGMENT => return None,
            0 => {
                let block = heap.low.checked_add(segment << heap.segment_shift)?;
                return block.checked_add(heap.header.into());
            }
            _ => segment = segment.checked_sub(back.into())?,
        }
    }
    None
}

impl Jvm {
    /// The blob that holds an actual address in a heap.
    pub fn blob(&self, memory: &impl Memory, heap: &CodeHeap, address: u64) -> Option<Blob> {
        let blob = find(memory, heap, address)?;
        let size = memory.int(blob.checked_add(self.blob.size)?)?;
        let end = blob.checked_add(u64::try_from(size).ok()?)?;
        let name = memory.string(memory.word(blob.checked_add(self.blob.name)?)?)?;
        let kind = match name.as_str() {
            "nmethod" | "native nmethod" => BlobKind::Method {
                method: memory.word(blob.checked_add(self.blob.method)?)?,
                compile_id: memory.int(blob.checked_add(self.blob.compile_id.into())?)? as u32,
            },
            _ => BlobKind::Stub(name),
        };
        (address < end).then_some(Blob {
            address: blob,
            kind,
        })
    }
}
