//! Answers into terminal text, JSON, pictures and other tools' formats.
//!
//! [`Answer::build`] computes what a person is told; [`terminal`] and [`json`] show it. The exports
//! [`folded`], [`svg`] and [`pprof`] read the weighted stacks themselves, from a
//! [`dwell_analysis::Analysis`]. [`diff`] compares recordings. Nothing here opens a file or knows a kernel.
#![forbid(unsafe_code)]

pub mod answer;
pub mod diff;
pub mod folded;
pub mod functions;
pub mod human;
pub mod json;
pub mod live;
pub mod missed;
pub mod palette;
mod plumbing;
pub mod pprof;
pub mod shorten;
pub mod spin_locks;
pub mod svg;
pub mod terminal;
mod tree;
pub mod whatif;

pub use answer::{Answer, FindingsAnswer, LockTimeline, LocksAnswer, MemoryAnswer, Options};
pub use diff::DiffAnswer;
pub use dwell_analysis::Analysis;
