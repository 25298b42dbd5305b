//! Runs the programs of a script: in the kernel, or inside the process that they are about.
//!
//! [`probes`] finds what a script's descriptions mean on this machine, [`Session`] makes a program for each kind of
//! probe and list of clauses, loads and attaches them, and gives back what they recorded. With `dwell-collector`
//! alone in naming libbpf. Knows nothing of D's syntax, nor of what records look like when they are printed.

mod batches;
mod enabled;
mod engines;
mod error;
mod inside;
mod kernel;
mod kernel_types;
mod links;
mod maps;
mod placing;
pub mod probes;
mod programs;
mod ring;
mod session;
mod split;
mod stacks;
mod thread_time;

pub use error::TraceError;
pub use maps::Drops;
pub use session::{Engine, Session, Settings};
