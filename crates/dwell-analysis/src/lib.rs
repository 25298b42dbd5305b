//! A recording into answers: weighted stacks, sums by state, wakers, idle pools and losses.
//!
//! Everything here is a pure function of [`dwell_recording::tables::Tables`]. [`Analysis::of`] joins
//! the tables once; [`hottest`], [`wakers`], [`chains`] and [`losses`] read it. The rules live beside
//! the code that follows them: scaling in [`profile`], sampling in [`sampling`], the weights of single
//! waits in [`waits`], what counts as idle in [`idle`].
//!
//! Damaged recordings give poorer answers, never a panic: rows that point nowhere are counted as lost.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod apportion;
pub mod chains;
pub mod groups;
pub mod hottest;
pub mod idle;
pub mod index;
pub mod locks;
pub mod losses;
pub mod memory;
pub mod moments;
pub mod names;
pub mod profile;
pub mod sampling;
pub mod spinning;
pub mod state;
pub mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod waits;
pub mod wakers;

pub use analysis::Analysis;
pub use groups::{Group, Groups, Label};
pub use moments::{Moment, Moments};
pub use profile::{Entry, Profile};
pub use state::{Reason, State, Times};
