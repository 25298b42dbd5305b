//! The eBPF programs: load, attach, detach. Beside `functions` and a few small ones, the only module that names libbpf.
use crate::error::CollectError;
use crate::halves::{Halves, OpenHalves};
use crate::kernel_marks::KernelMarks;
use crate::own_clock::OwnClock;
use crate::unwind_maps::{FirstChunk, UnwindMaps};
use dwell_abi::CEmit;
use dwell_abi::events::{self, Config, Window};
use libbpf_rs::{Link, MapCore, MapFlags, Object, OpenObject, PrintLevel};
use std::ffi::OsStr;
use std::io::Read;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

/// The compiled programs, embedded. Aligned, since it is read as an ELF file in place.
#[repr(align(16))]
pub(crate) struct Embedded<T: ?Sized>(pub T);
static OBJECT: &Embedded<[u8]> =
    &Embedded(*include_bytes!(concat!(env!("OUT_DIR"), "/dwell.bpf.o")));
/// The same with the programs of [`crate::memory`].
static OBJECT_WITH_MEMORY: &Embedded<[u8]> =
    &Embedded(*include_bytes!(concat!(env!("OUT_DIR"), "/memory.bpf.o")));

/// Which clock takes the stacks of running threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The scheduler's own tick: costs next to nothing, but has a fixed phase.
    Tick,
    /// A timer of our own on every processor.
    Timer,
}

/// Programs that are loaded only when they are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Waits for locks of the kernel.
    pub kernel_locks: bool,
    /// The ledger of memory.
    pub memory: bool,
    /// What [`Programs::tell_of_switches`] attaches.
    pub switches: bool,
}

/// The programs in the kernel. Dropping it takes everything back.
pub struct Programs {
    // Fields drop in this order: links before the object whose programs they hold.
    iterator: Link,
    links: Vec<Link>,
    on_switched: Option<Link>,
    own_clock: Option<OwnClock>,
    halves: Halves,
    unwind_maps: UnwindMaps,
}

/// Programs that are loaded beside the others: about half of what the kernel has to prove.
const BESIDE: [&str; 7] = [
    "on_exec",
    "on_rename",
    "on_fork",
    "on_switched",
    "on_tick",
    "on_clock",
    "on_sweep",
];

fn quiet(_level: PrintLevel, _text: String) {}

fn loud(_level: PrintLevel, text: String) {
    eprint!("{text}");
}

/// Keeps libbpf from writing to standard error, unless `DWELL_DEBUG_BPF` is set.
pub(crate) fn quiet_libbpf() {
    let verbose = std::env::var_os("DWELL_DEBUG_BPF").is_some();
    libbpf_rs::set_print(Some((
        PrintLevel::Debug,
        if verbose { loud } else { quiet },
    )));
}

/// Counters summed over all processors.
pub type Counters = [u64; events::COUNTERS as usize];

impl Programs {
    /// Loads the programs and adopts nothing yet. Nothing runs before [`Programs::attach`].
    /// Those of [`crate::kernel_locks`] and [`crate::memory`] are left out unless wanted.
    pub fn load(
        config: &Config,
        window: &Window,
        clock: Clock,
        ring_bytes: u32,
        wanted: Wanted,
    ) -> Result<Programs, CollectError> {
        quiet_libbpf();
        let object = if wanted.memory {
            OBJECT_WITH_MEMORY
        } else {
            OBJECT
        };
        let mut halves = OpenHalves::open(&object.0)?;
        let open = &mut halves.first;
        let chunk = UnwindMaps::prepare(open)?;
        prepare(open, config, window, clock, ring_bytes)?;
        if !wanted.kernel_locks {
            leave_out(open, &crate::kernel_locks::PROGRAMS);
        }
        if !wanted.switches {
            leave_out(open, &["on_switched"]);
        }
        let halves = halves.make_maps(&BESIDE)?;
        let chunk = FirstChunk::put(halves.map("chunks")?, chunk)?;
        let halves = halves.load()?;
        let iterator = halves
            .program("on_sweep")?
            .attach_iter_with_opts(libbpf_rs::IterOpts::None)
            .map_err(CollectError::load)?;
        Ok(Programs {
            iterator,
            links: Vec::new(),
            on_switched: None,
            own_clock: None,
            unwind_maps: UnwindMaps::of(halves.maps(), chunk)?,
            halves,
        })
    }

    /// Attaches the programs and starts the clock. They do nothing before [`Programs::set_window`].
    pub fn attach(&mut self, clock: Clock, period_ns: u64) -> Result<(), CollectError> {
        for name in ["on_exec", "on_rename", "on_waking", "on_switch", "on_fork"] {
            self.attach_tracepoint(name)?;
        }
        match clock {
            Clock::Tick => self.attach_tracepoint("on_tick")?,
            Clock::Timer => {
                let clock = self.own_clock.insert(OwnClock::open(period_ns)?);
                for event in clock.events() {
                    // libbpf closes the descriptor it is given with its link.
                    let given = event
                        .try_clone()
                        .map_err(|e| CollectError::from_io("attaching the clock", e, ""))?;
                    let link = self
                        .halves
                        .program("on_clock")?
                        .attach_perf_event(given.into_raw_fd());
                    self.links.push(link.map_err(CollectError::attach)?);
                }
            }
        }
        Ok(())
    }

    /// Says what is accounted, ns of CLOCK_BOOTTIME: threads that live at `start_ns` begin then, also
    /// those adopted before; nothing changes from `end_ns` on, so that a sweep reports them as of then.
    pub fn set_window(&self, start_ns: u64, end_ns: u64) -> Result<(), CollectError> {
        let map = self.map("data.window")?;
        let key = 0u32.to_ne_bytes();
        let now = map.lookup(&key, MapFlags::ANY).map_err(CollectError::map)?;
        let mut bytes = now.ok_or_else(|| CollectError::Internal("no window".to_owned()))?;
        bytes[..8].copy_from_slice(&start_ns.to_ne_bytes());
        bytes[8..16].copy_from_slice(&end_ns.to_ne_bytes());
        map.update(&key, &bytes, MapFlags::ANY)
            .map_err(CollectError::map)
    }

    /// Tells the programs where functions of the kernel are.
    pub fn set_marks(&self, marks: &KernelMarks) -> Result<(), CollectError> {
        let length = |range: &Range<u64>| range.end - range.start;
        let words = [
            marks.tick_function.unwrap_or(u64::MAX),
            marks.bh_enable.start,
            length(&marks.bh_enable),
            marks.entry.start,
            length(&marks.entry),
        ];
        self.set_words("data.kernel_marks", &words)?;
        let orc = &marks.orc;
        let words = [
            orc.ips.start,
            orc.rows,
            orc.len(),
            orc.text.start,
            length(&orc.text),
            marks.switching.start,
            length(&marks.switching),
            marks.return_hooks[0],
            marks.return_hooks[1],
            marks.queue_to_irq_regs.unwrap_or(0),
        ];
        self.set_words("data.orc", &words)
    }

    /// Writes the one value of a map of words.
    fn set_words(&self, map: &str, words: &[u64]) -> Result<(), CollectError> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        self.map(map)?
            .update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY)
            .map_err(CollectError::map)
    }

    /// Attaches a program at the tracepoint that its section names.
    pub fn attach_tracepoint(&mut self, name: &str) -> Result<(), CollectError> {
        let link = self.halves.program(name)?.attach();
        self.links.push(link.map_err(CollectError::attach)?);
        Ok(())
    }

    /// Whether the stacks of waits that have ended are taken at the end of a switch rather than by the threads on their
    /// way back to user space. Those that are owed the other way come in that way.
    pub fn tell_of_switches(&mut self, tell: bool) -> Result<(), CollectError> {
        if tell && self.on_switched.is_none() {
            let link = self.halves.program("on_switched")?.attach();
            self.on_switched = Some(link.map_err(CollectError::attach)?);
        }
        self.map("data.switches")?
            .update(
                &0u32.to_ne_bytes(),
                &u32::from(tell).to_ne_bytes(),
                MapFlags::ANY,
            )
            .map_err(CollectError::map)?;
        if !tell {
            self.on_switched = None;
        }
        Ok(())
    }

    /// Keeps our own clock from locking to anything. Call it often.
    pub fn change_clock(&mut self) -> Result<(), CollectError> {
        self.own_clock.as_mut().map_or(Ok(()), OwnClock::change)
    }

    /// Stops everything but keeps the maps readable.
    pub fn detach(&mut self) {
        self.links.clear();
        self.on_switched = None;
        self.own_clock = None;
    }

    /// Walks over all threads of the system: adopts those of targets, reports those followed.
    pub fn sweep(&self, flags: u32) -> Result<(), CollectError> {
        let map = self.map("data.sweep")?;
        map.update(&0u32.to_ne_bytes(), &flags.to_ne_bytes(), MapFlags::ANY)
            .map_err(CollectError::map)?;
        run(&self.iterator)
    }

    /// Walks over all threads of the system once with another program.
    pub(crate) fn run_iterator(&self, name: &str) -> Result<(), CollectError> {
        let iterator = self
            .halves
            .program(name)?
            .attach_iter_with_opts(libbpf_rs::IterOpts::None)
            .map_err(CollectError::attach)?;
        run(&iterator)
    }

    /// Runs a program that is attached nowhere once.
    pub(crate) fn run_once(&self, name: &str) -> Result<(), CollectError> {
        let ran = self
            .halves
            .program(name)?
            .test_run(libbpf_rs::ProgramInput::default());
        ran.map(drop).map_err(CollectError::map)
    }

    /// Marks a process as one whose threads the next sweep adopts.
    pub fn add_target(&self, tgid: u32) -> Result<(), CollectError> {
        add_target(self.halves.maps(), tgid)
    }

    /// What the unwinder reads.
    pub fn unwind_maps(&self) -> &UnwindMaps {
        &self.unwind_maps
    }

    /// The ring's map, to read records from.
    pub fn ring(&self) -> Result<libbpf_rs::Map<'_>, CollectError> {
        self.map("ring")
    }

    /// The counters, summed over all processors.
    pub fn counters(&self) -> Result<Counters, CollectError> {
        self.sums("counters")
    }

    /// The first numbers of a map that has one for every processor, summed over these.
    pub(crate) fn sums<const N: usize>(&self, name: &str) -> Result<[u64; N], CollectError> {
        let map = self.map(name)?;
        let mut sums = [0; N];
        for (index, sum) in sums.iter_mut().enumerate() {
            let values = map
                .lookup_percpu(&(index as u32).to_ne_bytes(), MapFlags::ANY)
                .map_err(CollectError::map)?;
            for bytes in values.into_iter().flatten() {
                *sum += u64::from_ne_bytes(bytes[..8].try_into().expect("a counter has 8 bytes"));
            }
        }
        Ok(sums)
    }

    /// Time the programs ran, ns, if the kernel counts it (see [`count_run_time`]).
    pub fn run_time_ns(&self) -> Option<u64> {
        let infos: Vec<_> = self
            .halves
            .programs()
            .filter_map(|p| info(p.as_fd()))
            .collect();
        let ns = infos.iter().map(|i| i.run_time_ns).sum();
        infos.iter().any(|i| i.run_cnt > 0).then_some(ns)
    }

    /// A map of the object.
    pub fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, CollectError> {
        map(self.halves.maps(), name)
    }
}

/// A map of an object.
pub(crate) fn map<'o>(object: &'o Object, name: &str) -> Result<libbpf_rs::Map<'o>, CollectError> {
    // libbpf prefixes the maps of data sections with the object's name: match the end.
    object
        .maps()
        .find(|m| m.name() == OsStr::new(name) || m.name().to_string_lossy().ends_with(name))
        .ok_or_else(|| CollectError::Internal(format!("the eBPF object has no map {name}")))
}

/// Notes a process among the `targets` of an object.
pub(crate) fn add_target(object: &Object, tgid: u32) -> Result<(), CollectError> {
    map(object, "targets")?
        .update(&tgid.to_ne_bytes(), &[1], MapFlags::ANY)
        .map_err(CollectError::map)
}

/// What the kernel tells of a program.
pub(crate) fn info(program: BorrowedFd<'_>) -> Option<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the pointers are to a live struct and its size; with no array asked for only it is written.
    let failed =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut len) };
    (failed == 0).then_some(info)
}

/// Has the kernel count the run time of all eBPF programs of the system until the descriptor is closed.
/// That costs every run of one some 20 ns, which is counted too.
pub fn count_run_time() -> Result<OwnedFd, CollectError> {
    // SAFETY: no memory effects.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        let error = std::io::Error::from_raw_os_error(-fd);
        return Err(CollectError::from_io("counting run time", error, ""));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn prepare(
    open: &mut OpenObject,
    config: &Config,
    window: &Window,
    clock: Clock,
    ring_bytes: u32,
) -> Result<(), CollectError> {
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.ends_with("rodata.config") {
            map.set_initial_value(bytes_of(config))
                .map_err(CollectError::load)?;
        } else if name.ends_with("data.window") {
            map.set_initial_value(bytes_of(window))
                .map_err(CollectError::load)?;
        } else if name == "ring" {
            map.set_max_entries(ring_bytes)
                .map_err(CollectError::load)?;
        } else if name == "threads" {
            map.set_max_entries(1 << (64 - window.thread_shift))
                .map_err(CollectError::load)?;
        } else if name == "scratches" {
            let entries = crate::machine::possible_cpus() * 4;
            map.set_max_entries(entries).map_err(CollectError::load)?;
        }
    }
    let unused = if clock == Clock::Tick {
        "on_clock"
    } else {
        "on_tick"
    };
    leave_out(open, &[unused]);
    Ok(())
}

fn run(iterator: &Link) -> Result<(), CollectError> {
    let mut iter = libbpf_rs::Iter::new(iterator).map_err(CollectError::map)?;
    let mut sink = [0u8; 64];
    while iter.read(&mut sink).map_err(CollectError::sweep)? > 0 {}
    Ok(())
}

fn leave_out(open: &mut OpenObject, names: &[&str]) {
    for mut program in open.progs_mut() {
        if names.iter().any(|name| program.name() == OsStr::new(name)) {
            program.set_autoload(false);
        }
    }
}

/// What C sees of a structure without padding.
fn bytes_of<T: CEmit>(value: &T) -> &[u8] {
    // SAFETY: what C is told of is repr(C) and made of integers only; neither of the two that come here has padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A program of an object.
pub(crate) fn program<'a>(
    object: &'a Object,
    name: &str,
) -> Result<libbpf_rs::ProgramMut<'a>, CollectError> {
    object
        .progs_mut()
        .find(|p| p.name() == OsStr::new(name))
        .ok_or_else(|| CollectError::Internal(format!("the eBPF object has no program {name}")))
}
