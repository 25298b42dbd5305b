//! What the two sides agree on: dwell, which writes it into a target, and the agent, which reads it
//! there. All addresses are the target's.

/// First word of an arena: "dwell", and the version of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"dwell\0\0\x01");

/// The head of an arena, in its read-only part. It tells enough to restore the target by, also when
/// the dwell that attached has died: the windows follow it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// [`MAGIC`]; written last.
    pub magic: u64,
    /// Tells this arena from any other.
    pub cookie: u64,
    /// Bytes of the arena, code and data.
    pub arena_len: u64,
    /// Bytes of its first, executable part.
    pub code_len: u64,
    /// Address of the page shared with the owner, 0 for none.
    pub owner: u64,
    /// Number of [`PatchedWindow`]s behind the header.
    pub windows: u64,
}

/// Bytes a jump takes: what is overwritten at the start of a window.
pub const JUMP_LEN: usize = 5;

/// Code that was overwritten, and with what.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchedWindow {
    /// Where.
    pub address: u64,
    /// What was there.
    pub original: [u8; JUMP_LEN],
    /// What is there now.
    pub jump: [u8; JUMP_LEN],
    /// Zero.
    pub padding: [u8; 6],
}

/// Bytes from a [`Link`] to the state of an arena that has one of its own: code that is always there for such need not look
/// it up, which would take as long as all else that an operation without a wait does with it.
pub const STATE_DISTANCE: u64 = 64;

/// What a handler needs to know; in an arena's data, [`STATE_DISTANCE`] before its state.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Address of the counters: `1 << stripe_bits` stripes of one u64 a site.
    pub counters: u64,
    /// Bytes from one stripe to the next.
    pub stride: u64,
    /// Logarithm of the number of stripes, 1 to 16.
    pub stripe_bits: u64,
    /// Address of the owner's word (a robust futex), 0 for none.
    pub owner: u64,
    /// Address of the memory that the arena's hooks share, beginning a page.
    pub state: u64,
}

impl Link {
    /// The bits of the owner's word that hold its thread number.
    pub const OWNER_TID_MASK: u32 = 0x3fff_ffff;
}

/// The registers a stub saves before it calls a handler, which may change them; lowest address first.
#[repr(C)]
#[allow(missing_docs)] // their names are their meaning
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rax: u64,
}

/// Bytes between the registers that a stub saves elsewhere than at an entry or a return, and the stack of the
/// code that it interrupts: the flags, and what that code may keep below its stack pointer.
pub const KEPT_LEN: u64 = 8 + 128;

/// Bits of a stack address below which all belong to one stripe: a thread's stack seldom spans many
/// MiB, and stacks lie some MiB apart.
pub const STRIPE_SHIFT: u32 = 20;
/// Multiplier that spreads the stacks over the stripes (2³² / golden ratio).
pub const STRIPE_HASH: u32 = 0x9e37_79b1;

/// The stripe of a thread whose stack pointer is `sp`. Any answer is right; a good one is seldom that
/// of another running thread.
pub const fn stripe_of(sp: u64, stripe_bits: u64) -> u64 {
    let hash = ((sp >> STRIPE_SHIFT) as u32).wrapping_mul(STRIPE_HASH);
    (hash >> (32 - stripe_bits)) as u64
}
