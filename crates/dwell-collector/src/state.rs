//! Records in, rows out: what is known of the target while it is recorded.
use crate::error::CollectError;
use crate::futexes::DataPlace;
use crate::intern::Interner;
use crate::kernel_code::KernelCode;
use crate::kernel_marks::KernelMarks;
use crate::memory::PlaceStacks;
use crate::modules::Modules;
use crate::own_code::OwnCode;
use crate::parts::Parts;
use crate::processes::{Processes, hex};
use crate::records::Record;
use crate::threads::Threads;
use crate::unwind_maps::UnwindMaps;
use dwell_abi::events::*;
use dwell_recording::Tables;
use dwell_recording::rows::{EventRow, SampleRow, SliceRow};
use hashbrown::HashSet;

mod code_names;
mod lives;
mod open_waits;
mod stacks;
mod waits;

use code_names::CodeNames;
pub(crate) use stacks::frame_row;

/// Everything known of the target.
pub struct State {
    /// Its processes.
    pub processes: Processes,
    /// Its threads.
    pub threads: Threads,
    /// The files it has mapped.
    pub modules: Modules,
    /// Frames and stacks.
    pub interner: Interner,
    parts: Parts,
    /// Where stacks are put together.
    joined: Vec<u32>,
    /// Code that the kernel had for a while.
    pub kernel_code: KernelCode,
    /// Names of code that JVMs compiled.
    code_names: CodeNames,
    /// What dwell has put into processes.
    pub own_code: OwnCode,
    marks: KernelMarks,
    period_ns: u64,
    /// What a stack of a running thread stands for before scaling, ns.
    running_weight_ns: u64,
    /// Stacks at which threads were seen running.
    pub(crate) running_stacks: HashSet<u32>,
    samples: Vec<SampleRow>,
    slices: Vec<SliceRow>,
    events: Vec<EventRow>,
    /// Stacks of the places in the ledger of memory.
    pub(crate) memory_stacks: PlaceStacks,
    /// Stacks that came as a copy.
    pub copied_stacks: u64,
    /// Things that were lost on this side, by name.
    pub losses: Losses,
    /// User stacks that waits have owed.
    pub owed_stacks: u64,
}

/// What was lost on the way from records to rows.
#[derive(Clone, Copy, Default, Debug)]
pub struct Losses {
    /// Records of threads that are not known (their first record was lost).
    pub orphans: u64,
    /// Waits whose stack never came.
    pub stacks_missing: u64,
    /// Mapping reports the kernel dropped.
    pub map_events: u64,
}

impl State {
    /// Knows nothing yet.
    pub fn new(marks: KernelMarks, period_ns: u64, running_weight_ns: u64) -> Self {
        State {
            processes: Processes::default(),
            threads: Threads::default(),
            modules: Modules::new(),
            interner: Interner::default(),
            parts: Parts::default(),
            joined: Vec::new(),
            kernel_code: KernelCode::default(),
            code_names: CodeNames::default(),
            own_code: OwnCode::default(),
            marks,
            period_ns,
            running_weight_ns,
            running_stacks: HashSet::new(),
            samples: Vec::new(),
            slices: Vec::new(),
            events: Vec::new(),
            memory_stacks: PlaceStacks::default(),
            copied_stacks: 0,
            losses: Losses::default(),
            owed_stacks: 0,
        }
    }

    /// Takes in a record.
    pub fn record(&mut self, maps: &UnwindMaps, record: Record<'_>) -> Result<(), CollectError> {
        match record {
            Record::Stack(head, trail) => {
                let placed = self.placed(&head, trail);
                let trail = placed.as_ref().map_or(trail, |user| trail.with_user(user));
                match head.kind {
                    RECORD_RUNNING => self.running(&head, trail),
                    RECORD_WAKER => self.waker(&head, trail),
                    RECORD_MEMORY_STACK => self.memory_stack(&head, trail),
                    _ => self.wait_stack(&head, trail),
                }
            }
            Record::Wait(head, trail) => self.wait(head, trail),
            Record::Site(record) => match self.threads.id_of(record.tid) {
                Some(thread) => self.threads.site_sums(thread, &record),
                None => self.losses.orphans += 1,
            },
            Record::Thread(record) => self.thread_report(maps, record)?,
            Record::Task(record) => self.task(&record),
            Record::Code(record) => {
                if let Some(process) = self.processes.recent(record.tgid) {
                    process.python.told(&record);
                }
            }
        }
        Ok(())
    }

    /// Names frames of code that JVMs compiled or Pythons execute, while it is there.
    pub fn name_code(&mut self) {
        self.code_names.update(&self.interner, &mut self.processes);
    }

    /// Whether a frame has got its name.
    pub fn is_named(&self, frame: u32) -> bool {
        self.code_names.has(frame)
    }

    /// All rows gathered since the last call (without `meta`).
    pub fn take_rows(&mut self) -> Tables {
        self.name_code();
        let modules = &self.modules;
        let in_use = self.threads.iter().map(|(_, thread)| thread.row.process);
        Tables {
            processes: self.processes.take_processes(&in_use.collect()),
            threads: self.threads.take_threads(),
            mappings: self.processes.take_mappings(),
            frames: self.interner.take_frames(|place| frame_row(place, modules)),
            symbols: self.code_names.take(),
            stacks: std::mem::take(&mut self.interner.new_stacks),
            futexes: self.threads.futexes.take_new(|process, address| {
                data_place(&self.processes, modules, process, address)
            }),
            sites: self.threads.take_sites(),
            site_times: self.threads.take_sums(),
            samples: std::mem::take(&mut self.samples),
            slices: std::mem::take(&mut self.slices),
            events: std::mem::take(&mut self.events),
            ..Tables::default()
        }
    }
}

/// The file in whose data an address of a process lies. Data follow the code they came with.
fn data_place(
    processes: &Processes,
    modules: &Modules,
    process: u32,
    address: u64,
) -> Option<DataPlace> {
    let space = &processes.get(process).space;
    space.iter().find_map(|(start, mapped)| {
        let module = mapped.module?;
        let code = modules.get(module).stated_address(mapped.file_offset)?;
        let stated = address.checked_sub(start.checked_sub(code)?)?;
        let file = modules.get(module);
        file.has_data(stated).then(|| DataPlace {
            module,
            path: file.path.clone(),
            build_id: hex(&file.build_id),
            stated,
        })
    })
}
