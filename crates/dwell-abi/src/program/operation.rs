//! The operations that programs call. Numbers, arguments (registers 1 to 5) and results (register 0) are those of
//! the kernel's helper functions. Addresses may be of the stack, of memory stores or of values found in a store.

/// `(table, key address)` → address of the value, 0 if there is none. Of sums: that of this processor.
pub const LOOKUP: u32 = 1;
/// `(table, key address, value address, flags)` → 0, or negative: no room, or there already (with [`IF_NEW`]).
pub const UPDATE: u32 = 2;
/// `(table, key address)` → 0, or negative if it was not there.
pub const DELETE: u32 = 3;
/// `()` → ns of CLOCK_MONOTONIC.
pub const MONOTONIC_TIME: u32 = 5;
/// `()` → a number of 32 bits.
pub const RANDOM: u32 = 7;
/// `()` → the processor.
pub const PROCESSOR: u32 = 8;
/// `()` → process << 32 | thread.
pub const IDS: u32 = 14;
/// `()` → group << 32 | user.
pub const USER: u32 = 15;
/// `(address, 16)` → 0: the thread's name, padded with zeros.
pub const NAME: u32 = 16;
/// `()` → the address of the thread's `task_struct`.
pub const TASK: u32 = 35;
/// `(to, from, size)` → 0, or negative: writes the target's memory.
pub const WRITE_USER: u32 = 36;
/// `(context, address, bytes, 0)` → bytes written: return addresses of the kernel's side, innermost first.
pub const STACK: u32 = 67;
/// `(signal)` → 0: to the process that runs.
pub const SIGNAL: u32 = 109;
/// `(to, size, from)` → 0, or negative if the target's memory cannot be read.
pub const READ_USER: u32 = 112;
/// `(to, size, from)` → 0, or negative if the kernel's (or our) memory cannot be read.
pub const READ_KERNEL: u32 = 113;
/// `(to, size, from)` → bytes up to and with the zero, or negative; `to` always ends with a zero.
pub const READ_USER_STRING: u32 = 114;
/// As [`READ_USER_STRING`] for the kernel's memory and ours.
pub const READ_KERNEL_STRING: u32 = 115;
/// `(records, address, size, flags)` → 0, or negative if there is no room. The flags: [`NO_WAKEUP`] or
/// [`FORCE_WAKEUP`].
pub const RECORD: u32 = 130;
/// `(thread store, thread, 0, flags)` → the address of the thread's memory, or 0: with [`CREATE`] only if there is
/// no room.
pub const THREAD_MEMORY: u32 = 156;
/// `()` → the thread, as [`THREAD_MEMORY`] takes it.
pub const THREAD: u32 = 158;
/// `(context)` → the number that was given when the probe was attached.
pub const COOKIE: u32 = 174;
/// `(thread)` → the address of its user registers.
pub const USER_REGISTERS: u32 = 175;
/// `()` → ns of CLOCK_TAI: the wall clock without leap seconds.
pub const WALL_TIME: u32 = 208;

/// `(address, bytes)` → bytes of the frames written: the user's side, innermost first, to memory that is zero. Return
/// addresses are marked by `RETURN_BIT`; a word of `STACK_CUT_SHORT` follows where the stack is not whole. The only one
/// that is no helper function: who loads a program into the kernel appends it. Programs that call it have no more
/// than [`USER_STACK_ROOM`] bytes of stack.
pub const USER_STACK: u32 = 1 << 15;
/// Of a program's stack, in bytes, what is left beside that of [`USER_STACK`].
pub const USER_STACK_ROOM: u32 = 192;

/// `()` → ns that the thread has run, counted from no certain time. No helper function does it: who loads a program
/// into the kernel puts instructions in its place, which may use [`THREAD_TIME_ROOM`] bytes of the stack from where the
/// call's `offset` says.
pub const THREAD_TIME: u32 = (1 << 15) + 1;
/// Bytes.
pub const THREAD_TIME_ROOM: u32 = 40;

/// From here on, operations that only programs inside a process have.
pub const INSIDE: u32 = 1 << 16;
/// `(ns)` → 0: spends so much time, half a second at most.
pub const SPEND_TIME: u32 = INSIDE + 1;
/// `(number, four arguments)` → 0: the target is about to make that system call, which may take memory away.
pub const MAPPING_CALL: u32 = INSIDE + 2;

/// A flag of [`UPDATE`].
pub const IF_NEW: i32 = 1;
/// A flag of [`THREAD_MEMORY`].
pub const CREATE: i32 = 1;
/// A flag of [`RECORD`]: the reader looks by itself.
pub const NO_WAKEUP: i32 = 1;
/// A flag of [`RECORD`].
pub const FORCE_WAKEUP: i32 = 2;
