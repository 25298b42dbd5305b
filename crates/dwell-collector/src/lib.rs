//! The kernel and its processes into a recording.
//!
//! A recording attaches ([`Recorder::start`]), collects ([`Recorder::step`]) and ends
//! ([`Recorder::finish`]). This crate alone names libbpf, perf events and other processes' memory;
//! it knows no format for people and gives no address a name: [`Finished::unnamed`] says which
//! addresses want one.

mod address_space;
mod cells;
mod cgroup;
mod copied_code;
mod crashes;
pub mod doctor;
mod error;
mod executed;
mod finished;
mod floor;
pub mod functions;
mod futexes;
mod halves;
mod intern;
mod java;
mod java_methods;
mod javascript;
mod kept_names;
mod kernel_code;
mod kernel_locks;
mod kernel_marks;
mod launch;
mod lock_owners;
mod machine;
mod mapped_file;
mod memory;
mod modules;
mod options;
mod outside;
mod own_clock;
mod own_code;
mod parts;
mod perf;
mod poll;
mod preload;
mod priorities;
mod processes;
mod programs;
mod python;
mod reasons;
mod recorder;
mod records;
mod roots;
mod sampling;
mod signals;
mod state;
mod table_cache;
mod threads;
mod unwind_maps;
pub mod user_cache;
mod user_stacks;

pub use crashes::{Crash, Crashes};
pub use error::CollectError;
pub use finished::{Finished, ModuleOrigin, Origin, Unnamed, UnnamedFutexes};
pub use floor::Floor;
pub use launch::Launched;
pub use machine::{clock_anchor, clock_ns, effective_capabilities, online_cpus};
pub use options::{DEFAULT_PERIOD_NS, DEFAULT_RING_BYTES, DEFAULT_SLICE_MIN_NS, Options, Target};
pub use preload::find_command;
pub use programs::{Clock, count_run_time};
pub use recorder::{Ended, Progress, Recorder, Step};
pub use signals::ending as ending_signals;
pub use user_stacks::{Subprogram, UserStacks};
