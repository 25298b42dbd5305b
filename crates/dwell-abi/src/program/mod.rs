//! Programs of scripts: instructions of eBPF, what they call, and the memory they work on.
//!
//! The instructions are those of Linux' eBPF in their standard encoding. They call *operations*, which have the
//! numbers of the kernel's helper functions: the kernel runs a program as it stands, once the numbers of its
//! [`Store`]s are replaced by descriptors of maps. Another engine gives the same operations itself.
//! [`interpret`] is the oracle for all of them: slow, pure, every access checked, every run bounded.

pub mod instruction;
pub mod interpret;
pub mod memory;
pub mod model;
pub mod operation;

use alloc::vec::Vec;
pub use instruction::Instruction;

/// The registers: 0 returns, 1 to 5 are arguments and are lost in a call, 6 to 9 stay, 10 is the end of the stack.
pub const REGISTERS: usize = 11;
/// Bytes of the stack below register 10.
pub const STACK_SIZE: usize = 512;

/// What programs keep between two runs; their instructions name a store by its place in the list of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Memory at a fixed address, which `load_address` gives.
    Memory {
        /// Bytes.
        size: u32,
    },
    /// Memory of each thread, zero at first, gone with the thread. See [`operation::THREAD_MEMORY`].
    Thread {
        /// Bytes.
        size: u32,
    },
    /// Values by key.
    Table {
        /// Bytes of a key.
        key: u32,
        /// Bytes of a value.
        value: u32,
        /// Most entries; more are refused.
        entries: u32,
    },
    /// As a table, but with a value for each processor: the sum of all is what counts.
    Sums {
        /// Bytes of a key.
        key: u32,
        /// Bytes of a value.
        value: u32,
        /// Most entries; more are refused.
        entries: u32,
    },
    /// Where records go. See [`operation::RECORD`].
    Records,
}

/// A program for the probes of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Its instructions, ending with `exit`.
    pub code: Vec<Instruction>,
}
