//! Memory that a target and we have both.
//!
//! With the capabilities for it we open what the target has mapped. An ordinary user may not; then both attach a
//! System V segment, which the target can do by a number, without a file. It is marked for removal as soon as we have
//! it, so nothing is left behind, whoever dies when.
use memmap2::{MmapMut, MmapOptions};
use std::fs::{File, OpenOptions};
use std::io;
use std::ptr::null_mut;
use std::sync::Arc;

/// A segment, attached here.
#[derive(Debug)]
pub struct Segment {
    id: i32,
    address: *mut u8,
    len: u64,
}

// SAFETY: it is plain memory, at the same address for all threads.
unsafe impl Send for Segment {}
// SAFETY: as above; what it holds is only reached by pointers.
unsafe impl Sync for Segment {}

impl Segment {
    pub(super) fn new(len: u64) -> io::Result<Segment> {
        let flags = libc::IPC_CREAT | libc::SHM_NORESERVE | 0o600;
        // SAFETY: makes memory that nobody has; no pointer is passed but a null.
        unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, len as usize, flags);
            if id < 0 {
                return Err(io::Error::last_os_error());
            }
            let address = libc::shmat(id, null_mut(), 0);
            let error = io::Error::last_os_error();
            libc::shmctl(id, libc::IPC_RMID, null_mut());
            if address as isize == -1 {
                return Err(error);
            }
            let address = address.cast();
            Ok(Segment { id, address, len })
        }
    }

    /// The number by which the target attaches it.
    pub(super) fn id(&self) -> i32 {
        self.id
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: it was attached by `new`, and nothing points into it any more.
        unsafe { libc::shmdt(self.address.cast()) };
    }
}

/// Whether we may open what processes have mapped.
pub(super) fn may_open_mappings() -> bool {
    let pid = std::process::id();
    let own = dwell_maps::read(pid).unwrap_or_default();
    let file = own.iter().find(|mapping| mapping.inode != 0);
    file.is_none_or(|mapping| File::open(mapping.link(pid)).is_ok())
}

/// Memory of the target's, reached from here.
#[derive(Debug)]
pub enum Shared {
    /// Mapped from the target's.
    Mapped(MmapMut),
    /// Attached.
    Attached(Arc<Segment>),
}

impl Shared {
    /// What a process has mapped at exactly these addresses, or the segment that it is.
    pub(super) fn open(
        pid: i32,
        (start, end): (u64, u64),
        segment: Option<&Arc<Segment>>,
    ) -> io::Result<Shared> {
        if let Some(segment) = segment {
            return Ok(Shared::Attached(segment.clone()));
        }
        let link = dwell_maps::link(pid as u32, start..end);
        let file = OpenOptions::new().read(true).write(true).open(link)?;
        let len = (end - start) as usize;
        // SAFETY: both sides only use what is meant for both, by atomic or volatile loads and stores.
        let map = unsafe { MmapOptions::new().len(len).map_mut(&file) }?;
        Ok(Shared::Mapped(map))
    }

    /// Where it is here.
    pub fn as_ptr(&self) -> *mut u8 {
        match self {
            Shared::Mapped(map) => map.as_ptr().cast_mut(),
            Shared::Attached(segment) => segment.address,
        }
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        match self {
            Shared::Mapped(map) => map.len() as u64,
            Shared::Attached(segment) => segment.len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes that the target may be changing.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let from = self.as_ptr().wrapping_add(offset as usize);
        // Most of what is read is words, megabytes of them.
        let words = if from.cast::<u64>().is_aligned() {
            bytes.len() / 8 * 8
        } else {
            0
        };
        let (words, rest) = bytes.split_at_mut(words);
        let (words, _) = words.as_chunks_mut();
        let (from, from_rest) = (from.cast::<u64>(), from.wrapping_add(words.len() * 8));
        for (at, word) in words.iter_mut().enumerate() {
            // SAFETY: within the memory, as was just seen, and aligned.
            *word = unsafe { from.add(at).read_volatile() }.to_ne_bytes();
        }
        for (at, byte) in rest.iter_mut().enumerate() {
            // SAFETY: within the memory.
            *byte = unsafe { from_rest.add(at).read_volatile() };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there_wherever_it_begins() {
        const LEN: u64 = 64;
        let segment = Segment::new(LEN).expect("a segment");
        let shared = Shared::Attached(Arc::new(segment));
        let whole: Vec<u8> = (1..=LEN as u8).collect();
        for (at, byte) in whole.iter().enumerate() {
            // SAFETY: within the segment.
            unsafe { shared.as_ptr().add(at).write(*byte) };
        }
        for offset in 0..20 {
            for len in 0..20 {
                let mut bytes = vec![0; len];
                shared.read(offset as u64, &mut bytes).expect("is there");
                assert_eq!(bytes, &whole[offset..offset + len], "{offset} {len}");
            }
        }
        assert!(shared.read(60, &mut [0; 5]).is_err());
        assert!(shared.read(u64::MAX, &mut [0; 5]).is_err());
    }
}
