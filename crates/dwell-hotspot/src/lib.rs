//! HotSpot JVMs: where the code is that they compiled, how large its frames are, and which Java methods it is of, by
//! the tables that each `libjvm.so` carries for debuggers (`vmStructs.hpp`: names, types and offsets of the fields that
//! matter). A JVM needs no option for it and is only read.
//!
//! Everything is read from a running process: it may change meanwhile, or be hostile. Nothing is believed but within
//! limits, and what cannot be read is unknown.
#![forbid(unsafe_code)]

mod heap;
mod layout;
mod lines;
mod names;
mod packed;
mod rows;
mod scopes;
mod structs;

pub use heap::{Blob, BlobKind};
pub use layout::{Jvm, NoJvm};
pub use names::Method;
pub use rows::code_row;

/// What begins the names of the symbols that lead to the tables.
pub const SYMBOLS: &str = "gHotSpotVM";
