//! Functions of the kernel by name: how often they are called, how long they take, who calls them.
//!
//! [`Functions::attach`] puts a program at the entry and one at the exit of each (fentry, fexit),
//! [`Functions::detach`] takes them back, [`Functions::read`] tells what they counted. Many kernels do
//! not allow it; [`support::probe`] asks.
mod error;
mod names;
mod programs;
pub mod spin_locks;
pub mod support;
mod wait;

pub use error::FunctionsError;
pub(crate) use error::REQUIREMENTS;
pub use programs::{Callers, FunctionCalls, Functions, MAX_FUNCTIONS};
pub use wait::{Waited, wait};
