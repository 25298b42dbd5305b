//! Attaches to a process, reads, and lets go.
use crate::events::{Drained, Reader};
use crate::hooks::{MUSL_WAITS, SPIN_ENTRY, SPIN_LOCK, SPINS};
use crate::libc::{Libc, may_elide};
use crate::totals::{self, Snapshot, bytes_of};
use crate::wanted::{Wanted, is_counted, is_retake};
use dwell_agent::locks::layout::{INSIDE, Settings, State, Totals, libc};
use dwell_patch::plan::{Place, begins_transaction};
use dwell_patch::process::{Module, Pause, Restored, Spot, modules};
use dwell_patch::{Attachment, PatchError, Refusal};
use std::collections::HashMap;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::LazyLock;
use thiserror::Error;

/// Why the locks of a process cannot be counted.
#[derive(Debug, Error)]
pub enum LocksError {
    /// None of its files has the functions.
    #[error(
        "process {0} has no pthread_mutex_lock that can be found: it is Go, or static and stripped"
    )]
    NoFunctions(i32),
    /// It cannot be patched.
    #[error(transparent)]
    Patch(#[from] PatchError),
}

/// A part of a function of libc that could not be hooked: what passes there is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The function that was wanted.
    pub function: &'static str,
    /// The file.
    pub path: String,
    /// Stated address of the part.
    pub address: u64,
    /// Which part.
    pub place: Place,
    /// Why.
    pub refusal: Refusal,
}

/// A process whose locks are being counted.
pub struct Locks {
    attachment: Attachment,
    libc: Libc,
    missed: Vec<Missed>,
    sees_spinning: bool,
    events: Reader,
}

impl Locks {
    /// Hooks the lock functions of a process.
    pub fn attach(pid: i32) -> Result<Locks, LocksError> {
        let modules = modules(pid)?;
        let Some((module, libc)) = find(&modules) else {
            return Err(LocksError::NoFunctions(pid));
        };
        let wanted = Wanted::of(module, libc, true)?;
        let locks = Locks::with(pid, module, libc, &wanted)?;
        let is_retake_missed = |locks: &Locks| {
            let mut spots = locks.attachment.spots().iter();
            spots.any(|s| s.refusal.is_some() && is_retake(&wanted.probes[s.probe]))
        };
        if !is_retake_missed(&locks) {
            return Ok(locks);
        }
        // Half of it would count wrongly: the end of the wait for the condition stands for it then.
        locks.detach()?;
        Locks::with(pid, module, libc, &Wanted::of(module, libc, false)?)
    }

    fn with(pid: i32, module: &Module, libc: Libc, wanted: &Wanted) -> Result<Locks, LocksError> {
        let settings = Settings {
            retakes: u64::from(wanted.has_retake()),
            ..settings(pid, module, libc)?
        };
        let state = dwell_patch::State {
            own_len: offset_of!(State, totals) as u64,
            shared_len: size_of::<Totals>() as u64,
            head: bytes_of(&settings),
            is_common: false,
        };
        let attachment = Attachment::with_state(pid, &wanted.probes, &state)?;
        // libc passes there only where it elides locks.
        let is_never_passed = |s: &Spot| {
            let is_spared =
                |image| begins_transaction(&image, s.function) && !may_elide(pid, &image);
            module.image().is_ok_and(is_spared)
        };
        let counted = |s: &&Spot| is_counted(&wanted.probes[s.probe]);
        let missed = |spot: &Spot| {
            let refusal = spot.refusal.filter(|_| !is_never_passed(spot))?;
            Some(Missed {
                function: wanted.names[spot.probe],
                path: spot.path.clone(),
                address: spot.function,
                place: wanted.probes[spot.probe].place,
                refusal,
            })
        };
        let missed: Vec<Missed> = attachment
            .spots()
            .iter()
            .filter(counted)
            .filter_map(missed)
            .collect();
        let spin_hook = if libc == Libc::Musl {
            SPIN_ENTRY
        } else {
            SPINS
        };
        Ok(Locks {
            events: Reader::new(attachment.states()),
            sees_spinning: wanted.probes.iter().any(|p| p.hook == spin_hook)
                && !missed.iter().any(|m| m.function == SPIN_LOCK),
            attachment,
            libc,
            missed,
        })
    }

    /// Whether it is seen that a thread waits for a spin lock.
    pub fn sees_spinning(&self) -> bool {
        self.sees_spinning
    }

    /// Whose functions were hooked.
    pub fn libc(&self) -> Libc {
        self.libc
    }

    /// What could not be hooked.
    pub fn missed(&self) -> &[Missed] {
        &self.missed
    }

    /// What attaching cost the process.
    pub fn pause(&self) -> Pause {
        self.attachment.pause()
    }

    /// Where in the process code of ours is.
    pub fn code(&self) -> Vec<Range<u64>> {
        self.attachment.code()
    }

    /// Where in the process threads stand that wake others, within [`Locks::code`]: their stack is as it was when
    /// they called.
    pub fn waking(&self) -> Vec<u64> {
        let agents = self.attachment.agents();
        agents
            .iter()
            .map(|a| a + dwell_agent::WOKE_OFFSET)
            .collect()
    }

    /// Whether it is still counted: the process has not ended, nor become another program.
    pub fn is_attached(&self) -> bool {
        self.attachment.is_there()
    }

    /// Whether what was counted can be read after the process has ended, or become another program.
    pub fn outlive_process(&self) -> bool {
        self.attachment.is_shared()
    }

    /// What was counted so far. None once the process has ended or become another program, unless
    /// [`Locks::outlive_process`].
    pub fn snapshot(&self) -> Option<Snapshot> {
        read(&self.attachment)
    }

    /// Where calls return to that made locks, by the address of the lock: those that were not destroyed, and of very
    /// many not all.
    pub fn makers(&self) -> HashMap<u64, u64> {
        let states = 0..self.attachment.states();
        let of = |state| {
            totals::makers(|offset, bytes| read_totals(&self.attachment, state, offset, bytes))
        };
        states
            .filter_map(|state| of(state).ok())
            .flatten()
            .collect()
    }

    /// What was told of contended operations since the last time. What comes in the last instants before is
    /// told the next time.
    pub fn events(&mut self) -> Drained {
        let Locks {
            attachment, events, ..
        } = self;
        events.drain(|state, offset, bytes| read_totals(attachment, state, offset, bytes))
    }

    /// Gives the process its own code back, and reads what was counted up to then, or up to its end;
    /// none as for [`Locks::snapshot`].
    pub fn detach(self) -> Result<(Option<Snapshot>, Restored), PatchError> {
        let (last, _, restored) = self.detach_with_events()?;
        Ok((last, restored))
    }

    /// The same, with all events that are left.
    pub fn detach_with_events(self) -> Result<(Option<Snapshot>, Drained, Restored), PatchError> {
        let Locks {
            attachment,
            mut events,
            ..
        } = self;
        let (mut last, mut drained) = (None, Drained::default());
        let restored = attachment.detach_after(|attachment| {
            last = read(attachment);
            drained =
                events.finish(|state, offset, bytes| read_totals(attachment, state, offset, bytes));
        })?;
        Ok((last, drained, restored))
    }
}

fn read(attachment: &Attachment) -> Option<Snapshot> {
    totals::read(attachment.states(), |state, offset, bytes| {
        read_totals(attachment, state, offset, bytes)
    })
    .ok()
}

fn read_totals(
    attachment: &Attachment,
    state: usize,
    offset: usize,
    bytes: &mut [u8],
) -> io::Result<()> {
    const TOTALS: u64 = offset_of!(State, totals) as u64;
    attachment.read_state(state, TOTALS + offset as u64, bytes)
}

/// The file that defines the lock functions. Before 2.34 glibc had them in `libpthread`, and only a way
/// there in `libc`.
fn find(modules: &[Module]) -> Option<(&Module, Libc)> {
    let mut found = modules.iter().filter_map(|module| {
        let image = module.image().ok()?;
        Some((module, Libc::of(&image)?))
    });
    let first = found.next()?;
    let is_better = |(module, _): &(&Module, Libc)| module.path().contains("/libpthread");
    Some(found.find(is_better).unwrap_or(first))
}

fn settings(pid: i32, module: &Module, libc: Libc) -> Result<Settings, PatchError> {
    let mut settings = Settings {
        pid: pid as u64,
        events: u64::from(libc != Libc::Unknown && has_steady_clock()),
        was_confined: u64::from(is_confined(pid)),
        ..Settings::default()
    };
    match libc {
        Libc::Glibc(known) => {
            settings.libc = libc::GLIBC;
            settings.tid_offset = known.tid_offset;
            settings.robust_offset = known.robust_offset.map_or(0, u64::from);
            if let Some(cancellation) = known.semaphore {
                settings.cancel_offset = cancellation.offset.into();
                settings.cancel_mask = cancellation.mask.into();
                settings.cancelled = cancellation.value.into();
            }
        }
        Libc::Musl => {
            settings.libc = libc::MUSL;
            settings.inside = waits(module)?;
        }
        Libc::Unknown => {}
    }
    Ok(settings)
}

/// Whether a thread of a process runs under a filter of system calls, or may make next to none.
fn is_confined(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().any(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let mut lines = status.lines();
        let mode = lines.find_map(|line| line.strip_prefix("Seccomp:"));
        mode.is_some_and(|mode| mode.trim() != "0")
    })
}

/// Whether the processors' time stamp counters never stop and go at one speed, so that a time can be told
/// from theirs: without, no events are written.
pub(crate) fn has_steady_clock() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let flags = info.lines().find(|l| l.starts_with("flags"));
        let has = |flag| flags.is_some_and(|f| f.split_whitespace().any(|f| f == flag));
        has("constant_tsc") && has("nonstop_tsc")
    });
    *HAS
}

/// Where musl waits by trying.
fn waits(module: &Module) -> Result<[[u64; 2]; INSIDE], PatchError> {
    let image = module.image()?;
    let mut found = [[0; 2]; INSIDE];
    const { assert!(MUSL_WAITS.len() <= INSIDE) };
    for (range, name) in found.iter_mut().zip(MUSL_WAITS) {
        let symbol = image.symbols().find(|s| s.name == name.as_bytes());
        let function = symbol.and_then(|s| image.function(s.address).ok());
        if let Some(function) = function {
            let start = function.start.wrapping_add(module.bias());
            *range = [start, function.end - function.start];
        }
    }
    Ok(found)
}
