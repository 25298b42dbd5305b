//! Patches the code of running programs so that it passes through code of ours, and takes every patch
//! back.
//!
//! Two halves. [`plan`] is pure: the bytes of an ELF file and the wanted places in, windows (what to
//! overwrite), displaced instructions and refusals out. [`process`] is the other side: it stops the
//! threads of a process, maps an arena for the stubs, writes jumps, and undoes all of it.
//!
//! Nothing here knows what the patches are for: a [`Hook`] is code or a handler of `dwell-agent`.
//!
//! # What a patch must not do
//! - change what the program computes: windows that any jump could enter in the middle are refused;
//! - touch a return address: returns are caught at `ret` instructions and tail jumps;
//! - depend on us: a target whose dwell has died runs on, and the next dwell can restore it.
pub mod plan;
pub mod process;

pub use plan::{Image, Place, Refusal};
pub use process::{Attachment, PatchError, Probe, State, recover};

/// What happens at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Counts in the stub itself: exact and cheap, also after the owner has died.
    Count,
    /// Calls the handler at this offset of [`dwell_agent::CODE`] with all general registers saved.
    Call(u64),
    /// Runs the code at this offset of [`dwell_agent::CODE`] instead of the function, at its entry, from a copy of
    /// [`dwell_agent::copied`] in the stub: every register and the stack are as the caller left them, but for r11, which
    /// holds the address of the arena's link, and r10, which holds where the function itself goes on. The code may
    /// answer the call (`ret`), jump there or pass the end of what is copied, with the arguments as they were. It may change
    /// what any function may change; while it leaves the stack pointer alone it needs no unwind information.
    Inline(u64),
    /// Calls [`process::Programs`] at this distance from their start, with a number pushed before the return
    /// address. They save whatever they change themselves, but for the flags, and leave the stack as it was.
    Program {
        /// Where the program begins.
        code: u64,
        /// What tells it where it was called.
        number: u32,
    },
}
