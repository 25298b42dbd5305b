//! CPython interpreters, from 3.8 on: what their threads execute, by the interpreter's own structs. A Python needs no option
//! for it and is only read. Where fields lie, 3.13 and newer say themselves (`_Py_DebugOffsets`, made for this); of 3.8 to
//! 3.12 it is known.
//!
//! Everything is read from a running process: it may change meanwhile, or be hostile. Nothing is believed but within
//! limits, and what cannot be read is unknown.
//!
//! Until 3.9 nothing in a C frame tells which of Python's frames it executes: each C frame of one function
//! ([`Python::executing`]) executes one, and who knows these has to put the two in step.
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
pub const SYMBOLS: [&str; 6] = [
    RUNTIME,
    VERSION,
    CODE_TYPE,
    NEW_IN_3_10,
    NEW_IN_3_8,
    EXECUTING,
];
const RUNTIME: &str = "_PyRuntime";
/// Since 3.11.
const VERSION: &str = "Py_Version";
const CODE_TYPE: &str = "PyCode_Type";
/// Functions that versions before do not have: until 3.10 none states its version, as later ones do.
const NEW_IN_3_10: &str = "PyIter_Send";
const NEW_IN_3_8: &str = "PyCode_NewWithPosOnlyArgs";
/// The function that executes bytecode.
const EXECUTING: &str = "_PyEval_EvalFrameDefault";
