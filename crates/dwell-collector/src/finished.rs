//! A recording that is written but for its names, and the frames that want one.
use crate::intern::Place;
use crate::launch::Launched;
use crate::state::{State, frame_row};
use dwell_abi::events::compiled;
use dwell_recording::Writer;
use dwell_recording::rows::{FrameRow, FutexRow};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A recording whose data is written, but for the names.
pub struct Finished {
    /// To append the symbols, and to finish.
    pub writer: Writer,
    /// Exit code of a launched command.
    pub exit_code: Option<i32>,
    /// The first error of writing, when there was one.
    pub write_error: Option<dwell_recording::RecordingError>,
    /// Modules whose unwind information could not be read.
    pub problems: Vec<String>,
    /// The kernel's symbols, if they were read lately: the text of `/proc/kallsyms`.
    pub kernel_symbols: Option<String>,
    pub(crate) state: State,
    /// The launched command, which may outlive its recording.
    pub launched: Option<Launched>,
}

/// Frames of one origin that want a name: `(frame, address)`, sorted by address.
pub struct Unnamed {
    /// Where the names are to be found.
    pub origin: Origin,
    /// Frame number and address.
    pub frames: Vec<(u32, u64)>,
}

/// Words in the data of one file that want the name of their variable.
pub struct UnnamedFutexes {
    /// Where the names are to be found.
    pub module: ModuleOrigin,
    /// The rows, to be written again with `symbol` and `offset`.
    pub rows: Vec<FutexRow>,
}

/// Where names are to be found.
pub enum Origin {
    /// A file; addresses are stated ones.
    Module(ModuleOrigin),
    /// The kernel.
    Kernel,
    /// Code that dwell has put into a process.
    Own,
    /// Code that the kernel had for a while and may have no more: the name is known.
    KernelCode {
        /// The name.
        name: String,
    },
    /// Code written at run time by a process.
    Jit {
        /// Process id in the root PID namespace.
        pid: u32,
        /// Process id in its own PID namespace.
        ns_pid: u32,
        /// Root of its mount namespace, if that is not ours.
        root: Option<PathBuf>,
    },
}

/// A file that has names, as a target had it mapped.
pub struct ModuleOrigin {
    /// A path that this process can read as long as the [`Finished`] lives.
    pub file: PathBuf,
    /// Path as the target sees it.
    pub path: String,
    /// Its build id; empty when it has none.
    pub build_id: Vec<u8>,
    /// Root of the target's mount namespace, if that is not ours; valid as long as `file`.
    pub root: Option<PathBuf>,
}

impl Finished {
    /// All frames that want a name.
    pub fn unnamed(&self) -> Vec<Unnamed> {
        unnamed(&self.state, 0..self.state.interner.places().len() as u32)
    }

    /// The words in a file's data that want the name of their variable, by file.
    pub fn unnamed_futexes(&self) -> Vec<UnnamedFutexes> {
        let mut by_module: BTreeMap<u32, Vec<FutexRow>> = BTreeMap::new();
        for (module, row) in self.state.threads.futexes.in_modules() {
            by_module.entry(*module).or_default().push(row.clone());
        }
        let group = |(module, rows): (u32, _)| UnnamedFutexes {
            module: module_origin(&self.state, module),
            rows,
        };
        by_module.into_iter().map(group).collect()
    }

    /// The stacks at which threads were seen running: frames, outermost first.
    pub fn running_stacks(&self) -> impl Iterator<Item = &[u32]> {
        let seen = &self.state.running_stacks;
        let stacks = self.state.interner.stacks();
        stacks
            .filter(|(id, _)| seen.contains(id))
            .map(|(_, frames)| frames)
    }

    /// The row of a frame, to be written again with `spinning`.
    pub fn frame_row(&self, frame: u32) -> FrameRow {
        let place = self.state.interner.places()[frame as usize];
        FrameRow {
            frame,
            ..frame_row(place, &self.state.modules)
        }
    }

    /// Number of threads that were seen.
    pub fn threads(&self) -> usize {
        self.state.threads.seen()
    }
}

pub(crate) fn unnamed(state: &State, frames: impl Iterator<Item = u32>) -> Vec<Unnamed> {
    let places = state.interner.places();
    let mut groups: BTreeMap<(u8, u64), Vec<(u32, u64)>> = BTreeMap::new();
    for frame in frames.filter(|frame| !state.is_named(*frame)) {
        let (key, address) = match places[frame as usize] {
            Place::User { module, address } => ((MODULE, module.into()), address),
            Place::Kernel(address) => match state.kernel_code.find(address) {
                Some(code) => ((KERNEL_CODE, code.start), address),
                None => ((KERNEL, 0), address),
            },
            Place::Jit {
                process, address, ..
            } => ((JIT, process.into()), compiled(address).0),
            Place::Own { .. } => ((OWN, 0), 0),
            Place::Unknown { .. } => continue,
        };
        groups.entry(key).or_default().push((frame, address));
    }
    let groups = groups.into_iter().map(|((kind, id), mut frames)| {
        frames.sort_by_key(|f| f.1);
        Unnamed {
            origin: origin(state, kind, id),
            frames,
        }
    });
    groups.collect()
}

// What the number of a group's first half says of its second.
const MODULE: u8 = 0;
const KERNEL: u8 = 1;
const KERNEL_CODE: u8 = 2;
const JIT: u8 = 3;
const OWN: u8 = 4;

fn origin(state: &State, kind: u8, id: u64) -> Origin {
    match kind {
        MODULE => Origin::Module(module_origin(state, id as u32)),
        KERNEL => Origin::Kernel,
        OWN => Origin::Own,
        KERNEL_CODE => Origin::KernelCode {
            name: state
                .kernel_code
                .find(id)
                .map_or_else(String::new, |code| code.name.clone()),
        },
        _ => {
            let executor = state.processes.executor(id as u32);
            Origin::Jit {
                pid: executor.pid,
                ns_pid: executor.ns_pid,
                root: executor.root.map(|root| root.path()),
            }
        }
    }
}

fn module_origin(state: &State, id: u32) -> ModuleOrigin {
    let module = state.modules.get(id);
    ModuleOrigin {
        file: module.readable_path(),
        path: module.path.clone(),
        build_id: module.build_id.clone(),
        root: module.root.as_ref().map(|r| r.path()),
    }
}
