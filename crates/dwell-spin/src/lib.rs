//! Tells code that waits on a processor from code that works: which places of a function lie in a
//! loop that only re-reads a lock word.
//!
//! Bytes in, answers out: nothing here opens a file or knows of processes, and hostile bytes cost
//! bounded time and memory.
//!
//! # What counts as spinning
//! A place spins when some loop around it, the innermost first, does nothing but wait:
//!
//! - **Nothing is done.** No store but to the function's own stack. Atomic operations are allowed as
//!   *attempts*: an exchange, compare-exchange or test-and-set whose new value is the same every time,
//!   and whose outcome is looked at. Attempts of any other kind (`lock dec`, a reader's count) are
//!   allowed where a loop inside, or turns that pause without them, wait for the same word. Calls are
//!   allowed to small functions that do no more than that, and to `sched_yield`.
//! - **Nothing is computed.** What a turn hands to the next may be a counter (plus, minus, shifts by
//!   constants) or a value just read. A sum, a hash, a pointer that walks is work. Every value that
//!   is read must decide a branch, an address or an attempt; otherwise it is carried out of the loop,
//!   as a sequence lock's reader does.
//! - **Somebody else ends it.** At least one way out depends on memory and not on a counter; or the
//!   loop has a `pause`, which nothing but a wait has a use for.
//! - **The memory is the same every turn**: addresses depend on nothing that the loop counts, though
//!   they may be read from memory (`node->next->locked`).
//!
//! # How it is found
//! 1. The function is decoded from its first to its last byte, with its direct branches as edges
//!    ([`Function`]). Compilers put no data between instructions.
//! 2. The loops around a place are the natural loops of the edges `tail → header` near it: all that
//!    reaches the tail without passing the header. They are single-entry, that is the header dominates
//!    them, exactly if neither the function's entry nor code that only an indirect jump leads to is
//!    among them; so no dominator tree is needed. Each back edge is a loop of its own: one that only
//!    waits is told from one that works and begins at the same instruction.
//! 3. The body is executed on *dependencies* in place of numbers, until nothing changes: each register
//!    and stack slot knows which reads and which values of the turn before it depends on, and whether
//!    more than counting was done. Calls are followed to a small depth.
//!
//! # What cannot be told
//! - An attempt that succeeds at once and one in vain are the same instruction: in a bare
//!   test-and-set loop the cost of an uncontended lock counts as spinning too. A consumer that finds
//!   its queue empty looks like one that waits for a lock, and is one that waits.
//! - Loops with an indirect jump, or a call through a register, are not looked at: unoptimised
//!   `std::atomic` of clang chooses the memory order through a table, and Rust's `yield_now` may be
//!   called so. Nor are functions of more than a mebibyte, and code made at run time.
//! - An unoptimised `fetch_or` is a loop of its own around a compare-exchange, which is taken for the
//!   update that it is.
#![forbid(unsafe_code)]

mod answer;
mod depends;
mod effects;
mod function;
mod judge;
pub mod kernel;
mod loops;
mod machine;
mod module;
mod state;

pub use answer::{NotSpinning, Spinning};
pub use function::Function;
pub use judge::{Callee, Callees, NoCallees, Target, judge};
pub use module::Module;
