//! CPython interpreters, from 3.11 on: what their threads execute, by the interpreter's own structs. A Python needs no option
//! for it and is only read. Where fields lie, 3.13 and newer say themselves (`_Py_DebugOffsets`, made for this); of 3.11 and
//! 3.12 it is known.
//!
//! Everything is read from a running process: it may change meanwhile, or be hostile. Nothing is believed but within
//! limits, and what cannot be read is unknown.
#![forbid(unsafe_code)]

mod code;
mod frames;
mod interpreter;
mod layout;
mod lines;
mod threads;

pub use code::{Code, Source};
pub use frames::Group;
pub use interpreter::{NoPython, Python};

/// The dynamic symbols that lead to all else.
pub const SYMBOLS: [&str; 3] = [RUNTIME, VERSION, CODE_TYPE];
const RUNTIME: &str = "_PyRuntime";
const VERSION: &str = "Py_Version";
const CODE_TYPE: &str = "PyCode_Type";
