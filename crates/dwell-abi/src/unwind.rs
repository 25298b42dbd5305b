//! The compact form of `.eh_frame` that the in-kernel unwinder searches.
//!
//! A module's text is covered by [`Row`]s sorted by `pc`; a row holds from its `pc` to the next
//! row's. The common rules fit the row; the others are a [`Rule`] in a table beside it. What neither
//! can say is [`KIND_UNSUPPORTED`], and user space unwinds such a stack from a copy.
//!
//! In every kind but `KIND_SIGNAL` and `KIND_RA_RDI` the return address is at `CFA - 8`.
use crate::CEmit;

c_struct! {
    /// Eight bytes that say how to leave a frame.
    pub struct Row {
        /// First stated address the row holds for, as a distance from the table's `text_start`.
        pub pc: u32,
        /// CFA distance in units of 8 bytes; for `KIND_RULE` the index of the rule (as u16).
        pub cfa_off8: i16,
        /// One of the `KIND_*` constants.
        pub kind: u8,
        /// Where the caller's rbp is saved, relative to the CFA in units of 8 bytes; 0: rbp is unchanged.
        pub bp_off8: i8,
    }
}

c_struct! {
    /// A rule too wide for a row.
    pub struct Rule {
        /// CFA = register(`cfa_reg`) + `cfa_off`, or, when `cfa_deref` is 1,
        /// *(register(`cfa_reg`) + `cfa_off`) + 8·`cfa_add8`.
        pub cfa_off: i32,
        /// Where the caller's rbp is: at CFA + `bp_off`, or at rbp + `bp_off`, by `bp_kind`.
        pub bp_off: i32,
        /// `REG_SP`, `REG_BP`, or `REG_LEAF` + DWARF number for a register that is only known in the
        /// innermost frame (prologues that realign the stack).
        pub cfa_reg: u8,
        /// 1: CFA = *(register + `cfa_off`) + 8·`cfa_add8`.
        pub cfa_deref: u8,
        /// One of the `BP_*` constants.
        pub bp_kind: u8,
        /// Added to a dereferenced CFA, in units of 8 bytes (OpenSSL's assembly); 0 without `cfa_deref`.
        pub cfa_add8: u8,
    }
}

impl Row {
    /// As one word: `pc` in the lower half, then the fields in their order.
    pub const fn bits(self) -> u64 {
        self.pc as u64
            | (self.cfa_off8 as u16 as u64) << 32
            | (self.kind as u64) << 48
            | (self.bp_off8 as u8 as u64) << 56
    }

    /// What [`Row::bits`] was made of.
    pub const fn from_bits(bits: u64) -> Self {
        Row {
            pc: bits as u32,
            cfa_off8: (bits >> 32) as i16,
            kind: (bits >> 48) as u8,
            bp_off8: (bits >> 56) as i8,
        }
    }
}

impl Rule {
    /// As two words: the offsets, then the other fields in their order.
    pub const fn bits(self) -> [u64; 2] {
        [
            self.cfa_off as u32 as u64 | (self.bp_off as u32 as u64) << 32,
            self.cfa_reg as u64
                | (self.cfa_deref as u64) << 8
                | (self.bp_kind as u64) << 16
                | (self.cfa_add8 as u64) << 24,
        ]
    }

    /// What [`Rule::bits`] was made of.
    pub const fn from_bits([low, high]: [u64; 2]) -> Self {
        Rule {
            cfa_off: low as i32,
            bp_off: (low >> 32) as i32,
            cfa_reg: high as u8,
            cfa_deref: (high >> 8) as u8,
            bp_kind: (high >> 16) as u8,
            cfa_add8: (high >> 24) as u8,
        }
    }
}

c_consts! { emit_consts:
    /// The outermost frame: the return address is undefined here (`_start`, `clone3`).
    pub const KIND_END: u8 = 0;
    /// CFA = sp + 8·cfa_off8.
    pub const KIND_SP: u8 = 1;
    /// CFA = bp + 8·cfa_off8.
    pub const KIND_BP: u8 = 2;
    /// A PLT stub: CFA = sp + 8 + (((pc & 15) >= cfa_off8) ? 8 : 0); rbp unchanged.
    pub const KIND_PLT: u8 = 3;
    /// A signal trampoline: all registers come from the `ucontext` at sp.
    pub const KIND_SIGNAL: u8 = 4;
    /// See the rule at index `cfa_off8`.
    pub const KIND_RULE: u8 = 5;
    /// The return address is still in rdi (`vfork`); CFA = sp + 8·cfa_off8.
    pub const KIND_RA_RDI: u8 = 6;
    /// No unwind information holds here (between functions, or the module has none).
    pub const KIND_NONE: u8 = 7;
    /// There is information, but neither a row nor a rule can say it.
    pub const KIND_UNSUPPORTED: u8 = 8;
    /// Code that is known to keep frame pointers (Go): bp = 0 is the outermost frame, otherwise
    /// CFA = bp + 16 and the caller's rbp is *bp.
    pub const KIND_FP: u8 = 9;
    /// Behind the system call of `clone`: with rax = 0 this is the new thread, on a stack of its own
    /// that begins here; otherwise as `KIND_SP`.
    pub const KIND_CLONE: u8 = 10;
    /// A frame of HotSpot's interpreter, of code that it made itself: the return address is at rbp + 8, the caller's rbp at
    /// rbp, its sp at rbp - 8, the method at rbp - 24. In no table.
    pub const KIND_INTERPRETED: u8 = 11;

    /// `Rule::cfa_reg`: the stack pointer.
    pub const REG_SP: u8 = 0;
    /// `Rule::cfa_reg`: the frame pointer register rbp.
    pub const REG_BP: u8 = 1;

    /// `Rule::cfa_reg`: from here on, DWARF number of a register of the innermost frame.
    pub const REG_LEAF: u8 = 16;

    /// `Rule::bp_kind`: rbp is unchanged.
    pub const BP_SAME: u8 = 0;
    /// `Rule::bp_kind`: rbp = *(CFA + bp_off).
    pub const BP_AT_CFA: u8 = 1;
    /// `Rule::bp_kind`: rbp = *(rbp + bp_off).
    pub const BP_AT_BP: u8 = 2;

    /// log2 of the text bytes that share one slot of the row index.
    pub const INDEX_SHIFT: u32 = 8;
}

c_enum! {
    /// Why a user stack ends where it ends.
    pub enum StackEnd: "END_" {
        /// Reached `_start`, `clone3` or another frame whose return address is undefined.
        Complete = 0, "COMPLETE", "complete";
        /// A kernel thread, or a task whose memory is gone (it is exiting).
        NoUser = 1, "NO_USER", "no_user_stack";
        /// The pc is in no executable mapping known for the process.
        NoMapping = 2, "NO_MAPPING", "no_mapping";
        /// The mapping is known, but no unwind information covers the pc.
        NoRow = 3, "NO_ROW", "no_unwind_info";
        /// The rule needs more than the in-kernel unwinder knows.
        Unsupported = 4, "UNSUPPORTED", "unsupported_rule";
        /// The stack could not be read (page not resident, or a wild stack pointer).
        ReadFault = 5, "READ_FAULT", "stack_unreadable";
        /// More frames than the limit.
        TooDeep = 6, "TOO_DEEP", "too_deep";
        /// The frame pointer chain ended in something that is not a frame.
        BadFramePointer = 7, "BAD_FP", "bad_frame_pointer";
        /// The stack pointer did not grow: a loop.
        Loop = 8, "LOOP", "loop";
        /// The process' tables were not loaded yet.
        NotReady = 9, "NOT_READY", "tables_not_ready";
        /// The copy of the stack that user space unwound was too short.
        ShortCopy = 10, "SHORT_COPY", "stack_copy_too_short";
        /// No stack was taken (only the wait's site is known).
        NotTaken = 11, "NOT_TAKEN", "not_taken";
    }
}

/// Appends this module's C definitions.
pub fn emit_c(out: &mut alloc::string::String) {
    Row::emit_c(out);
    Rule::emit_c(out);
    emit_consts(out);
    StackEnd::emit_c(out);
}
