//! What programs of scripts call when they run inside the target.
//!
//! The operations are those of `dwell_abi::program::operation`, each with the arguments of its registers 1 to 5 and
//! the address of the [`layout::State`] as a sixth. All that they keep lies in that state, which dwell shares.
//! Nothing waits for a lock: a signal handler may fire a probe in the middle of any of this, and a thread may be
//! stopped there for ever.
pub mod layout;
mod pages;
mod read;
mod records;
mod system;
pub mod tables;
mod threads;
mod time;
