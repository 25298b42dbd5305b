//! Counts what a running program does with its locks, exactly, by hooks inside of it.
//!
//! `libc` finds the functions and what is known of their layout; `hooks` says which of them get which
//! hook, `inside` where glibc has places without a name, `wanted` puts them together; [`Locks`] attaches, reads and detaches; `totals` adds up what the agent has counted; `events` reads
//! what it tells of contended operations, with times by `clock`, and [`blocks`] makes blocks of them.
//!
//! # What is counted
//! Acquisitions of pthread mutexes (C++ `std::mutex` and C11 `mtx_t` are such), read-write locks, spin
//! locks and semaphores, waits for conditions and at barriers, from the instant of attaching on: those
//! that return after it and began after it. A mutex acquired anew after a wait for a condition counts
//! again. Children of fork count into memory of
//! their own, which nobody reads.
pub mod blocks;
mod clock;
mod events;
mod hooks;
mod inside;
mod libc;
mod locks;
mod totals;
mod wanted;

pub use dwell_patch::Place;
pub use dwell_patch::process::{AtEntry, Held, Pause, Restored};
pub use events::Drained;
pub use libc::Libc;
pub use locks::{Locks, LocksError, Missed};
pub use totals::{Kind, LockTotal, MutexType, Snapshot};
