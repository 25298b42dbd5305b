//! The records of a perf.data file, one by one in the order of time.
//!
//! Buffers of processors are written one after the other, so records are sorted: their places are, 24
//! bytes each, and the records are read again where they lie.
use super::bytes::Bytes;
use super::file::{Event, PerfFile};
use super::sample::{self, Sample};
use crate::{ImportError, Source};
use rustc_hash::FxHashMap;

/// Bytes read ahead.
const AHEAD: usize = 1 << 20;

/// Numbers of records, `PERF_RECORD_*`.
mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    /// perf's own begin here: they are about the file, not about the machine.
    pub const OF_PERF: u32 = 64;
    pub const AUXTRACE: u32 = 71;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// Bits of `misc`.
mod misc {
    pub const MMAP_DATA: u16 = 1 << 13;
    pub const COMM_EXEC: u16 = 1 << 13;
    pub const SWITCH_OUT: u16 = 1 << 13;
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// What a record tells.
#[derive(Clone, Debug)]
pub enum Record<'b> {
    /// A stack, or a tracepoint.
    Sample(Box<Sample<'b>>),
    /// A file was mapped executable.
    Mapped(Mapped),
    /// A thread has a name, and if `exec` a new program.
    Named {
        /// Its process.
        pid: u32,
        /// Itself.
        tid: u32,
        /// Short name.
        name: String,
        /// It is from an exec.
        exec: bool,
    },
    /// A thread or process was made.
    Forked {
        /// Its process.
        pid: u32,
        /// Itself.
        tid: u32,
        /// The process that made it.
        parent: u32,
        /// The thread that made it.
        parent_tid: u32,
    },
    /// A thread ends.
    Ended {
        /// Itself.
        tid: u32,
    },
    /// A thread left a processor.
    Left {
        /// Itself.
        tid: u32,
        /// Its process.
        pid: u32,
        /// It wanted to go on.
        preempted: bool,
    },
    /// A thread got a processor.
    Got {
        /// Itself.
        tid: u32,
        /// Its process.
        pid: u32,
        /// Which one.
        cpu: u32,
    },
    /// The kernel had no room for so many records.
    Lost(u64),
}

/// A file mapped executable.
#[derive(Clone, Debug, Default)]
pub struct Mapped {
    /// Whose; `u32::MAX`: the kernel.
    pub pid: u32,
    /// First actual address.
    pub start: u64,
    /// How long.
    pub len: u64,
    /// Offset in the file.
    pub file_offset: u64,
    /// Path, or a name in brackets.
    pub path: String,
    /// Hex, empty when the record does not tell.
    pub build_id: String,
}

/// Where a record lies.
#[derive(Clone, Copy, Debug)]
struct Located {
    time_ns: u64,
    at: u64,
    size: u16,
}

/// The records of a file.
pub struct Records<'f> {
    source: &'f dyn Source,
    file: &'f PerfFile,
    by_id: FxHashMap<u64, usize>,
    /// Every sample has the id of its event at the same place.
    identified: bool,
    located: Vec<Located>,
    /// The last one was cut off by the end of the file.
    pub cut_off: bool,
}

/// Header of a record: what it is, flags, its whole length.
fn header(bytes: &[u8]) -> Option<(u32, u16, u16)> {
    let mut b = Bytes::new(bytes);
    Some((b.u32()?, b.u16()?, b.u16()?))
}

impl<'f> Records<'f> {
    /// Finds every record and shows it to `seen`, in the order of the file.
    pub fn locate(
        source: &'f dyn Source,
        file: &'f PerfFile,
        mut seen: impl FnMut(u64, &Record<'_>, Option<usize>),
    ) -> Result<Self, ImportError> {
        let ids = file.events.iter().zip(0..);
        let by_id = ids.flat_map(|(event, i)| event.ids.iter().map(move |id| (*id, i)));
        let mut records = Records {
            source,
            file,
            by_id: by_id.collect(),
            identified: sample::identified(&file.events)?,
            located: Vec::new(),
            cut_off: false,
        };
        let mut at = file.records.start;
        let mut window = Window::default();
        while at < file.records.end {
            let Some(bytes) = window.record(source, at, file.records.end)? else {
                records.cut_off = true;
                break;
            };
            let Some((kind, _, size)) = header(bytes).filter(|h| h.2 >= 8) else {
                return Err(ImportError::damaged("a record has no length", at));
            };
            let mut next = at + u64::from(size);
            match kind {
                kind::COMPRESSED | kind::COMPRESSED2 => {
                    return Err(ImportError::Unsupported(
                        "compressed perf.data is not read: record without -z".into(),
                    ));
                }
                // What a processor traced follows the record.
                kind::AUXTRACE => {
                    let more = Bytes::new(&bytes[8..]).u64().unwrap_or(0);
                    next = next.saturating_add(more);
                }
                _ => {}
            }
            if let Some((time_ns, record, event)) = records.parse(bytes, at)? {
                seen(time_ns, &record, event);
                records.located.push(Located { time_ns, at, size });
            }
            at = next;
        }
        records.located.sort_by_key(|r| r.time_ns);
        Ok(records)
    }

    /// Shows every record to `take`, in the order of time.
    pub fn each(
        &self,
        mut take: impl FnMut(u64, Record<'_>, Option<usize>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let mut bytes = Vec::new();
        for located in &self.located {
            bytes.resize(usize::from(located.size), 0);
            self.source.read_at(located.at, &mut bytes)?;
            if let Some((time_ns, record, event)) = self.parse(&bytes, located.at)? {
                take(time_ns, record, event)?;
            }
        }
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.located.len()
    }

    /// A record with its time and its event; none for those that tell nothing that is wanted.
    #[allow(clippy::type_complexity)] // three things that belong together here only
    fn parse<'b>(
        &self,
        bytes: &'b [u8],
        at: u64,
    ) -> Result<Option<(u64, Record<'b>, Option<usize>)>, ImportError> {
        let Some((kind, misc, _)) = header(bytes).filter(|h| h.0 < kind::OF_PERF) else {
            return Ok(None);
        };
        let body = &bytes[8..];
        let parsed = if kind == kind::SAMPLE {
            let event = self.event_of_sample(body);
            let event = event.ok_or_else(|| ImportError::damaged("a sample is of no event", at))?;
            let sample = Sample::parse(body, &self.file.events[event]);
            sample.map(|s| (s.time_ns, Record::Sample(Box::new(s)), Some(event)))
        } else {
            self.other(kind, misc, body)
                .map(|(time, record)| (time, record, None))
        };
        match parsed {
            Some(parsed) => Ok(Some(parsed)),
            None if Self::is_wanted(kind) => Err(ImportError::damaged(
                format!("a record of type {kind} is cut short"),
                at,
            )),
            None => Ok(None),
        }
    }

    fn is_wanted(kind: u32) -> bool {
        matches!(
            kind,
            kind::MMAP
                | kind::LOST
                | kind::COMM
                | kind::EXIT
                | kind::FORK
                | kind::SAMPLE
                | kind::LOST_SAMPLES
        )
    }

    fn event_of_sample(&self, body: &[u8]) -> Option<usize> {
        let first = self.file.events.first()?;
        if self.file.events.len() == 1 {
            return Some(0);
        }
        let id = if self.identified {
            Bytes::new(body).u64()?
        } else {
            sample::id(body, first)?
        };
        self.by_id.get(&id).copied()
    }

    /// Records that are no samples.
    fn other<'b>(&self, kind: u32, misc: u16, body: &'b [u8]) -> Option<(u64, Record<'b>)> {
        let event = self.file.events.first()?;
        let who = sample::trailer(body, self.event_of_other(body).unwrap_or(event));
        let mut b = Bytes::new(body);
        let mut time_ns = who.time_ns;
        let record = match kind {
            kind::MMAP | kind::MMAP2 => mapped(kind, misc, b)?,
            kind::LOST => Record::Lost(b.u64().and_then(|_| b.u64())?),
            kind::LOST_SAMPLES => Record::Lost(b.u64()?),
            kind::COMM => Record::Named {
                pid: b.u32()?,
                tid: b.u32()?,
                name: b.c_text()?,
                exec: misc & misc::COMM_EXEC != 0,
            },
            kind::FORK | kind::EXIT => {
                let (pid, parent, tid, parent_tid) = (b.u32()?, b.u32()?, b.u32()?, b.u32()?);
                time_ns = b.u64()?;
                if kind == kind::EXIT {
                    Record::Ended { tid }
                } else {
                    Record::Forked {
                        pid,
                        tid,
                        parent,
                        parent_tid,
                    }
                }
            }
            kind::SWITCH | kind::SWITCH_CPU_WIDE => {
                let (pid, tid) = who.pid_tid?;
                if misc & misc::SWITCH_OUT != 0 {
                    let preempted = misc & misc::SWITCH_OUT_PREEMPT != 0;
                    Record::Left {
                        tid,
                        pid,
                        preempted,
                    }
                } else {
                    Record::Got {
                        tid,
                        pid,
                        cpu: who.cpu,
                    }
                }
            }
            _ => return None,
        };
        Some((time_ns, record))
    }

    fn event_of_other(&self, body: &[u8]) -> Option<&'f Event> {
        if !self.identified {
            return None;
        }
        let id = body.len().checked_sub(8)?;
        let id = Bytes::new(&body[id..]).u64()?;
        self.by_id.get(&id).map(|i| &self.file.events[*i])
    }
}

fn mapped<'b>(kind: u32, misc: u16, mut b: Bytes<'b>) -> Option<Record<'b>> {
    const EXECUTABLE: u32 = 4;
    let (pid, _tid) = (b.u32()?, b.u32()?);
    let (start, len, file_offset) = (b.u64()?, b.u64()?, b.u64()?);
    let mut build_id = String::new();
    if kind == kind::MMAP2 {
        let file = b.take(24)?;
        if misc & misc::MMAP_BUILD_ID != 0 {
            let len = usize::from(file[0].min(20));
            build_id = super::file::hex(&file[4..4 + len]);
        }
        let protection = b.u32()?;
        let _flags = b.u32()?;
        if protection & EXECUTABLE == 0 {
            return None;
        }
    } else if misc & misc::MMAP_DATA != 0 {
        return None;
    }
    Some(Record::Mapped(Mapped {
        pid,
        start,
        len,
        file_offset,
        path: b.c_text()?,
        build_id,
    }))
}

/// A stretch of the file in memory.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The record at a place; none when it goes beyond `end`.
    fn record(
        &mut self,
        source: &dyn Source,
        at: u64,
        end: u64,
    ) -> Result<Option<&[u8]>, ImportError> {
        let left = end.saturating_sub(at);
        if left < 8 {
            return Ok(None);
        }
        let head = self.get(source, at, 8, end)?;
        let size = header(head).map_or(0, |h| u64::from(h.2)).max(8);
        if size > left {
            return Ok(None);
        }
        Ok(Some(self.get(source, at, size, end)?))
    }

    fn get(
        &mut self,
        source: &dyn Source,
        at: u64,
        len: u64,
        end: u64,
    ) -> Result<&[u8], ImportError> {
        let inside = at >= self.start && at + len <= self.start + self.bytes.len() as u64;
        if !inside {
            let wanted = (AHEAD as u64).min(end - at).max(len);
            self.bytes.resize(wanted as usize, 0);
            self.start = at;
            source.read_at(at, &mut self.bytes)?;
        }
        let from = (at - self.start) as usize;
        Ok(&self.bytes[from..from + len as usize])
    }
}
