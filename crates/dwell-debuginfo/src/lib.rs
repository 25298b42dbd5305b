//! What a D script may name beyond itself: types, variables, enumerators and functions' arguments of a process, by
//! its files' DWARF and symbol tables, and of the kernel, by its BTF.
//!
//! Knows nothing of probes, programs and printing. Everything is read when it is first asked for.
#![forbid(unsafe_code)]

mod btf;
mod dwarf;
mod files;
mod kernel_symbols;
mod known;
mod passing;
mod process;
mod symbols;
mod thread_local;

pub use known::Known;
pub use process::Process;
