//! Records of the ring, from bytes to values.
use dwell_abi::events::*;

/// A record with what follows it.
pub enum Record<'a> {
    /// A running thread's stack, a stack owed by a wait, or a waker's (see `head.kind`).
    Stack(StackRecord, Trail<'a>),
    /// A stay off the processor.
    Wait(WaitRecord, Trail<'a>),
    /// Sums of a site.
    Site(SiteRecord),
    /// Sums of a thread.
    Thread(Box<ThreadRecord>),
    /// A thread came to be, or changed.
    Task(TaskRecord),
    /// What code is called.
    Code(Box<CodeRecord>),
}

/// The pcs and the raw stack after a record.
#[derive(Clone, Copy, Default)]
pub struct Trail<'a> {
    kernel: &'a [u8],
    user: &'a [u8],
    raw: &'a [u8],
}

impl<'a> Trail<'a> {
    fn new(rest: &'a [u8], kernel: u16, user: u16, raw: u32) -> Option<Self> {
        let (kernel, rest) = rest.split_at_checked(usize::from(kernel) * 8)?;
        let (user, rest) = rest.split_at_checked(usize::from(user) * 8)?;
        let raw = if raw == 0 {
            &[]
        } else {
            rest.get(..size_of::<RawRegs>() + raw as usize)?
        };
        Some(Trail { kernel, user, raw })
    }

    /// Kernel pcs, leaf first.
    pub fn kernel(&self) -> &'a [u8] {
        self.kernel
    }

    /// User pcs, leaf first.
    pub fn user(&self) -> impl Iterator<Item = u64> + 'a {
        words(self.user)
    }

    /// The same as bytes.
    pub fn user_bytes(&self) -> &'a [u8] {
        self.user
    }

    /// The same with other words for the user's part.
    pub fn with_user(self, user: &'a [u8]) -> Self {
        Trail { user, ..self }
    }

    /// Registers and a copy of the stack from the stack pointer on.
    pub fn raw(&self) -> Option<(RawRegs, &'a [u8])> {
        let (head, bytes) = self.raw.split_at_checked(size_of::<RawRegs>())?;
        let mut regs = RawRegs { regs: [0; 17] };
        regs.regs
            .iter_mut()
            .zip(words(head))
            .for_each(|(to, word)| *to = word);
        Some((regs, bytes))
    }
}

/// The words of what the kernel side wrote.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (words, _) = bytes.as_chunks();
    words.iter().copied().map(u64::from_ne_bytes)
}

impl<'a> Record<'a> {
    /// Reads a record. None for one that is shorter than it says, which the kernel side never makes.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
        Some(match kind {
            RECORD_RUNNING | RECORD_WAIT_STACK | RECORD_WAKER | RECORD_MEMORY_STACK => {
                let (head, rest): (StackRecord, _) = split(bytes)?;
                let trail = Trail::new(rest, head.n_kernel, head.n_user, head.raw_len)?;
                Record::Stack(head, trail)
            }
            RECORD_WAIT => {
                let (head, rest): (WaitRecord, _) = split(bytes)?;
                let trail = Trail::new(rest, head.n_kernel, 0, 0)?;
                Record::Wait(head, trail)
            }
            RECORD_SITE => Record::Site(split(bytes)?.0),
            RECORD_THREAD => Record::Thread(Box::new(split(bytes)?.0)),
            RECORD_FORK | RECORD_EXEC | RECORD_RENAME => Record::Task(split(bytes)?.0),
            RECORD_CODE => Record::Code(Box::new(split(bytes)?.0)),
            _ => return None,
        })
    }

    /// The process of a record that may be the first of it.
    pub fn may_begin_process(&self) -> Option<u32> {
        match self {
            Record::Thread(r) => Some(r.tgid),
            Record::Task(r) => Some(r.tgid),
            _ => None,
        }
    }

    /// Whether it is a stack that user space has to unwind.
    pub fn is_copied_stack(&self) -> bool {
        matches!(self, Record::Stack(_, trail) | Record::Wait(_, trail) if !trail.raw.is_empty())
    }

    /// `RECORD_*`.
    pub fn kind(&self) -> u32 {
        match self {
            Record::Stack(r, _) => r.kind,
            Record::Wait(r, _) => r.kind,
            Record::Site(r) => r.kind,
            Record::Thread(r) => r.kind,
            Record::Task(r) => r.kind,
            Record::Code(r) => r.kind,
        }
    }

    /// When it was made, ns of CLOCK_BOOTTIME.
    pub fn time(&self) -> u64 {
        match self {
            Record::Stack(r, _) => r.time,
            Record::Wait(r, _) => r.end,
            Record::Site(r) => r.time,
            Record::Thread(r) => r.time,
            Record::Task(r) => r.time,
            Record::Code(r) => r.time,
        }
    }
}

/// Marks the record types of `dwell_abi`: `repr(C)`, integers only.
trait Plain: Copy {}
impl Plain for StackRecord {}
impl Plain for WaitRecord {}
impl Plain for SiteRecord {}
impl Plain for ThreadRecord {}
impl Plain for TaskRecord {}
impl Plain for CodeRecord {}

fn split<T: Plain>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (head, rest) = bytes.split_at_checked(size_of::<T>())?;
    // SAFETY: `head` has size_of::<T>() bytes and every bit pattern is a valid T (see Plain).
    Some((
        unsafe { std::ptr::read_unaligned(head.as_ptr().cast()) },
        rest,
    ))
}

/// A NUL-padded name of the kernel.
pub fn comm(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
