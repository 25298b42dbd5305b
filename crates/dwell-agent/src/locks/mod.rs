//! Counts what a program does with its locks.
//!
//! `entries` is what runs at the entry of a hooked function; `calls` follows the calls that go on into
//! the real one until they return; `release` is what a release that somebody may wait for comes to;
//! `made` notes who made a lock; `counters` is where counts are, `events` where the events of contended operations are,
//! `held` what threads hold after a wait; `confined` is about programs that forbid themselves system calls; `words` knows the locks of the libcs; `operation` knows what results mean.
mod calls;
mod confined;
mod counters;
mod entries;
mod events;
mod held;
pub mod layout;
mod made;
pub mod operation;
mod release;
mod words;
