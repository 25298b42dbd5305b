//! Facts in an ELF file: unwind rows, symbols, notes, debug links.
//!
//! Bytes in, facts out. Nothing here opens a file, knows of processes, or contains unsafe code;
//! every parser takes hostile bytes and answers with an [`ElfError`], in bounded time and memory.
//!
//! - [`ElfFile`] reads headers, segments, sections, notes and symbols of an x86-64 ELF file, with or
//!   without section headers, from disk or (the vDSO) from memory.
//! - [`ElfFile::static_probes`] lists the places that a program's author marked for tracers.
//! - [`unwind::compile`] turns the call frame information into the compact rows that the in-kernel
//!   unwinder searches.
//! - [`table_step`] steps with those rows alone, exactly as the kernel side does.
//! - [`step::Stepper`] is the reference: every register, every DWARF expression.
//!
//! Two kinds of address occur. A *stated* address is the one written in the file (`p_vaddr`,
//! `st_value`); an *actual* address is where the loader put it. `actual = stated + bias`.
#![forbid(unsafe_code)]

mod error;
mod file;
mod notes;
mod sections;
pub mod static_probes;
pub mod step;
mod symbols;
pub mod table_step;
pub mod unwind;

pub use error::ElfError;
pub use file::{DebugLink, ElfFile, ElfKind, MAX_SEGMENTS, Segment};
pub use sections::Section;
pub use symbols::{Symbol, Symbols};

/// Folders that the dynamic loader looks into when nothing else names a library (Debian's, then
/// others').
pub const LOADER_FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
