//! Crashes of processes that run certain files, as they happen. See `bpf/crashes.bpf.c`.
use crate::error::CollectError;
use crate::programs::{Embedded, map, program, quiet_libbpf};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::collections::HashSet;
use std::os::fd::RawFd;
use std::rc::Rc;

static OBJECT: &Embedded<[u8]> =
    &Embedded(*include_bytes!(concat!(env!("OUT_DIR"), "/crashes.bpf.o")));

/// A process that dies of SIGSEGV, SIGILL, SIGBUS, SIGTRAP or SIGABRT which nobody else sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Inode and size of the file that it runs.
    pub file: (u64, u64),
    /// Its number at the root namespace.
    pub pid: u32,
    /// The signal's number.
    pub signal: u32,
    /// How it was started, the beginning of its arguments; empty where that could not be read.
    pub args: Vec<String>,
    /// Whether these are all of them, and exactly.
    pub whole: bool,
}

/// Bytes of `struct crash` before the arguments.
const HEAD: usize = 32;
/// Most bytes of arguments that are kept, `ARGS` there.
const ARGS: usize = 512;

/// Watches files for crashes of who runs them. Dropping it takes the program back.
pub struct Crashes {
    // Fields drop in this order: the link before the object whose program it holds.
    _link: Link,
    ring: RingBuffer<'static>,
    object: Object,
    seen: Rc<RefCell<Vec<Crash>>>,
    files: HashSet<(u64, u64)>,
}

impl Crashes {
    /// Watches no file yet.
    pub fn watch() -> Result<Self, CollectError> {
        quiet_libbpf();
        let mut builder = ObjectBuilder::default();
        let open = builder.open_memory(&OBJECT.0).map_err(CollectError::load)?;
        let object = open.load().map_err(CollectError::load)?;
        let seen = Rc::new(RefCell::new(Vec::new()));
        let writer = Rc::clone(&seen);
        let mut builder = RingBufferBuilder::new();
        let records = map(&object, "crashes")?;
        let taken = builder.add(&records, move |bytes| {
            writer.borrow_mut().extend(read(bytes));
            0
        });
        taken.map_err(CollectError::map)?;
        let ring = builder.build().map_err(CollectError::map)?;
        let link = program(&object, "on_signal")?.attach();
        Ok(Crashes {
            _link: link.map_err(CollectError::attach)?,
            ring,
            object,
            seen,
            files: HashSet::new(),
        })
    }

    /// Watches these files, each an inode and a size, and no others.
    pub fn set(&mut self, files: HashSet<(u64, u64)>) -> Result<(), CollectError> {
        let watched = map(&self.object, "files")?;
        for file in self.files.difference(&files) {
            watched.delete(&key(*file)).map_err(CollectError::map)?;
        }
        for file in files.difference(&self.files) {
            let set = watched.update(&key(*file), &[1], MapFlags::ANY);
            set.map_err(CollectError::map)?;
        }
        self.files = files;
        Ok(())
    }

    /// What crashed since it was asked last.
    pub fn take(&mut self) -> Result<Vec<Crash>, CollectError> {
        self.ring.consume().map_err(CollectError::map)?;
        Ok(self.seen.take())
    }

    /// A descriptor that is readable when something crashed.
    pub fn raw_fd(&self) -> RawFd {
        self.ring.epoll_fd()
    }
}

fn key((inode, size): (u64, u64)) -> Vec<u8> {
    [inode.to_ne_bytes(), size.to_ne_bytes()].concat()
}

fn read(bytes: &[u8]) -> Option<Crash> {
    let head = bytes.get(..HEAD)?;
    let word = |at: usize| Some(u64::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u32::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let all = bytes.get(HEAD..HEAD + half(24)? as usize)?;
    let args = all
        .split(|b| *b == 0)
        .map(|a| String::from_utf8_lossy(a).into_owned());
    let mut args: Vec<String> = args.collect();
    // A zero ends each of them.
    args.pop();
    Some(Crash {
        file: (word(0)?, word(8)?),
        pid: half(16)?,
        signal: half(20)?,
        args,
        whole: all.len() < ARGS && all.ends_with(&[0]) && std::str::from_utf8(all).is_ok(),
    })
}
