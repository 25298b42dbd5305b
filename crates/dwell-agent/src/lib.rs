//! What runs inside a target, and what both sides agree on.
//!
//! The agent is free-standing: no libc, no allocator, no SSE, no data of its own, no relocations, so
//! it can be mapped anywhere in any process. [`CODE`] is the agent as bytes; `layout` is how dwell
//! tells it what to do.
#![cfg_attr(not(test), no_std)]

#[allow(dead_code)] // compiled here for its tests; what runs is in `CODE`
mod count;
pub mod layout;
#[allow(dead_code)] // as above
pub mod locks;
#[allow(dead_code)] // as above
pub mod script;
#[allow(dead_code)] // as above
mod system;

/// The agent's code, position-independent.
pub const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blob.bin"));

include!(concat!(env!("OUT_DIR"), "/blob_entries.rs"));

/// The part of [`CODE`] from this offset that belongs where it is used: it may stand anywhere, with its jumps to elsewhere
/// in the agent made anew. Empty where there is none.
pub fn copied(offset: u64) -> &'static [u8] {
    let found = COPIED.binary_search_by_key(&offset, |&(start, _)| start);
    let len = found.map_or(0, |at| COPIED[at].1 as usize);
    &CODE[offset as usize..][..len]
}
