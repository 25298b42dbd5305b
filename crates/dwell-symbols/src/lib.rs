//! Addresses to names: debug files, JIT maps, the kernel's symbols.
//!
//! [`Symbolizer`] names *stated* addresses of files ([`Symbolizer::module`]), addresses of the
//! kernel ([`Symbolizer::kernel`]) and of code that a JIT compiler wrote ([`Symbolizer::jit`]).
//! Every answer is a chain of functions, the innermost inlined one first; an empty chain means
//! that nobody knows, and [`fallback_name`] then tells the place in a fixed form.
//!
//! Where names come from, in this order: DWARF (in the file, or in a separate debug file found by
//! build id, by `.gnu_debuglink` or at a debuginfod server), the symbol tables (`.symtab`,
//! `.gnu_debugdata`, `.dynsym`), the stubs of the procedure linkage table. A function that none of them names is
//! called by the place where it begins (`[python3.11+0x574e50]`), as far as call frame information tells it.
//! Variables ([`Symbolizer::variables`]) come from symbol tables alone.
//!
//! Two rules hold everywhere:
//! - **No name is better than a wrong one.** A file whose build id differs from the recorded one
//!   is not used, nor is a debug file whose build id or checksum does not fit.
//! - **Memory stays small.** One module is open at a time, its files are mapped and not read,
//!   tables are streamed past the sorted addresses instead of being kept, and DWARF is decoded
//!   one compilation unit at a time. This is why DWARF is walked here with `gimli` and not
//!   through a symbolizer library: those keep every unit that was touched, and recurse as deep
//!   as a hostile file nests its entries.
#![deny(unsafe_code)]

mod certificates;
mod debug_data;
mod debug_files;
mod debuginfod;
mod demangle;
mod dwarf;
mod elf;
mod files;
mod jit;
mod jitdump;
mod kernel;
mod minidebug;
mod notes;
mod package;
mod perf_map;
mod plt;
mod queries;
mod symbolizer;
mod symtab;
mod variables;

pub use certificates::certificates;
pub use debug_data::DebugData;
pub use debug_files::debug_file;
pub use debuginfod::Debuginfod;
pub use demangle::demangle;
pub use jit::JitProcess;
pub use jitdump::{JitDumpError, name_from_jitdump};
pub use package::debug_package;
pub use perf_map::name_from_perf_map;
pub use symbolizer::{Module, Options, Symbol, Symbolizer, fallback_name};
pub use variables::Variable;
