//! A word shared with the target that tells whether we live.
use super::segment::{Segment, Shared};
use super::space::Space;
use dwell_agent::layout::Link;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// Keeps the word in a page of the target: a robust mutex, locked by a thread of ours for as long as
/// this exists. When that thread ends, however it ends, the kernel takes its number out of the word.
pub(super) struct Owner {
    release: Option<mpsc::Sender<()>>,
    holder: Option<JoinHandle<()>>,
}

impl Owner {
    /// Takes the word at the start of a shared page of the target.
    pub fn hold(
        space: &Space,
        page: u64,
        len: u64,
        segment: Option<&Arc<Segment>>,
    ) -> io::Result<Owner> {
        // The page is made for this; both sides use its first word atomically only.
        let map = Shared::open(space.pid, (page, page + len), segment)?;
        let (release, released) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let holder = std::thread::Builder::new()
            .name("dwell-owner".into())
            .spawn(move || {
                let mutex = map.as_ptr().cast::<libc::pthread_mutex_t>();
                // SAFETY: the page is zero, aligned, large enough, and stays mapped until the mutex is
                // unlocked; nobody else locks it.
                let locked = unsafe { lock_robust(mutex) };
                // SAFETY: the mutex begins with its futex.
                let word = unsafe { &*mutex.cast::<AtomicU32>() };
                let is_held = word.load(Ordering::Relaxed) & Link::OWNER_TID_MASK != 0;
                let _ = tell.send(locked && is_held);
                // Until the owner is dropped.
                let _ = released.recv();
                // SAFETY: this thread locked it.
                unsafe { libc::pthread_mutex_unlock(mutex) };
                drop(map);
            })?;
        let owner = Owner {
            release: Some(release),
            holder: Some(holder),
        };
        match told.recv() {
            Ok(true) => Ok(owner),
            _ => Err(io::Error::other("no robust mutex")),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.release = None;
        if let Some(holder) = self.holder.take() {
            let _ = holder.join();
        }
    }
}

/// Makes the mutex robust and shared, and locks it.
///
/// # Safety
/// `mutex` must point to zeroed, writable memory of its size, used by nobody else.
unsafe fn lock_robust(mutex: *mut libc::pthread_mutex_t) -> bool {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    // SAFETY: the attributes are initialised first, and destroyed last; the mutex by contract.
    unsafe {
        let a = attributes.as_mut_ptr();
        let ok = libc::pthread_mutexattr_init(a) == 0
            && libc::pthread_mutexattr_setpshared(a, libc::PTHREAD_PROCESS_SHARED) == 0
            && libc::pthread_mutexattr_setrobust(a, libc::PTHREAD_MUTEX_ROBUST) == 0
            && libc::pthread_mutex_init(mutex, a) == 0
            && libc::pthread_mutex_lock(mutex) == 0;
        libc::pthread_mutexattr_destroy(a);
        ok
    }
}

/// Whether the owner of the word at `address` of a process lives; true when there is no word.
pub(super) fn lives(space: &Space, address: u64) -> bool {
    let mut word = [0; 4];
    if address == 0 || space.read(address, &mut word).is_err() {
        return address == 0;
    }
    u32::from_le_bytes(word) & Link::OWNER_TID_MASK != 0
}
