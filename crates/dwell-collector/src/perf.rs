//! perf events: our own clock, and the kernel's reports of new executable mappings and of code of its own.
use crate::error::{CollectError, PRIVILEGES};
use crate::kernel_code::KernelSymbol;
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_DUMMY, PERF_FLAG_FD_CLOEXEC, PERF_RECORD_COMM,
    PERF_RECORD_EXIT, PERF_RECORD_FORK, PERF_RECORD_KSYMBOL, PERF_RECORD_LOST,
    PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_MMAP2, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    PERF_TYPE_SOFTWARE, perf_event_attr, perf_event_mmap_page,
};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{Ordering, fence};

/// Data pages of a ring of mapping reports: 512 KiB hold some 4 000 of them. More an ordinary user may not have
/// (kernel.perf_event_mlock_kb).
const RING_PAGES: usize = 128;
const PAGE: usize = 4096;
/// Unread bytes at which a reader is woken. Most reports are of other processes, so nobody waits for
/// them; the reader comes by often enough.
const WAKEUP_BYTES: u32 = (RING_PAGES * PAGE / 2) as u32;

/// An executable mapping that came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapEvent {
    /// ns of CLOCK_BOOTTIME.
    pub time: u64,
    /// Process, root namespace.
    pub pid: u32,
    /// First actual address.
    pub start: u64,
    /// First actual address past the end.
    pub end: u64,
    /// Offset in the file, bytes.
    pub file_offset: u64,
    /// Device of the file's file system, as in `st_dev`; 0 when there is no file.
    pub device: u64,
    /// Inode of the file, 0 when there is none.
    pub inode: u64,
    /// Path as the process sees it; `//anon` and names in brackets for memory without a file.
    pub path: String,
}

fn open(attr: &mut perf_event_attr, cpu: u32, what: &str) -> Result<OwnedFd, CollectError> {
    attr.size = size_of::<perf_event_attr>() as u32;
    attr.type_ = PERF_TYPE_SOFTWARE;
    // SAFETY: `attr` is a valid attribute of the size it states; the call only reads it.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(attr, -1, cpu as i32, -1, PERF_FLAG_FD_CLOEXEC.into())
    };
    if fd < 0 {
        return Err(CollectError::system(what, PRIVILEGES));
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A timer on one processor that fires every `period_ns`.
pub fn open_clock(cpu: u32, period_ns: u64) -> Result<OwnedFd, CollectError> {
    let mut attr = perf_event_attr {
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = period_ns;
    attr.set_exclude_idle(1);
    open(&mut attr, cpu, "opening a perf cpu-clock event")
}

/// A new period for a clock of [`open_clock`]; it starts anew.
pub fn set_period(clock: &OwnedFd, period_ns: u64) -> Result<(), CollectError> {
    // The binding is declared to take the number, but the kernel reads it through a pointer.
    let at = (&raw const period_ns) as u64;
    // SAFETY: the ioctl reads one u64 at that address, which is valid during the call.
    match unsafe { perf_event_open_sys::ioctls::PERIOD(clock.as_raw_fd(), at) } {
        0 => Ok(()),
        _ => Err(CollectError::system(
            "changing the period of a perf event",
            PRIVILEGES,
        )),
    }
}

/// A step in the life of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeEvent {
    /// ns of CLOCK_BOOTTIME.
    pub time: u64,
    /// Process, root namespace.
    pub pid: u32,
    /// What happens to it.
    pub step: LifeStep,
}

/// See [`LifeEvent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifeStep {
    /// It begins, as a copy of this process.
    Fork(u32),
    /// It begins another program, of this name: nothing of that is mapped yet.
    Exec(String),
    /// Its first thread ends, and as a rule the process.
    Exit,
}

/// What the kernel reported.
#[derive(Default)]
pub struct Reports {
    /// Beginnings and ends of processes, if they were asked for.
    pub lives: Vec<LifeEvent>,
    /// New executable mappings.
    pub maps: Vec<MapEvent>,
    /// Code that came to the kernel, or left it.
    pub kernel: Vec<KernelSymbol>,
    /// Number of reports that were lost.
    pub lost: u64,
}

/// Reports of new executable mappings, and of new code of the kernel, on one processor.
pub struct MapEvents {
    fd: OwnedFd,
    base: *mut u8,
}

// SAFETY: the mapping is owned by this value alone and is only read through &mut self.
unsafe impl Send for MapEvents {}

impl MapEvents {
    /// Opens the reports of a processor.
    pub fn open(cpu: u32) -> Result<Self, CollectError> {
        Self::open_with(cpu, |attr| {
            attr.__bindgen_anon_2.wakeup_watermark = WAKEUP_BYTES;
        })
    }

    /// The same with processes' lives; the reader is woken by every report.
    pub fn open_with_lives(cpu: u32) -> Result<Self, CollectError> {
        Self::open_with(cpu, |attr| {
            attr.set_task(1);
            attr.set_comm(1);
            attr.set_comm_exec(1);
            attr.__bindgen_anon_2.wakeup_watermark = 1;
        })
    }

    fn open_with(cpu: u32, set: impl FnOnce(&mut perf_event_attr)) -> Result<Self, CollectError> {
        let mut attr = perf_event_attr {
            config: PERF_COUNT_SW_DUMMY.into(),
            ..Default::default()
        };
        attr.set_mmap(1);
        attr.set_mmap2(1);
        attr.set_ksymbol(1);
        attr.set_sample_id_all(1);
        attr.sample_type = u64::from(PERF_SAMPLE_TID) | u64::from(PERF_SAMPLE_TIME);
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_BOOTTIME;
        attr.set_watermark(1);
        set(&mut attr);
        let fd = open(&mut attr, cpu, "opening a perf event for new mappings")?;
        // SAFETY: a fresh shared mapping of the event's ring, at an address the kernel chooses.
        let base = unsafe {
            let length = (RING_PAGES + 1) * PAGE;
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(CollectError::system(
                "mapping a perf ring",
                "raise /proc/sys/kernel/perf_event_mlock_kb",
            ));
        }
        Ok(MapEvents {
            fd,
            base: base.cast(),
        })
    }

    /// The descriptor to poll: readable when much has come.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Appends the reports that have come since the last call.
    pub fn drain(&mut self, into: &mut Reports) {
        let page: *mut perf_event_mmap_page = self.base.cast();
        // SAFETY: `page` is the ring's control page, mapped as long as self lives; the kernel
        // writes data_head, we alone write data_tail.
        let (head, mut tail) = unsafe {
            (
                std::ptr::read_volatile(&raw const (*page).data_head),
                (*page).data_tail,
            )
        };
        fence(Ordering::Acquire);
        let mut record = Vec::new();
        while tail + 8 <= head {
            self.copy(tail, 8, &mut record);
            let size = usize::from(u16::from_ne_bytes([record[6], record[7]]));
            if size < 8 || tail + size as u64 > head {
                break;
            }
            self.copy(tail, size, &mut record);
            match u32::from_ne_bytes(record[..4].try_into().expect("four bytes")) {
                PERF_RECORD_MMAP2 => into.maps.extend(parse_mmap2(&record)),
                PERF_RECORD_KSYMBOL => into.kernel.extend(parse_ksymbol(&record)),
                PERF_RECORD_COMM | PERF_RECORD_FORK | PERF_RECORD_EXIT => {
                    into.lives.extend(parse_life(&record));
                }
                PERF_RECORD_LOST => into.lost += read_u64(&record, 16).unwrap_or(1),
                _ => {}
            }
            tail += size as u64;
        }
        fence(Ordering::SeqCst);
        // SAFETY: as above; the kernel reads data_tail to know what it may overwrite.
        unsafe { std::ptr::write_volatile(&raw mut (*page).data_tail, tail) };
    }

    fn copy(&self, from: u64, size: usize, to: &mut Vec<u8>) {
        const RING: usize = RING_PAGES * PAGE;
        to.clear();
        let at = from as usize % RING;
        let first = size.min(RING - at);
        // SAFETY: both parts lie inside the data area of RING bytes that follows the control page.
        unsafe {
            let data = self.base.add(PAGE);
            to.extend_from_slice(std::slice::from_raw_parts(data.add(at), first));
            to.extend_from_slice(std::slice::from_raw_parts(data, size - first));
        }
    }
}

impl Drop for MapEvents {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what open() mapped; nothing borrows it any more.
        unsafe { libc::munmap(self.base.cast(), (RING_PAGES + 1) * PAGE) };
    }
}

fn read_u64(record: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?))
}

fn read_u32(record: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?))
}

/// Layout in perf_event_open(2), PERF_RECORD_MMAP2, followed by pid, tid and time of sample_id_all.
fn parse_mmap2(record: &[u8]) -> Option<MapEvent> {
    let (start, length) = (read_u64(record, 16)?, read_u64(record, 24)?);
    let path = name_at(record, 72)?;
    Some(MapEvent {
        time: read_u64(record, record.len() - 8)?,
        pid: read_u32(record, 8)?,
        start,
        end: start.checked_add(length)?,
        file_offset: read_u64(record, 32)?,
        device: libc::makedev(read_u32(record, 40)?, read_u32(record, 44)?),
        inode: read_u64(record, 48)?,
        // A file that is in memory alone is "deleted" from the beginning.
        path: dwell_maps::without_remark(&path).into(),
    })
}

/// Layouts as above, PERF_RECORD_COMM, PERF_RECORD_FORK, PERF_RECORD_EXIT. None for threads other than the first, and
/// for names that come without a program.
fn parse_life(record: &[u8]) -> Option<LifeEvent> {
    let (kind, misc) = (
        read_u32(record, 0)?,
        u16::from_ne_bytes([record[4], record[5]]),
    );
    let pid = read_u32(record, 8)?;
    let step = match kind {
        PERF_RECORD_COMM if u32::from(misc) & PERF_RECORD_MISC_COMM_EXEC != 0 => {
            LifeStep::Exec(name_at(record, 16)?)
        }
        PERF_RECORD_FORK if pid == read_u32(record, 16)? => LifeStep::Fork(read_u32(record, 12)?),
        PERF_RECORD_EXIT if pid == read_u32(record, 16)? => LifeStep::Exit,
        _ => return None,
    };
    Some(LifeEvent {
        time: read_u64(record, record.len() - 8)?,
        pid,
        step,
    })
}

/// Layout as above, PERF_RECORD_KSYMBOL. What leaves is as good to know as what comes.
fn parse_ksymbol(record: &[u8]) -> Option<KernelSymbol> {
    let start = read_u64(record, 8)?;
    Some(KernelSymbol {
        time: read_u64(record, record.len() - 8)?,
        start,
        end: start.checked_add(read_u32(record, 16)?.into())?,
        name: name_at(record, 24)?,
    })
}

/// The NUL-padded name that goes from `at` to the sample_id at the end.
fn name_at(record: &[u8], at: usize) -> Option<String> {
    let name = record.get(at..record.len().checked_sub(16)?)?;
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    Some(String::from_utf8_lossy(&name[..end]).into_owned())
}
