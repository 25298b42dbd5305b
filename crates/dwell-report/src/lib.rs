//! Answers into terminal text, JSON, pictures and other tools' formats.
//!
//! [`Answer::build`] computes what a person is told; [`terminal`] and [`json`] show it. The exports
//! [`folded`], [`svg`], [`pprof`] and [`otlp`] read the weighted stacks themselves, from a
//! [`dwell_analysis::Analysis`]; [`firefox`], [`speedscope`], [`perfetto`] and [`perf_script`] place them in time
//! ([`dwell_analysis::Moments`]), and so does [`page`]. [`diff`] compares recordings. Nothing here opens a file or knows
//! a kernel.
#![forbid(unsafe_code)]

pub mod answer;
pub mod diff;
pub mod firefox;
pub mod folded;
mod frames;
pub mod functions;
pub mod human;
pub mod json;
pub mod live;
pub mod missed;
pub mod otlp;
pub mod page;
pub mod palette;
pub mod perf_script;
pub mod perfetto;
mod plumbing;
pub mod pprof;
mod profile_rows;
pub mod shorten;
pub mod speedscope;
pub mod spin_locks;
pub mod svg;
pub mod terminal;
mod tree;
pub mod whatif;

pub use answer::{Answer, FindingsAnswer, LockTimeline, LocksAnswer, MemoryAnswer, Options};
pub use diff::DiffAnswer;
pub use dwell_analysis::Analysis;
pub use profile_rows::profile_rows;
