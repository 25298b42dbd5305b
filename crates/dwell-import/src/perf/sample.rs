//! One sample, and what other records say of who, when and where.
use super::bytes::Bytes;
use super::file::Event;
use crate::ImportError;

/// `PERF_SAMPLE_*`.
pub mod has {
    #![allow(missing_docs)] // perf_event_open(2) names them
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// `PERF_FORMAT_*`.
mod format {
    pub const TOTAL_TIMES: u64 = 3;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
}

/// 64-bit registers.
const ABI_64: u64 = 2;

/// Registers and the top of the stack, for an unwinder.
#[derive(Clone, Copy, Debug)]
pub struct UserStack<'b> {
    /// Which registers there are.
    mask: u64,
    values: &'b [u8],
    /// The bytes from the stack pointer on.
    pub stack: &'b [u8],
}

impl UserStack<'_> {
    /// A register by perf's number.
    pub fn register(&self, number: u32) -> Option<u64> {
        if self.mask >> number & 1 == 0 {
            return None;
        }
        let before = (self.mask & ((1 << number) - 1)).count_ones() as usize;
        let from = self.values.get(before * 8..)?;
        Bytes::new(from).u64()
    }
}

/// One sample.
#[derive(Clone, Debug, Default)]
pub struct Sample<'b> {
    /// 0 when it does not tell.
    pub time_ns: u64,
    /// Its process.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// The processor.
    pub cpu: u32,
    /// What it stands for, in the event's unit; none when all stand for the same.
    pub period: Option<u64>,
    /// Where the thread was; 0 when it does not tell.
    pub ip: u64,
    /// Return addresses, innermost first, with marks between kernel and user; 8 bytes each.
    pub chain: &'b [u8],
    /// Fields of a tracepoint.
    pub raw: &'b [u8],
    /// What is needed to unwind the user part of the stack.
    pub user: Option<UserStack<'b>>,
    /// Registers were asked for, and the thread had some (it is none of the kernel's).
    pub unwinds: bool,
}

impl<'b> Sample<'b> {
    /// The addresses of its chain.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<'b> {
        let (words, _) = self.chain.as_chunks::<8>();
        words.iter().map(|w| u64::from_le_bytes(*w))
    }

    /// Reads the body of a record.
    pub fn parse(body: &'b [u8], event: &Event) -> Option<Self> {
        let has = |flag: u64| event.sample_type & flag != 0;
        let mut b = Bytes::new(body);
        let mut sample = Sample::default();
        if has(has::IDENTIFIER) {
            b.u64()?;
        }
        if has(has::IP) {
            sample.ip = b.u64()?;
        }
        if has(has::TID) {
            (sample.pid, sample.tid) = (b.u32()?, b.u32()?);
        }
        if has(has::TIME) {
            sample.time_ns = b.u64()?;
        }
        for flag in [has::ADDR, has::ID, has::STREAM_ID] {
            if has(flag) {
                b.u64()?;
            }
        }
        if has(has::CPU) {
            sample.cpu = b.u32()?;
            b.u32()?;
        }
        if has(has::PERIOD) {
            sample.period = Some(b.u64()?);
        }
        if has(has::READ) {
            skip_read(&mut b, event.read_format)?;
        }
        if has(has::CALLCHAIN) {
            let count = b.u64()?;
            sample.chain = b.take(count.checked_mul(8)?)?;
        }
        if has(has::RAW) {
            let size = b.u32()?;
            sample.raw = b.take(u64::from(size))?;
        }
        if has(has::BRANCH_STACK) {
            skip_branches(&mut b, event.branch_type)?;
        }
        if has(has::REGS_USER) {
            sample.take_user(&mut b, event, has(has::STACK_USER))?;
        }
        Some(sample)
    }

    fn take_user(&mut self, b: &mut Bytes<'b>, event: &Event, has_stack: bool) -> Option<()> {
        let abi = b.u64()?;
        if abi == 0 {
            return Some(());
        }
        self.unwinds = has_stack;
        let registers = u64::from(event.user_registers.count_ones());
        let values = b.take(registers * 8)?;
        if !has_stack {
            return Some(());
        }
        let size = b.u64()?;
        let stack = b.take(size)?;
        let filled = if size == 0 { 0 } else { b.u64()? };
        let filled = usize::try_from(filled).ok()?.min(stack.len());
        if abi == ABI_64 {
            self.user = Some(UserStack {
                mask: event.user_registers,
                values,
                stack: &stack[..filled],
            });
        }
        Some(())
    }
}

/// `struct read_format`.
fn skip_read(b: &mut Bytes<'_>, read_format: u64) -> Option<()> {
    let times = u64::from((read_format & format::TOTAL_TIMES).count_ones());
    let of_each = u64::from((read_format & (format::ID | format::LOST)).count_ones());
    let words = if read_format & format::GROUP != 0 {
        let count = b.u64()?;
        count.checked_mul(1 + of_each)?.checked_add(times)?
    } else {
        1 + times + of_each
    };
    b.take(words.checked_mul(8)?).map(|_| ())
}

fn skip_branches(b: &mut Bytes<'_>, branch_type: u64) -> Option<()> {
    const HW_INDEX: u64 = 1 << 17;
    let count = b.u64()?;
    if branch_type & HW_INDEX != 0 {
        b.u64()?;
    }
    b.take(count.checked_mul(24)?).map(|_| ())
}

/// Whether every sample begins with the id of its event.
pub fn identified(events: &[Event]) -> Result<bool, ImportError> {
    let all = |flag: u64| events.iter().all(|e| e.sample_type & flag != 0);
    let alike = events
        .windows(2)
        .all(|w| w[0].sample_type == w[1].sample_type);
    if events.len() == 1 || all(has::IDENTIFIER) || (alike && all(has::ID)) {
        Ok(all(has::IDENTIFIER))
    } else {
        Err(ImportError::Unsupported(
            "the samples do not tell which event they are of; record one event, or with a perf of Linux 3.12 or later"
                .into(),
        ))
    }
}

/// The id of a sample's event where all events have the same fields.
pub fn id(body: &[u8], event: &Event) -> Option<u64> {
    let before = has::IP | has::TID | has::TIME | has::ADDR;
    let words = (event.sample_type & before).count_ones() as usize;
    Bytes::new(body.get(words * 8..)?).u64()
}

/// Who, when and where, at the end of a record that is no sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trailer {
    /// 0 when it does not tell.
    pub time_ns: u64,
    /// Process and thread.
    pub pid_tid: Option<(u32, u32)>,
    /// The processor.
    pub cpu: u32,
}

/// Reads it.
pub fn trailer(body: &[u8], event: &Event) -> Trailer {
    let mut trailer = Trailer::default();
    if !event.sample_id_all {
        return trailer;
    }
    let fields = [
        has::TID,
        has::TIME,
        has::ID,
        has::STREAM_ID,
        has::CPU,
        has::IDENTIFIER,
    ];
    let present = fields.into_iter().filter(|f| event.sample_type & f != 0);
    let len = present.clone().count() * 8;
    let Some(at) = body.len().checked_sub(len) else {
        return trailer;
    };
    let mut b = Bytes::new(&body[at..]);
    for field in present {
        let Some(word) = b.u64() else { break };
        match field {
            has::TID => trailer.pid_tid = Some((word as u32, (word >> 32) as u32)),
            has::TIME => trailer.time_ns = word,
            has::CPU => trailer.cpu = word as u32,
            _ => {}
        }
    }
    trailer
}
