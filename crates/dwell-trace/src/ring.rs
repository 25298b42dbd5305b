//! The records that programs wrote.
use crate::error::TraceError;
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Reads records.
pub(crate) struct Ring {
    ring: RingBuffer<'static>,
    read: Rc<RefCell<Read>>,
}

/// Records one behind the other.
#[derive(Default)]
struct Read {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Ring {
    pub(crate) fn new(map: &MapHandle) -> Result<Ring, TraceError> {
        let read = Rc::new(RefCell::new(Read::default()));
        let writer = Rc::clone(&read);
        let mut builder = RingBufferBuilder::new();
        let taken = builder.add(map, move |record| {
            let mut read = writer.borrow_mut();
            read.bytes.extend_from_slice(record);
            let end = read.bytes.len();
            read.ends.push(end);
            0
        });
        taken.map_err(TraceError::bpf("reading records"))?;
        let ring = builder
            .build()
            .map_err(TraceError::bpf("reading records"))?;
        Ok(Ring { ring, read })
    }

    /// Waits until a program is in a hurry, or for so long; whether one is.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<bool, TraceError> {
        match self.ring.poll(timeout) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                Err(TraceError::bpf("waiting for records")(error))
            }
            _ => Ok(!self.read.borrow().ends.is_empty()),
        }
    }

    /// A descriptor that is readable when there are records.
    pub(crate) fn descriptor(&self) -> i32 {
        self.ring.epoll_fd()
    }

    /// Gives all records there are, oldest first.
    pub(crate) fn drain(&self, take: &mut dyn FnMut(&[u8])) -> Result<(), TraceError> {
        self.ring
            .consume()
            .map_err(TraceError::bpf("reading records"))?;
        let read = self.read.take();
        let mut start = 0;
        for end in read.ends {
            take(&read.bytes[start..end]);
            start = end;
        }
        Ok(())
    }
}
