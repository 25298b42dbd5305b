//! A recording that is written but for its names, and the frames that want one.
use crate::intern::Place;
use crate::launch::Launched;
use crate::state::State;
use dwell_recording::Writer;
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

/// Where names are to be found.
pub enum Origin {
    /// A file; addresses are stated ones.
    Module {
        /// A path that this process can read as long as the [`Finished`] lives.
        file: PathBuf,
        /// Path as the target sees it.
        path: String,
        /// Its build id.
        build_id: Vec<u8>,
        /// Root of the target's mount namespace, if that is not ours; valid as long as `file`.
        root: Option<PathBuf>,
    },
    /// The kernel.
    Kernel,
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

impl Finished {
    /// All frames that want a name.
    pub fn unnamed(&self) -> Vec<Unnamed> {
        unnamed(&self.state, 0)
    }

    /// Number of threads that were seen.
    pub fn threads(&self) -> usize {
        self.state.threads.len()
    }
}

pub(crate) fn unnamed(state: &State, first: usize) -> Vec<Unnamed> {
    let mut groups: BTreeMap<(u8, u32), Vec<(u32, u64)>> = BTreeMap::new();
    for (frame, &place) in state.interner.places().iter().enumerate().skip(first) {
        let (key, address) = match place {
            Place::User { module, address } => ((0, module), address),
            Place::Kernel(address) => ((1, 0), address),
            Place::Jit { process, address } => ((2, process), address),
            Place::Unknown { .. } => continue,
        };
        groups.entry(key).or_default().push((frame as u32, address));
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

fn origin(state: &State, kind: u8, id: u32) -> Origin {
    match kind {
        0 => {
            let module = state.modules.get(id);
            Origin::Module {
                file: module.readable_path(),
                path: module.path.clone(),
                build_id: module.build_id.clone(),
                root: module.root.as_ref().map(|r| r.path()),
            }
        }
        1 => Origin::Kernel,
        _ => {
            let process = state.processes.get(id);
            Origin::Jit {
                pid: process.row.pid,
                ns_pid: process.row.ns_pid,
                root: process.root.as_ref().map(|r| r.path()),
            }
        }
    }
}
