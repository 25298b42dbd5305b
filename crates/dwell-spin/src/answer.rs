//! What is found out about a place.
use std::fmt;

/// A place lies in a loop that does nothing but wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spinning {
    /// Address of the loop's first instruction.
    pub header: u64,
    /// Instructions in the loop, those of functions it calls left out.
    pub instructions: usize,
}

/// Why a place does not spin; of several loops around it, what was said of the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSpinning {
    /// No instruction begins there, nor does a call end there.
    NoInstruction,
    /// No loop is around it, or none that is small and has one way in.
    NoLoop,
    /// The loop writes memory that others can see.
    Stores,
    /// The loop uses vector registers, string instructions or instructions of the kernel.
    Instruction,
    /// The loop calls what may work.
    Calls,
    /// The loop computes something from turn to turn.
    Works,
    /// The loop reads another place every turn.
    Walks,
    /// The loop reads what decides nothing in it.
    Collects,
    /// An atomic operation of the loop has an effect each time.
    Updates,
    /// Only counters end the loop, or nothing does.
    Counts,
    /// A turn in which a loop that works found nothing to do.
    Idles,
    /// Too large to be looked at.
    TooLarge,
}

impl fmt::Display for NotSpinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoInstruction => "no instruction begins there",
            Self::NoLoop => "no loop is around it",
            Self::Stores => "its loop writes memory",
            Self::Instruction => "its loop has an instruction that no wait needs",
            Self::Calls => "its loop calls functions that may work",
            Self::Works => "its loop computes",
            Self::Walks => "its loop reads another place every turn",
            Self::Collects => "its loop reads what decides nothing",
            Self::Updates => "its loop updates memory atomically",
            Self::Counts => "its loop counts",
            Self::Idles => "its loop is an idle turn of one that works",
            Self::TooLarge => "its loop is too large",
        })
    }
}

impl std::error::Error for NotSpinning {}
