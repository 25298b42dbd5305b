//! The parts of a perf.data file: header, events, sections about the machine.
//!
//! Layout: `tools/perf/Documentation/perf.data-file-format.txt` in Linux. This is a reader of our own because
//! the crates there are take sizes that a file states for granted (they allocate, multiply and assert
//! with them), and a hostile file would end dwell with them.
use super::bytes::Bytes;
use super::tracing::{self, Tracepoints};
use crate::{ImportError, Source};
use std::ops::Range;

/// Largest section about the machine that is read, bytes: ten times a large one's.
const MAX_SECTION: u64 = 64 << 20;
/// Most events of a file.
const MAX_EVENTS: u64 = 4096;
/// Most ids of one event: one for each processor and thread.
const MAX_IDS: u64 = 1 << 20;
/// Size of the header of a file, bytes; a piped stream's is 16.
const HEADER: u64 = 104;
/// Size of the first published `perf_event_attr`.
const SMALLEST_ATTR: u64 = 64;

/// Numbers of the sections, `HEADER_*` in perf.
mod section {
    pub const TRACING_DATA: usize = 1;
    pub const BUILD_ID: usize = 2;
    pub const HOSTNAME: usize = 3;
    pub const OSRELEASE: usize = 4;
    pub const VERSION: usize = 5;
    pub const ARCH: usize = 6;
    pub const NRCPUS: usize = 7;
    pub const CMDLINE: usize = 11;
    pub const EVENT_DESC: usize = 12;
    pub const DIR_FORMAT: usize = 24;
    pub const CLOCK_DATA: usize = 29;
    pub const COUNT: usize = 256;
}

/// One event that was counted (`perf_event_attr`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// `cpu-clock`, `sched:sched_switch` …; empty when unknown.
    pub name: String,
    /// `PERF_TYPE_*`.
    pub kind: u32,
    /// Which one of the type; of tracepoints the id.
    pub config: u64,
    /// Period, or frequency.
    pub period: u64,
    /// `PERF_SAMPLE_*`.
    pub sample_type: u64,
    /// `PERF_FORMAT_*`.
    pub read_format: u64,
    /// `PERF_SAMPLE_BRANCH_*`.
    pub branch_type: u64,
    /// Registers of user space in a sample.
    pub user_registers: u64,
    /// Registers at the interrupt in a sample.
    pub interrupt_registers: u64,
    /// `period` is a frequency.
    pub by_frequency: bool,
    /// Records that are no samples end in who, when and where.
    pub sample_id_all: bool,
    /// Records tell of switches.
    pub switches: bool,
    /// By which samples tell that they are of this event.
    pub ids: Vec<u64>,
}

impl Event {
    /// Whether each of its occurrences has a sample, not only some of them.
    pub fn tells_each(&self) -> bool {
        !self.by_frequency && self.period <= 1
    }
}

/// The build id of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildId {
    /// Its path.
    pub path: String,
    /// Hex.
    pub build_id: String,
}

/// What a file tells apart from its records.
#[derive(Clone, Debug, Default)]
pub struct PerfFile {
    /// Where its records are.
    pub records: Range<u64>,
    /// perf was killed: it had no time to write where records end, and what machine this is.
    pub cut_short: bool,
    /// Every event.
    pub events: Vec<Event>,
    /// Files with code.
    pub build_ids: Vec<BuildId>,
    /// Where tracepoints have their fields.
    pub tracepoints: Tracepoints,
    /// Name of the machine.
    pub host: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub arch: String,
    /// Of perf.
    pub version: String,
    /// Of perf.
    pub command_line: Vec<String>,
    /// Processors on line.
    pub cpus: u32,
    /// An instant by the records' clock, and by the wall clock (since 1970).
    pub clock: Option<(u64, u64)>,
}

/// Reads everything but the records.
pub fn read(source: &dyn Source) -> Result<PerfFile, ImportError> {
    let header = bytes(source, 0..16, "the header")?;
    let mut reader = Bytes::new(&header);
    let (magic, size) = (reader.u64().unwrap_or(0), reader.u64().unwrap_or(0));
    refuse_foreign(&magic.to_le_bytes(), size)?;
    let header = bytes(source, 16..HEADER, "the header")?;
    let mut header = Bytes::new(&header);
    let mut next = || header.u64().unwrap_or(0);
    let attr_size = next();
    let attrs = (next(), next());
    let data = (next(), next());
    let _event_types = (next(), next());
    let features: [u64; section::COUNT / 64] = std::array::from_fn(|_| next());
    let mut file = PerfFile {
        cut_short: data.1 == 0,
        records: range(source, data, "the records")?,
        ..PerfFile::default()
    };
    if file.cut_short {
        file.records = data.0..source.len();
    }
    file.events = events(source, attr_size, attrs)?;
    let places = file.records.end;
    if !file.cut_short {
        let set = (0..section::COUNT).filter(|f| features[f / 64] >> (f % 64) & 1 == 1);
        for (feature, at) in set.zip((places..).step_by(16)) {
            let place = bytes(source, at..at.saturating_add(16), "the list of sections")?;
            let mut place = Bytes::new(&place);
            let place = (place.u64().unwrap_or(0), place.u64().unwrap_or(0));
            file.section(source, feature, place)?;
        }
    }
    Ok(file)
}

fn refuse_foreign(magic: &[u8; 8], size: u64) -> Result<(), ImportError> {
    let unsupported = |text: &str| Err(ImportError::Unsupported(text.into()));
    match magic {
        b"PERFILE2" if size == 16 => unsupported(
            "perf.data as perf writes it to a pipe is not read: let perf write to a file (perf record -o perf.data)",
        ),
        b"PERFILE2" if size >= HEADER => Ok(()),
        b"PERFILE2" => Err(ImportError::damaged(
            "the header has a size that no perf writes",
            8,
        )),
        b"2ELIFREP" => unsupported("perf.data of a big-endian machine is not read"),
        b"PERFFILE" => unsupported("perf.data of a perf older than Linux 3.0 is not read"),
        _ => unsupported("not a perf.data file: it does not begin with PERFILE2"),
    }
}

/// The bytes at a place that must lie in the file.
fn bytes(source: &dyn Source, place: Range<u64>, what: &str) -> Result<Vec<u8>, ImportError> {
    let len = place.end.saturating_sub(place.start);
    if place.end > source.len() || len > MAX_SECTION {
        return Err(ImportError::damaged(
            format!("{what} does not lie in the file"),
            place.start,
        ));
    }
    let mut bytes = vec![0; len as usize];
    source.read_at(place.start, &mut bytes)?;
    Ok(bytes)
}

fn range(source: &dyn Source, place: (u64, u64), what: &str) -> Result<Range<u64>, ImportError> {
    let end = place.0.checked_add(place.1);
    match end.filter(|end| *end <= source.len()) {
        Some(end) => Ok(place.0..end),
        None => Err(ImportError::damaged(
            format!("{what} do not lie in the file"),
            place.0,
        )),
    }
}

fn events(source: &dyn Source, size: u64, place: (u64, u64)) -> Result<Vec<Event>, ImportError> {
    let damaged = |what: &str| ImportError::damaged(what, place.0);
    let place = range(source, place, "the events")?;
    let count = (place.end - place.start).checked_div(size).unwrap_or(0);
    let sizes = SMALLEST_ATTR + 16..=4096;
    if !sizes.contains(&size) || count == 0 || count > MAX_EVENTS {
        return Err(damaged("the list of events does not fit its size"));
    }
    let all = bytes(source, place, "the list of events")?;
    let mut events = Vec::new();
    for entry in all.chunks_exact(size as usize) {
        let (attr, ids) = entry.split_at(size as usize - 16);
        let mut event = event(attr).ok_or_else(|| damaged("an event is cut short"))?;
        let mut ids = Bytes::new(ids);
        let ids = (ids.u64().unwrap_or(0), ids.u64().unwrap_or(0));
        let ids = range(source, ids, "an event's ids")?;
        if ids.end - ids.start > MAX_IDS * 8 {
            return Err(damaged("an event has more ids than a machine can give it"));
        }
        let ids = bytes(source, ids, "an event's ids")?;
        event.ids = Bytes::new(&ids)
            .u64s(ids.len() as u64 / 8)
            .into_iter()
            .flatten()
            .collect();
        events.push(event);
    }
    Ok(events)
}

/// `struct perf_event_attr`; older ones are shorter, what they lack is 0.
fn event(attr: &[u8]) -> Option<Event> {
    const FREQ: u64 = 1 << 10;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    const CONTEXT_SWITCH: u64 = 1 << 26;
    let mut b = Bytes::new(attr);
    let kind = b.u32()?;
    let _size = b.u32()?;
    let config = b.u64()?;
    let period = b.u64()?;
    let sample_type = b.u64()?;
    let read_format = b.u64()?;
    let flags = b.u64()?;
    let _wakeup_and_breakpoint = b.u64()?;
    let _config1 = b.u64()?;
    let mut later = || b.u64().unwrap_or(0);
    let _config2 = later();
    let branch_type = later();
    let user_registers = later();
    let _stack_and_clock = later();
    Some(Event {
        kind,
        config,
        period,
        sample_type,
        read_format,
        branch_type,
        user_registers,
        interrupt_registers: later(),
        by_frequency: flags & FREQ != 0,
        sample_id_all: flags & SAMPLE_ID_ALL != 0,
        switches: flags & CONTEXT_SWITCH != 0,
        ..Event::default()
    })
}

impl PerfFile {
    fn section(
        &mut self,
        source: &dyn Source,
        feature: usize,
        place: (u64, u64),
    ) -> Result<(), ImportError> {
        match feature {
            section::DIR_FORMAT => {
                return Err(ImportError::Unsupported(
                    "perf.data in folders is not read: record without --threads".into(),
                ));
            }
            section::TRACING_DATA
            | section::BUILD_ID
            | section::HOSTNAME..=section::NRCPUS
            | section::CMDLINE
            | section::EVENT_DESC
            | section::CLOCK_DATA => {}
            _ => return Ok(()),
        }
        let place = range(source, place, "a section")?;
        let at = place.start;
        let data = bytes(source, place, "a section")?;
        self.take_section(feature, &data)
            .ok_or_else(|| ImportError::damaged(format!("section {feature} is cut short"), at))
    }

    fn take_section(&mut self, feature: usize, data: &[u8]) -> Option<()> {
        let mut b = Bytes::new(data);
        match feature {
            section::TRACING_DATA => self.tracepoints = tracing::read(data)?,
            section::BUILD_ID => self.build_ids = build_ids(b)?,
            section::HOSTNAME => self.host = b.header_text()?,
            section::OSRELEASE => self.kernel = b.header_text()?,
            section::VERSION => self.version = b.header_text()?,
            section::ARCH => self.arch = b.header_text()?,
            section::NRCPUS => {
                let _available = b.u32()?;
                self.cpus = b.u32()?;
            }
            section::CMDLINE => {
                let count = b.u32()?;
                for _ in 0..count {
                    self.command_line.push(b.header_text()?);
                }
            }
            section::EVENT_DESC => self.name_events(b)?,
            section::CLOCK_DATA => {
                let (_version, _clock) = (b.u32()?, b.u32()?);
                let (wall, clock) = (b.u64()?, b.u64()?);
                self.clock = Some((clock, wall));
            }
            _ => {}
        }
        Some(())
    }

    /// The section that repeats the events has their names.
    fn name_events(&mut self, mut b: Bytes<'_>) -> Option<()> {
        let (count, attr_size) = (b.u32()?, b.u32()?);
        for position in 0..count as usize {
            b.take(u64::from(attr_size))?;
            let ids = b.u32()?;
            let name = b.header_text()?;
            b.take(u64::from(ids) * 8)?;
            if let Some(event) = self.events.get_mut(position) {
                event.name = name;
            }
        }
        Some(())
    }
}

/// Section `BUILD_ID`: records of a header, a pid, 20 bytes (and, lately, how many count) and a path.
fn build_ids(mut b: Bytes<'_>) -> Option<Vec<BuildId>> {
    const HAS_SIZE: u16 = 1 << 15;
    let mut found = Vec::new();
    while b.len() > 0 {
        let _kind = b.u32()?;
        let (misc, size) = (b.u16()?, b.u16()?);
        let mut body = Bytes::new(b.take(u64::from(size).checked_sub(8)?)?);
        let _pid = body.u32()?;
        let id = body.take(24)?;
        let len = if misc & HAS_SIZE != 0 { id[20] } else { 20 };
        let id = id.get(..usize::from(len.min(20)))?;
        found.push(BuildId {
            path: super::bytes::text(body.take(body.len() as u64)?),
            build_id: hex(id),
        });
    }
    Some(found)
}

/// Bytes in hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
