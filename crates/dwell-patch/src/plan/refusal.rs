//! Why a place cannot be patched.
use thiserror::Error;

/// Why a place cannot be patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing in the file begins there.
    #[error("no function begins at this address")]
    NoFunction,
    /// The symbol is a resolver of an indirect function; what it resolves to has another address.
    #[error("it is an indirect function (IFUNC): name the variant that was chosen")]
    Indirect,
    /// The Go runtime moves stacks and preempts by signals at known addresses only.
    #[error("it is Go code, whose runtime must know every address its threads stand at")]
    Go,
    /// Bytes that are no instruction.
    #[error("its code cannot be decoded")]
    Undecodable,
    /// The offset lies within an instruction, or outside of the function.
    #[error("no instruction begins at this offset")]
    NotAnInstruction,
    /// There are fewer than 5 bytes between the place and the next thing that may not be moved.
    #[error("it is too short for a 5-byte jump")]
    TooShort,
    /// A killed dwell could leave half a jump: bytes on two pages are not written at once.
    #[error("the 5 bytes for a jump cross a page boundary")]
    CrossesPage,
    /// Something may jump between the first and the last byte that would be overwritten.
    #[error("a jump leads into the bytes to be overwritten")]
    JumpInto,
    /// Its first instruction is also the head of a loop: passes would be counted as calls.
    #[error("its entry is also the head of a loop")]
    LoopsToEntry,
    /// A call before the end of the window: its return address would lie in the overwritten bytes.
    #[error("a call stands among the bytes to be overwritten")]
    CallInside,
    /// An instruction that only works where it stands (`syscall`, `int3`, `xbegin`, …).
    #[error("an instruction among the bytes to be overwritten cannot be moved")]
    Immovable,
    /// The function has no place where it returns.
    #[error("it never returns")]
    NoReturn,
    /// The compiler has put a part of it elsewhere, from where it comes back.
    #[error("a part of it lies elsewhere")]
    Split,
    /// A conditional jump out of the function.
    #[error("it leaves by a conditional jump")]
    ConditionalTail,
    /// A jump whose destination is only known when it runs, which may stay within the function.
    #[error("it has an indirect jump that may or may not leave it")]
    IndirectJump,
    /// The window lies in a restartable sequence.
    #[error("it is part of a restartable sequence (rseq)")]
    Restartable,
    /// It goes on in another file, where its result cannot be seen.
    #[error("it ends in a function of another file")]
    LeavesFile,
    /// The hook is code that stands in for a function, and was wanted elsewhere than at an entry.
    #[error("such a hook can only be at the entry of a function")]
    NotAnEntry,
    /// No free address space for a stub within 2 GiB.
    #[error("there is no room for a stub within 2 GiB of it")]
    OutOfReach,
    /// What is in memory is not what the file says: another tool may have patched it.
    #[error("its code in memory differs from the file")]
    Changed,
    /// The file was unmapped meanwhile.
    #[error("its file is no longer mapped")]
    Unmapped,
}
