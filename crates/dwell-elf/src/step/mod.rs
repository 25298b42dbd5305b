//! The reference unwinder: every register, every DWARF expression.
//!
//! It is what the compact rows are checked against, and what finishes the stacks that the in-kernel
//! unwinder could not: it needs only a register set and something that reads the stack, be it the
//! memory of a stopped thread or a copy.
mod expression;
mod info;
mod registers;
mod stepper;

pub use crate::table_step::Frame;
pub use info::UnwindInfo;
pub use registers::Registers;
pub use stepper::{Compiled, Module, Stepper};
