//! Merges a stock program with its shared libraries into one ELF file that starts faster.
//!
//! Bytes in, bytes out: nothing here opens a file, runs a program or contains unsafe code. What cannot
//! be done safely is refused by name ([`Refusal`]); what is made is examined before it is given out.
//!
//! - [`collect`] finds a program's libraries in the loader's order, through a function that gives the
//!   bytes of a path.
//! - [`plan`] tells what would be merged, what stays, and what the loader would be spared.
//! - [`question`] makes a program to be run: its output tells which functions are chosen at start (IFUNC).
//! - [`build`] makes the merged file.
//!
//! Addresses: a *stated* address is the one in an input file; an *image* address is where the same
//! byte is in the merged file (stated + the module's base). The loader adds its bias to the latter.
#![forbid(unsafe_code)]

mod cache;
mod closure;
mod error;
mod layout;
mod merge;
mod module;
mod parallel;
mod plan;
mod profile;
mod scope;
mod search;
mod selection;
mod values;

pub use cache::LoaderCache;
pub use closure::collect;
pub use error::Refusal;
pub use merge::{
    Answer, Built, Choices, Count, DirectCalls, HotReport, Obstacle, Origin, OriginModule,
    Processor, Question, Share, build, is_merged, question,
};
pub use plan::{Library, Plan, RelocationCount, plan};
pub use profile::{Place, Profile, ProfiledModule};
pub use selection::{listener, plugin_folders};

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;

/// Bytes of a page on x86-64.
const PAGE: u64 = 4096;
/// Bytes of a huge page.
const HUGE: u64 = 2 << 20;

/// The little-endian word at an offset, if all of it is there.
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*word))
}

/// A program and the files of everything it needs.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Path of the program.
    pub program: String,
    /// Path and bytes: the program first, then the libraries in the loader's order.
    pub files: Vec<(String, Vec<u8>)>,
    /// Index into `files` of what each needed name was found to be.
    pub found: HashMap<String, usize>,
    /// Functions that separate debug files name, by the path of the file they belong to: debuggers and profilers would
    /// look for those files by the build id of that, and find nothing by the merged file's.
    pub named: HashMap<String, Vec<Function>>,
}

/// A function with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Stated address of its first instruction.
    pub address: u64,
    /// Bytes; 0 when nobody says.
    pub size: u64,
    /// As it is stored (mangled).
    pub name: Vec<u8>,
    /// Whether it resolves to another function at load time (IFUNC).
    pub indirect: bool,
}

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Merge only these (by `DT_SONAME`); all that can be merged when not given.
    pub libs: Option<Vec<String>>,
    /// Paths of libraries that must stay, since something checks their files.
    pub keep: BTreeSet<String>,
    /// Of the libraries of [`plugin_folders`], paths of those whose folders hold no library: others must stay.
    pub no_plugins: BTreeSet<String>,
    /// Merge the C library, too (mode `static`); its loader stays.
    pub libc: bool,
    /// Make calls between merged modules go to their targets at once (level 1).
    pub direct: bool,
    /// Where the merged file is to begin in memory: it then has the same addresses in every process, and what nobody writes
    /// to is mapped executable with the code (level 2). Anywhere, when not given.
    pub fixed: Option<u64>,
    /// What the processor says of itself: the loader is put into the file and asks it no more (level 3). Needs `fixed`
    /// and `libc`.
    pub processor: Option<Processor>,
    /// What functions that are chosen at start were chosen to be, by the answer to a [`question`]: calls of them go
    /// there at once, and each start looks whether the choice is still the same. Heeded with `libc` and `direct`.
    pub choices: Option<Choices>,
    /// Copy the functions that are hot by this together.
    pub profile: Option<Profile>,
    /// When the merged file gives way to the stock one; never, when not given.
    pub stand_in: Option<StandIn>,
    /// The kernel starts the merged file where the stock one was to be started, and hands it that one, in any mount
    /// namespace (binfmt_misc, flags P, O and C): it runs where this is the state of the files that it is made of, by
    /// their paths in [`Inputs`]. Needs `processor`, and a build id of every file.
    pub registered: Option<HashMap<String, FileState>>,
}

/// What tells whether a file is still the one that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// The file system.
    pub device: u64,
    /// Which file of it.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// When it was changed last: seconds and nanoseconds since 1970.
    pub changed: (i64, i64),
}

/// A merged file becomes the stock one when variables name other libraries (`LD_PRELOAD`, `LD_AUDIT`,
/// `LD_LIBRARY_PATH`), or when its guard is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandIn {
    /// Path of a file that exists as long as the merged program may run; it always may, when not given.
    pub guard: Option<CString>,
    /// Path of the stock program.
    pub stock: CString,
}
