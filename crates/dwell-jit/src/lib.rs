//! Programs of scripts as x86-64 code.
//!
//! What a program means is said by `dwell_abi::program::interpret`; the code that [`translate`] makes does the same
//! without checking anything, so it must only be given what our own code generator made. It uses general registers
//! only, and its size does not depend on the addresses it is given, so it can be made once to see how large it is.
//!
//! Registers 0 to 5 are where C functions have their result and their arguments, so that an operation is a plain
//! call: `operation(r1, r2, r3, r4, r5, state)`. Registers 6 to 9 are such as calls keep. Register 10, the end of
//! the stack, and register 6, where it has the context all the time, are distances from the stack pointer.
#![forbid(unsafe_code)]

mod encode;
mod facts;
mod frame;
mod idiom;
mod inlined;
mod translate;

pub use frame::{Frame, Gate};
pub use inlined::{Nearby, Sums};
pub use translate::{Links, TranslateError, translate};
