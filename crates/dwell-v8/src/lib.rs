//! V8 engines, as in Node.js: which function of JavaScript a frame executes, and what it is called. An engine needs no option
//! for it and is only read. Where fields lie it states itself, for debuggers: numbers that are called `v8dbg_…` (made by V8's
//! `gen-postmortem-metadata.py`).
//!
//! Everything is read from a running process: it may change meanwhile, or be hostile. Nothing is believed but within
//! limits, and what cannot be read is unknown.
#![forbid(unsafe_code)]

mod engine;
mod function;
mod layout;
mod lines;
mod objects;
mod scope;
mod text;

pub use engine::V8;
pub use function::Function;
pub use layout::{NoV8, is_wanted};
