//! What became of a program's hot functions.
use std::collections::BTreeMap;
use std::fmt;

/// Why a function is not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// No call frame information tells where it begins and ends.
    NoFrame,
    /// Not all of its bytes are instructions, or one needs its address.
    Unreadable,
    /// A jump of one byte's distance leaves it.
    ShortJump,
    /// It calls a place within itself, to learn its address.
    CallsInside,
    /// A jump leads into the middle of an instruction.
    Overlapping,
    /// It is part of a restartable sequence, or of a transaction.
    Restartable,
    /// Its call frame information holds only where it stands.
    Frame,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::NoFrame => "no call frame information",
            Obstacle::Unreadable => "not all of it can be decoded",
            Obstacle::ShortJump => "a short jump leaves it",
            Obstacle::CallsInside => "it calls into itself",
            Obstacle::Overlapping => "its instructions overlap",
            Obstacle::Restartable => "a restartable sequence or transaction",
            Obstacle::Frame => "its call frame information holds only in its place",
        })
    }
}

/// Functions, and the time spent in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many.
    pub functions: usize,
    /// Time, ns.
    pub time_ns: u64,
}

impl Share {
    pub(crate) fn add(&mut self, time_ns: u64) {
        self.functions += 1;
        self.time_ns = self.time_ns.saturating_add(time_ns);
    }
}

/// What became of a program's hot functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotReport {
    /// Time that was recorded in the files that are merged, ns.
    pub time_ns: u64,
    /// Those that were copied.
    pub cloned: Share,
    /// Bytes of code of the copies.
    pub code_bytes: u64,
    /// Those that were left where they are, by reason.
    pub left: BTreeMap<Obstacle, Share>,
    /// Originals whose first bytes lead to the copy, for calls through pointers.
    pub entries: usize,
    /// Calls and jumps elsewhere that now lead to a copy.
    pub branches: usize,
    /// Jump tables of copies that lead into the copy itself.
    pub tables: usize,
    /// Indirect jumps of copies that lead back to the original.
    pub jumps_back: usize,
    /// Files that were recorded in another build than the one that is merged; their time counts nowhere.
    pub other_builds: Vec<String>,
    /// Whether the copies lie so in the file that a huge page can hold them.
    pub huge: bool,
}
