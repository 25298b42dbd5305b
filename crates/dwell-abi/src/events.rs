//! Records that the eBPF programs send to user space through the ring, in the order things happened.
//!
//! Times are ns of CLOCK_BOOTTIME, thread and process ids those of the root PID namespace. Every
//! record begins with its `kind`. [`StackRecord`] and [`WaitRecord`] are followed by kernel pcs
//! (leaf first), then user pcs (leaf first, return addresses marked by `RETURN_BIT`); a stack whose `raw_len` is not 0 then carries
//! [`RawRegs`] and `raw_len` bytes of stack from the stack pointer on.
use crate::CEmit;

c_consts! { emit_consts:
    /// [`StackRecord`] of a thread found running.
    pub const RECORD_RUNNING: u32 = 1;
    /// [`WaitRecord`].
    pub const RECORD_WAIT: u32 = 2;
    /// [`StackRecord`] with the user stack of the waits of `tid` that have the numbers `peer` to `seq`; of the coming wait
    /// `seq` if `peer` is 0.
    pub const RECORD_WAIT_STACK: u32 = 3;
    /// [`StackRecord`] of a waker; `seq` and `peer` name the wait it ends.
    pub const RECORD_WAKER: u32 = 4;
    /// [`SiteRecord`].
    pub const RECORD_SITE: u32 = 5;
    /// [`ThreadRecord`].
    pub const RECORD_THREAD: u32 = 6;
    /// [`TaskRecord`] of a new thread or process.
    pub const RECORD_FORK: u32 = 7;
    /// [`TaskRecord`] of an exec.
    pub const RECORD_EXEC: u32 = 8;
    /// [`TaskRecord`]: the thread got a new name.
    pub const RECORD_RENAME: u32 = 9;
    /// [`StackRecord`] with the user stack of a place in the ledger of memory; `sp` is a hash of it.
    pub const RECORD_MEMORY_STACK: u32 = 10;
    /// [`CodeRecord`].
    pub const RECORD_CODE: u32 = 11;

    /// Bit of a user pc that says that it is a return address (user addresses are below 2^57).
    pub const RETURN_BIT: u32 = 63;
    /// Bit of a word among user pcs that says that it is no pc: an interpreter, HotSpot's or CPython's, executes a method there,
    /// or code. The bits below hold the index of its bytecode, those from `BYTECODE_SHIFT` down its address. With `RETURN_BIT` it
    /// is the [`identity`] of the code before.
    pub const METHOD_BIT: u32 = 62;
    /// First bit of the index of a bytecode, and of what tells compiled code from other code that is there at other times.
    pub const BYTECODE_SHIFT: u32 = 47;
    /// Bit of a user pc that says that a JVM compiled the code: the bits below hold the last ones of its number.
    pub const COMPILED_BIT: u32 = 61;
    /// Those bits.
    pub const COMPILED_MASK: u32 = 0x3fff;
    /// The index where it is not known, or larger.
    pub const NO_BYTECODE: u32 = 0x7fff;
    /// Upper half of the last word of a script's user stack that is not whole; the lower one says why (`StackEnd`).
    pub const STACK_CUT_SHORT: u32 = 0xffff_ffff;
    /// Most kernel frames in a record.
    pub const MAX_KERNEL_FRAMES: u32 = 64;
    /// Most user frames in a record; a recursion 1 000 deep fits with its callers.
    pub const MAX_USER_FRAMES: u32 = 1536;
    /// Most frames of a Python that are told apart from the C frames that execute them, the innermost ones: those take 2 words
    /// each, and 2 or more C frames.
    pub const MAX_TOLD_APART: u32 = 300;
    /// Most bytes of stack copied for user space to unwind: four pages hold nearly every stack that
    /// meets a rule the in-kernel unwinder lacks, and a copy costs about 0.4 µs.
    pub const RAW_BYTES: u32 = 32768;
    /// Sites a thread keeps sums for at the same time.
    pub const SITE_SLOTS: u32 = 16;

    /// `WaitRecord::flags`: taken by the duration rule; its weight is duration / inclusion probability.
    pub const WAIT_SAMPLED: u32 = 1;
    /// `WaitRecord::flags`: taken because its site had no stack yet; weight 0.
    pub const WAIT_FIRST: u32 = 2;
    /// `WaitRecord::flags`: its user stack follows in a `RECORD_WAIT_STACK`.
    pub const WAIT_STACK_FOLLOWS: u32 = 4;
    /// `WaitRecord::flags`: was waiting when the recording began; `start` is when that was.
    pub const WAIT_CUT_AT_START: u32 = 8;
    /// `WaitRecord::flags`: a signal was there for the thread when a futex wait ended.
    pub const WAIT_SIGNALLED: u32 = 16;

    /// `waker_kind`: nobody is known.
    pub const WAKER_NONE: u8 = 0;
    /// `waker_kind`: a thread.
    pub const WAKER_TASK: u8 = 1;
    /// `waker_kind`: an interrupt, whatever thread it interrupted.
    pub const WAKER_IRQ: u8 = 2;

    /// `state` of a thread: on a processor.
    pub const STATE_RUNNING: u8 = 0;
    /// `state` of a thread: wants a processor, has none.
    pub const STATE_RUNNABLE: u8 = 1;
    /// `state` of a thread: asleep.
    pub const STATE_BLOCKED: u8 = 2;

    /// `fd_kind`: not a file system call, or not looked at.
    pub const FD_NONE: u8 = 0;
    /// `fd_kind`: regular file, directory or block device.
    pub const FD_FILE: u8 = 1;
    /// `fd_kind`: socket.
    pub const FD_SOCKET: u8 = 2;
    /// `fd_kind`: pipe or FIFO.
    pub const FD_PIPE: u8 = 3;
    /// `fd_kind`: character device (terminal).
    pub const FD_CHAR: u8 = 4;
    /// `fd_kind`: anonymous inode (eventfd, timerfd, epoll, …).
    pub const FD_ANON: u8 = 5;

    /// `SiteRecord::flags`, `WaitRecord::site_flags`: in_iowait was set.
    pub const SITE_IOWAIT: u8 = 1;
    /// Uninterruptible sleep.
    pub const SITE_UNINTERRUPTIBLE: u8 = 2;
    /// Stopped or traced.
    pub const SITE_STOPPED: u8 = 4;
    /// Preempted or yielded: it did not sleep.
    pub const SITE_PREEMPTED: u8 = 8;
    /// A kernel thread: `nr` and `ip` mean nothing.
    pub const SITE_KTHREAD: u8 = 16;
    /// Uninterruptible, but for what kills the process: so it sleeps in a page fault, and seldom elsewhere.
    pub const SITE_KILLABLE: u8 = 32;

    /// `operation` of a site or a wait: it waits on a futex. 0 for anything else.
    pub const FUTEX_CALL: u32 = 0x8000;
    /// `operation`: the wait has a timeout.
    pub const FUTEX_TIMED: u32 = 0x200;
    /// `operation`: the futex is private to its process, as in the kernel's `FUTEX_PRIVATE_FLAG`.
    pub const FUTEX_PRIVATE: u32 = 0x80;
    /// `operation`: the bits that tell the command: one of futex(2), or one of the next two.
    pub const FUTEX_COMMAND: u32 = 0x7f;
    /// `operation`: futex_waitv(2).
    pub const FUTEX_WAITV: u32 = 0x40;
    /// `operation`: futex_wait(2).
    pub const FUTEX_WAIT2: u32 = 0x41;

    /// Index of a counter in the `counters` map: records made, by kind (index = kind).
    pub const COUNTER_PRODUCED: u32 = 0;
    /// Records that did not fit the ring, by kind (index = 16 + kind).
    pub const COUNTER_LOST: u32 = 16;
    /// Samples not taken since all scratch buffers of the processor, or all places for works of threads, were in use.
    pub const COUNTER_NO_SCRATCH: u32 = 32;
    /// Threads that could not be followed since the kernel had no memory for their state.
    pub const COUNTER_NO_STORAGE: u32 = 34;
    /// Wall-clock interrupts that hit a thread of the target.
    pub const COUNTER_TICKS: u32 = 35;
    /// First-sight stacks left out by the rate limit.
    pub const COUNTER_FIRST_SKIPPED: u32 = 36;
    /// Switches of followed threads that no program saw; their sums were rebuilt from the kernel's.
    pub const COUNTER_NOT_SEEN: u32 = 37;
    /// Sleeps of followed threads whose waking no program saw: who ended them is not known.
    pub const COUNTER_WAKING_NOT_SEEN: u32 = 38;
    /// Waits that were long enough to be kept one by one, but of which there were too many.
    pub const COUNTER_PASSED_OVER: u32 = 39;
    /// Number of counters.
    pub const COUNTERS: u32 = 40;
}

c_struct! {
    /// A stack, taken while running or owed by a wait.
    pub struct StackRecord {
        /// `RECORD_RUNNING`, `RECORD_WAIT_STACK` or `RECORD_WAKER`.
        pub kind: u32,
        /// Processor.
        pub cpu: u32,
        /// When.
        pub time: u64,
        /// `RECORD_WAIT_STACK`: the user stack pointer at the leaf. `RECORD_WAKER`: a hash of where it stands, and in its lower half
        /// of what it wakes others from.
        pub sp: u64,
        /// Thread.
        pub tid: u32,
        /// Process.
        pub tgid: u32,
        /// Number of the wait (of `peer` for a waker).
        pub seq: u32,
        /// For a waker: the thread it wakes. `RECORD_WAIT_STACK`: number of the first wait.
        pub peer: u32,
        /// Bytes of raw stack after the pcs.
        pub raw_len: u32,
        /// Kernel pcs that follow.
        pub n_kernel: u16,
        /// User pcs that follow.
        pub n_user: u16,
        /// A `StackEnd`.
        pub end: u8,
        /// For a waker: `WAKER_TASK` or `WAKER_IRQ` as far as the kernel side can tell.
        pub waker_kind: u8,
        /// `RECORD_RUNNING`: the kernel pcs begin at what the clock's interrupt came upon (0: at the interrupt).
        pub below_interrupt: u8,
        /// Zero.
        pub pad: [u8; 5],
        /// Name of the thread.
        pub comm: [u8; 16],
    }
}

c_struct! {
    /// One stay off the processor.
    pub struct WaitRecord {
        /// `RECORD_WAIT`.
        pub kind: u32,
        /// The processor it came back on.
        pub cpu: u32,
        /// When it left the processor.
        pub start: u64,
        /// When it was woken; equals `start` for a preemption.
        pub wake: u64,
        /// When it got a processor again.
        pub end: u64,
        /// User pc of the system call, 0 for a preemption.
        pub ip: u64,
        /// User stack pointer, 0 for a preemption.
        pub sp: u64,
        /// First argument of the system call; of futex_waitv(2) the address of its first word.
        pub arg0: u64,
        /// Where a waker stands whose stack was passed over, as the `sp` of its stacks; else 0.
        pub waker_place: u64,
        /// Thread.
        pub tid: u32,
        /// Process.
        pub tgid: u32,
        /// Its number in the thread: the `seq` of its stack and its waker's.
        pub wait: u32,
        /// `WAIT_*`.
        pub flags: u32,
        /// System call number, -1 outside.
        pub nr: i32,
        /// Waker thread, 0 when none is known.
        pub waker_tid: u32,
        /// Kernel pcs that follow.
        pub n_kernel: u16,
        /// `FUTEX_*`.
        pub operation: u16,
        /// `FD_*`.
        pub fd_kind: u8,
        /// `SITE_*`.
        pub site_flags: u8,
        /// `WAKER_*`.
        pub waker_kind: u8,
        /// Zero.
        pub pad: u8,
        /// Name of the waker.
        pub waker_comm: [u8; 16],
    }
}

c_struct! {
    /// Sums of a site since its slot was last given away; a later record with the same `install` replaces it.
    pub struct SiteRecord {
        /// `RECORD_SITE`.
        pub kind: u32,
        /// Thread.
        pub tid: u32,
        /// When the sums were read.
        pub time: u64,
        /// User pc.
        pub ip: u64,
        /// User stack pointer.
        pub sp: u64,
        /// Address of the futex word it waits on, where `operation` is not 0.
        pub futex: u64,
        /// Time asleep.
        pub blocked: u64,
        /// Time runnable.
        pub runnable: u64,
        /// Waits.
        pub count: u64,
        /// Longest wait.
        pub max: u64,
        /// Counts the times a slot of this thread got a new owner: a higher number in the same slot is another site's.
        pub install: u32,
        /// System call number, -1 outside.
        pub nr: i32,
        /// `FUTEX_*`.
        pub operation: u16,
        /// `FD_*`.
        pub fd_kind: u8,
        /// `SITE_*`.
        pub flags: u8,
        /// Index of the slot.
        pub slot: u8,
        /// Zero.
        pub pad: [u8; 3],
    }
}

c_struct! {
    /// A thread's exact sums.
    pub struct ThreadRecord {
        /// `RECORD_THREAD`.
        pub kind: u32,
        /// Thread.
        pub tid: u32,
        /// Process.
        pub tgid: u32,
        /// Thread id inside its own PID namespace.
        pub ns_tid: u32,
        /// Process id inside its own PID namespace.
        pub ns_tgid: u32,
        /// Process id of the parent.
        pub parent: u32,
        /// Up to when the sums hold.
        pub time: u64,
        /// When its accounting began.
        pub start: u64,
        /// Time on a processor, the stay in progress included.
        pub running: u64,
        /// Time runnable, the stay in progress included.
        pub runnable: u64,
        /// Time asleep, the stay in progress included.
        pub blocked: u64,
        /// Time on a processor that the host or interrupts had, the stay in progress included.
        pub stolen: u64,
        /// When the stay in progress began.
        pub since: u64,
        /// When the wait in progress is due to be sampled.
        pub next_cut: u64,
        /// Switches because it went to sleep.
        pub voluntary: u64,
        /// Switches because it had to leave.
        pub involuntary: u64,
        /// The wait in progress: user pc, as in `SiteRecord`.
        pub ip: u64,
        /// The wait in progress: user stack pointer.
        pub sp: u64,
        /// The wait in progress: address of the futex word, as in `SiteRecord`.
        pub futex: u64,
        /// User registers, in the order of `RawRegs`, of a thread that is off the processor.
        pub regs: [u64; 17],
        /// Number of the wait in progress.
        pub wait: u32,
        /// The wait in progress: system call.
        pub nr: i32,
        /// Exit code as wait(2) encodes it.
        pub exit_code: i32,
        /// The wait in progress: `FUTEX_*`.
        pub operation: u16,
        /// Zero.
        pub pad: [u8; 6],
        /// `STATE_*` of the stay in progress.
        pub state: u8,
        /// The wait in progress: `FD_*`.
        pub fd_kind: u8,
        /// The wait in progress: `SITE_*`.
        pub site_flags: u8,
        /// 1: it is dead and this is its last record.
        pub ended: u8,
        /// Name.
        pub comm: [u8; 16],
    }
}

c_struct! {
    /// A thread or process came to be, or changed.
    pub struct TaskRecord {
        /// `RECORD_FORK`, `RECORD_EXEC` or `RECORD_RENAME`.
        pub kind: u32,
        /// Thread.
        pub tid: u32,
        /// When.
        pub time: u64,
        /// Process.
        pub tgid: u32,
        /// Fork: the parent thread. Exec: the thread's id before it.
        pub other_tid: u32,
        /// Fork: the parent process.
        pub other_tgid: u32,
        /// Thread id inside its own PID namespace.
        pub ns_tid: u32,
        /// Name after the event.
        pub comm: [u8; 16],
    }
}

c_struct! {
    /// What code is called that a Python executes, when it is first seen: it may be gone before user space can read that. Names
    /// are told only if they are of ASCII.
    pub struct CodeRecord {
        /// `RECORD_CODE`.
        pub kind: u32,
        /// Process.
        pub tgid: u32,
        /// When.
        pub time: u64,
        /// Its address.
        pub code: u64,
        /// Its [`identity`].
        pub identity: u32,
        /// How many bytes of `function` there are.
        pub function_bytes: u32,
        /// How many bytes of `file` there are.
        pub file_bytes: u32,
        /// Zero.
        pub pad: u32,
        /// Its qualified name, or the beginning of that.
        pub function: [u8; 96],
        /// Its file, or the end of that.
        pub file: [u8; 256],
    }
}

c_struct! {
    /// User registers that come with a raw copy of the stack, numbered as in DWARF for x86-64.
    pub struct RawRegs {
        /// rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 … r15, rip.
        pub regs: [u64; 17],
    }
}

c_struct! {
    /// What user space decides before the programs are loaded.
    pub struct Config {
        /// Mean distance between two cuts of a thread's time, ns.
        pub period_ns: u64,
        /// How many of them a processor keeps in a tenth of a second; then only longer ones.
        pub slices_most: u64,
        /// Unread bytes in the ring that wake the recorder at once.
        pub ring_wakeup_bytes: u64,
        /// A tick is taken when a random u32 is not above this.
        pub tick_keep: u32,
        /// 1: every thread of the system is a target.
        pub follow_all: u8,
        /// 1: stacks of waits are taken when the thread runs again; 0: before it waits.
        pub stacks_after: u8,
        /// Zero.
        pub pad: [u8; 2],
    }
}

c_struct! {
    /// What every switch and waking reads, in one cache line: a program that ran in between has all others.
    pub struct Window {
        /// What is accounted, ns of CLOCK_BOOTTIME; closed until user space opens it. It may open in the future: threads
        /// are adopted before, one after the other, and all of them begin with the window.
        pub start: u64,
        /// Its end.
        pub end: u64,
        /// Waits at least this long are kept one by one, ns.
        pub slice_min_ns: u64,
        /// Time between two ticks of the kernel's, ns.
        pub tick_ns: u64,
        /// So many times a site's mean wait has to reach the next cut, at least, for a stack to be taken before the wait.
        pub reach: u64,
        /// How far above the begin of a thread's kernel stack the registers of its user code are, bytes; 0: not known yet.
        pub registers_at: u64,
        /// Zero: the key of what there is one of. Read from here it takes no stack.
        pub only_key: u64,
        /// The table of threads has 2 to the power of 64 less this places.
        pub thread_shift: u64,
    }
}

c_consts! { emit_sweep_consts:
    /// What a sweep over all threads does: begin to follow threads of targets.
    pub const SWEEP_ADOPT: u32 = 1;
    /// What a sweep does: report every thread, not only those that changed.
    pub const SWEEP_ALL: u32 = 2;
}

c_struct! {
    /// An executable mapping of a process, for the in-kernel unwinder. Sorted by `start`.
    pub struct Mapping {
        /// First actual address.
        pub start: u64,
        /// First actual address past the end.
        pub end: u64,
        /// Actual address of the table's `text_start`.
        pub text_base: u64,
        /// Index of the module's [`ModuleTable`], or one of the `TABLE_*` constants.
        pub table: u32,
        /// Index of the [`CodeHeap`] for `TABLE_CODE_HEAP`, else zero.
        pub heap: u32,
    }
}

c_struct! {
    /// Where a HotSpot JVM keeps code that it compiled, and how its blobs tell of their frames: see `dwell-hotspot`. Offsets are
    /// within a blob, in bytes.
    pub struct CodeHeap {
        /// Address of its first segment.
        pub low: u64,
        /// Address of its map of segments, a byte for each.
        pub segment_map: u64,
        /// First address of the interpreter's code.
        pub interpreter_start: u64,
        /// First address past it.
        pub interpreter_end: u64,
        /// log2 of a segment's bytes.
        pub segment_shift: u8,
        /// Bytes of a block's header, before the blob.
        pub header: u8,
        /// Offset of the frame's size in words, i32.
        pub frame_size_at: u8,
        /// Offset of the distance from the code's start to where the frame is complete.
        pub frame_complete_at: u8,
        /// Its bytes: 2 or 4, signed.
        pub frame_complete_bytes: u8,
        /// Offset of the address of the code's start, or of that start's own offset.
        pub code_at: u8,
        /// 1: it is an offset, i32.
        pub code_by_offset: u8,
        /// Offset in a method of the address of its constant part.
        pub constant_at: u8,
        /// Offset in that of the bytes of its code, u16.
        pub code_size_at: u8,
        /// Bytes of that, behind which the code lies.
        pub constant_bytes: u8,
        /// Offset in a compiled method's blob of its number, i32.
        pub compile_id_at: u16,
        /// Zero.
        pub pad: [u8; 4],
    }
}

impl CodeHeap {
    /// As the kernel side has it.
    pub fn to_bytes(&self) -> [u8; 48] {
        let words = [
            self.low,
            self.segment_map,
            self.interpreter_start,
            self.interpreter_end,
        ];
        let mut bytes = [0; 48];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes[42..44].copy_from_slice(&self.compile_id_at.to_le_bytes());
        bytes[32..42].copy_from_slice(&[
            self.segment_shift,
            self.header,
            self.frame_size_at,
            self.frame_complete_at,
            self.frame_complete_bytes,
            self.code_at,
            self.code_by_offset,
            self.constant_at,
            self.code_size_at,
            self.constant_bytes,
        ]);
        bytes
    }
}

c_struct! {
    /// How to find what a CPython interpreter executes: see `dwell-python`. Offsets are in bytes, from the start of the struct
    /// that has the field.
    pub struct Interpreter {
        /// Where a thread has the address of its state: from what its thread pointer leads to.
        pub slot_at: u32,
        /// Where the thread pointer leads to the address from which `slot_at` counts; 0: it is that address.
        pub slots_at: u32,
        /// In a thread's state, the address of its frame, or of what has that.
        pub thread_frame_at: u32,
        /// In a thread's state, the address of its frame, where each C frame executes one alone; 0: they execute several.
        pub frame_at: u32,
        /// In what a C frame has for the frames that it executes (`_PyCFrame`): the address of the innermost one.
        pub group_frame_at: u32,
        /// The address of the next one further out; 0: there are none of these. Where there is a `frame_at` then nothing in a C
        /// frame tells which frame it executes.
        pub group_previous_at: u32,
        /// In a frame, the address of its code, in whose lowest bits there may be marks.
        pub code_at: u32,
        /// The address of its caller.
        pub previous_at: u32,
        /// The address of its instruction, or, where there is a `frame_at`, 4 bytes: its index, or, where there are none of what a C
        /// frame has, its distance in bytes.
        pub instruction_at: u32,
        /// A byte that tells whose it is.
        pub owner_at: u32,
        /// A byte that is not 0 of the outermost one that a C frame executes; 0: there is no such byte.
        pub entry_at: u32,
        /// In code, its instructions.
        pub bytecode_at: u32,
        /// In code, the addresses that [`identity`] is made of. The third one is that of the function's name.
        pub names_at: u32,
        /// Which of them is that of the file's name: 0 or 1.
        pub file_nth: u32,
        /// In a string, its hash, behind its length.
        pub hash_at: u32,
        /// Its characters, if they are of ASCII.
        pub text_at: u32,
    }
}

impl Interpreter {
    /// As the kernel side has it.
    pub fn to_bytes(&self) -> [u8; 64] {
        let offsets = [
            self.slot_at,
            self.slots_at,
            self.thread_frame_at,
            self.frame_at,
            self.group_frame_at,
            self.group_previous_at,
            self.code_at,
            self.previous_at,
            self.instruction_at,
            self.owner_at,
            self.entry_at,
            self.bytecode_at,
            self.names_at,
            self.file_nth,
            self.hash_at,
            self.text_at,
        ];
        let mut bytes = [0; 64];
        let places = bytes.as_chunks_mut().0.iter_mut();
        for (place, offset) in places.zip(offsets) {
            *place = offset.to_le_bytes();
        }
        bytes
    }
}

c_struct! {
    /// How to find which function of JavaScript a frame of a V8 engine executes: see `dwell-v8`. Offsets are in bytes, from the
    /// start of the object that has the field.
    pub struct Engine {
        /// In a function, the reference to what it shares with others like it; 0: there is no engine.
        pub shared_at: u32,
        /// In what describes an object, two bytes: its type.
        pub instance_type_at: u32,
        /// The type of what functions share.
        pub shared_type: u32,
        /// In that, the reference to its bytecode, or to what has that; a number for functions of the engine's own.
        pub data_at: u32,
        /// The reference to its name, or to what has that.
        pub name_at: u32,
        /// The reference to its script.
        pub script_at: u32,
    }
}

impl Engine {
    /// As the kernel side has it.
    pub fn words(&self) -> [u32; 6] {
        [
            self.shared_at,
            self.instance_type_at,
            self.shared_type,
            self.data_at,
            self.name_at,
            self.script_at,
        ]
    }
}

/// What tells code of Python from other code that is at its address at another time: by the addresses of its file's name, its
/// name, its qualified name and its table of lines, and by the hashes of the first and the third, as the interpreter has them:
/// other strings may have come to where those were.
pub fn identity(names: [u64; 4], hashes: [u64; 2]) -> u32 {
    identity_of(names.into_iter().chain(hashes))
}

/// What tells something by these words from others.
pub fn identity_of(words: impl IntoIterator<Item = u64>) -> u32 {
    /// As `tables.h` has it.
    const HASH: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(HASH);
    (words.into_iter().fold(0, mix) >> 32) as u32
}

/// The [`identity`] of the code that the word before tells of, if a word among user pcs is one.
pub fn told_identity(word: u64) -> Option<u32> {
    (word >> METHOD_BIT == 0b11).then_some(word as u32)
}

/// The method and the index of the bytecode, where that is known, that a word among user pcs tells of.
pub fn interpreted(word: u64) -> Option<(u64, Option<u32>)> {
    let index = (word >> BYTECODE_SHIFT) as u32 & NO_BYTECODE;
    let is_one = word >> METHOD_BIT & 1 == 1;
    let method = word & ((1 << BYTECODE_SHIFT) - 1);
    is_one.then_some((method, (index != NO_BYTECODE).then_some(index)))
}

/// The actual address in a user pc (without [`RETURN_BIT`]) and, of code that a JVM compiled, the last bits of its number.
pub fn compiled(pc: u64) -> (u64, Option<u32>) {
    let address = pc & ((1 << BYTECODE_SHIFT) - 1);
    let id = (pc >> BYTECODE_SHIFT) as u32 & COMPILED_MASK;
    match interpreted(pc).is_none() && pc >> COMPILED_BIT & 1 == 1 {
        true => (address, Some(id)),
        false => (pc, None),
    }
}

/// A user pc with what tells the code there, as the row for it has it in [`crate::unwind::Row::pc`].
pub fn with_compiled(pc: u64, mark: u32) -> u64 {
    pc | u64::from(mark) << BYTECODE_SHIFT
}

/// That mark, by the number of compiled code.
pub fn compiled_mark(id: u32) -> u32 {
    1 << (COMPILED_BIT - BYTECODE_SHIFT) | id & COMPILED_MASK
}

/// The word that tells of a method and the index of its bytecode.
pub fn interpreted_word(method: u64, index: Option<u32>) -> u64 {
    let index = index.unwrap_or(NO_BYTECODE).min(NO_BYTECODE);
    let method = method & ((1 << BYTECODE_SHIFT) - 1);
    1 << METHOD_BIT | u64::from(index) << BYTECODE_SHIFT | method
}

c_struct! {
    /// Where a module's rows are in the cell space. A cell is 8 bytes.
    pub struct ModuleTable {
        /// Cell of the first index entry.
        pub index_cell: u32,
        /// Number of index entries, one per `1 << INDEX_SHIFT` bytes of text.
        pub index_len: u32,
        /// Cell of the first rule (two cells each).
        pub rules_cell: u32,
        /// Number of rules.
        pub rules_len: u32,
    }
}

c_struct! {
    /// The rows that can hold in one slot of text; they lie in one chunk.
    pub struct IndexEntry {
        /// Cell of the first candidate row.
        pub cell: u32,
        /// Number of candidates, at most `1 + (1 << INDEX_SHIFT)`.
        pub len: u32,
    }
}

c_consts! { emit_table_consts:
    /// `Mapping::table`: no unwind information, follow frame pointers (JIT code, Go).
    pub const TABLE_FRAME_POINTER: u32 = 0xffff_ffff;
    /// `Mapping::table`: the module's table is not loaded yet.
    pub const TABLE_NOT_READY: u32 = 0xffff_fffe;
    /// `Mapping::table`: all of it is reached with the stack as at a function's entry.
    pub const TABLE_LIKE_ENTRY: u32 = 0xffff_fffd;
    /// `Mapping::table`: code that a HotSpot JVM compiled, in a [`CodeHeap`].
    pub const TABLE_CODE_HEAP: u32 = 0xffff_fffc;
    /// Most code heaps: a JVM has one to three.
    pub const MAX_CODE_HEAPS: u32 = 1024;
    /// Most processes whose [`Interpreter`]s are known.
    pub const MAX_INTERPRETERS: u32 = 1024;
    /// From this owner on a frame of an [`Interpreter`] stands for no Python code: it lies between those that two C frames
    /// execute (`_frameowner`).
    pub const OWNER_NOBODY: u32 = 3;
    /// Most mappings of one process the in-kernel unwinder knows.
    pub const MAX_MAPPINGS: u32 = 256;
    /// Most modules.
    pub const MAX_TABLES: u32 = 8192;
    /// log2 of the cells in a chunk: 1 MiB, small enough to waste little for one small program.
    pub const CHUNK_SHIFT: u32 = 17;
    /// Most chunks: 512 MiB of rows.
    pub const MAX_CHUNKS: u32 = 512;
}

/// Appends this module's C definitions.
pub fn emit_c(out: &mut alloc::string::String) {
    emit_consts(out);
    emit_table_consts(out);
    emit_sweep_consts(out);
    Config::emit_c(out);
    Window::emit_c(out);
    StackRecord::emit_c(out);
    WaitRecord::emit_c(out);
    SiteRecord::emit_c(out);
    ThreadRecord::emit_c(out);
    TaskRecord::emit_c(out);
    RawRegs::emit_c(out);
    Mapping::emit_c(out);
    CodeHeap::emit_c(out);
    CodeRecord::emit_c(out);
    Interpreter::emit_c(out);
    Engine::emit_c(out);
    ModuleTable::emit_c(out);
    IndexEntry::emit_c(out);
}
