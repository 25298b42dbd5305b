//! Counts what a program does with its locks.
//!
//! `entries` is what runs at the entry of a hooked function; `calls` follows the calls that go on into
//! the real one until they return; `counters` is where counts are; `operation` knows what results mean.
mod calls;
mod counters;
mod entries;
pub mod layout;
pub mod operation;
