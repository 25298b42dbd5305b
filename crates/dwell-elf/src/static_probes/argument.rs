//! Where an argument is and how it is read.

/// An argument of a static probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// What its bytes mean.
    pub kind: ArgumentKind,
    /// Its size in bytes: 1, 2, 4 or 8. A register or a constant may be wider; the lowest bytes count.
    pub size: u8,
    /// Where it is when the site is reached.
    pub place: Place,
}

/// What the bytes of an argument mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A signed integer.
    Signed,
    /// An unsigned integer, or of unknown meaning: the notes of `sys/sdt.h` do not tell pointers.
    Unsigned,
    /// A pointer.
    Pointer,
    /// A float (4 bytes) or a double (8).
    Float,
}

impl ArgumentKind {
    pub(super) fn from_letter(letter: u8) -> Option<Self> {
        match letter {
            b'i' => Some(ArgumentKind::Signed),
            b'u' => Some(ArgumentKind::Unsigned),
            b'p' => Some(ArgumentKind::Pointer),
            b'f' => Some(ArgumentKind::Float),
            _ => None,
        }
    }
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The value itself.
    Constant(i64),
    /// The lowest bytes of a register.
    Register(Register),
    /// Bits 8 to 15 of a register (`%ah`).
    HighByte(Register),
    /// The lowest bytes of the vector register of this number (`%xmm0`).
    Vector(u8),
    /// Memory at `base + index.0 × index.1 + displacement` (wrapping), an actual address.
    Memory {
        /// A register whose value is added.
        base: Option<Register>,
        /// A register whose value is multiplied by 1, 2, 4 or 8 and added.
        index: Option<(Register, u8)>,
        /// A number that is added.
        displacement: i64,
    },
    /// Memory at this stated address, `index.0 × index.1` further on.
    Variable {
        /// Stated address.
        stated_address: u64,
        /// A register whose value is multiplied by 1, 2, 4 or 8 and added.
        index: Option<(Register, u8)>,
    },
}

/// A general register of x86-64, in the order of the processor's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // the registers' own names
pub enum Register {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

impl Register {
    /// All of them, in the order of the processor's encoding.
    pub const ALL: [Register; 16] = {
        use Register::*;
        [
            Rax, Rcx, Rdx, Rbx, Rsp, Rbp, Rsi, Rdi, R8, R9, R10, R11, R12, R13, R14, R15,
        ]
    };
}

impl Argument {
    /// Takes a kind that is told elsewhere, unless nothing of that kind has this size.
    pub(super) fn set_kind(&mut self, kind: ArgumentKind) {
        let possible = match kind {
            ArgumentKind::Pointer => self.size == 8,
            ArgumentKind::Float => self.size >= 4,
            ArgumentKind::Signed | ArgumentKind::Unsigned => true,
        };
        if possible {
            self.kind = kind;
        }
    }

    /// The argument's value: sign-extended when it is signed, else zero-extended (a float's bits). The
    /// reference for whatever reads arguments in another way.
    ///
    /// `register` and `vector` give registers' values as of the site, `memory` the `size` bytes at an
    /// actual address, little-endian, or none where it cannot be read; `bias` is actual minus stated address.
    pub fn value(
        &self,
        register: impl Fn(Register) -> u64,
        vector: impl Fn(u8) -> u64,
        memory: impl Fn(u64, u8) -> Option<u64>,
        bias: u64,
    ) -> Option<u64> {
        let scaled = |index: Option<(Register, u8)>| {
            index.map_or(0, |(r, scale)| register(r).wrapping_mul(scale.into()))
        };
        let raw = match self.place {
            Place::Constant(value) => value as u64,
            Place::Register(r) => register(r),
            Place::HighByte(r) => register(r) >> 8,
            Place::Vector(number) => vector(number),
            Place::Memory {
                base,
                index,
                displacement,
            } => {
                let address = base
                    .map_or(0, &register)
                    .wrapping_add(scaled(index))
                    .wrapping_add_signed(displacement);
                memory(address, self.size)?
            }
            Place::Variable {
                stated_address,
                index,
            } => {
                let address = stated_address
                    .wrapping_add(bias)
                    .wrapping_add(scaled(index));
                memory(address, self.size)?
            }
        };
        Some(self.extended(raw))
    }

    fn extended(&self, raw: u64) -> u64 {
        let unused = 64 - 8 * u32::from(self.size);
        if self.kind == ArgumentKind::Signed {
            (((raw << unused) as i64) >> unused) as u64
        } else {
            (raw << unused) >> unused
        }
    }
}
