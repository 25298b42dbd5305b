//! The words of the locks of glibc and musl: what they tell, and what may be written to them.
use super::counters::{own_block, this_thread, tid_by_libc};
use super::layout::{State, kind, libc, lock_of};
use super::operation::{EBUSY, Operation};
use core::sync::atomic::{AtomicU32, Ordering};

/// The bits of a glibc mutex' kind that must be 0 for the plain algorithm: type, robust, priority
/// inheritance and ceiling, elision.
const GLIBC_PLAIN: u32 = 0x17f;
/// The same of a musl mutex.
const MUSL_PLAIN: u32 = 0xf;
/// Bits of a glibc mutex' kind beside its type that make its word another one than 0, 1 or more: robust,
/// priority inheritance and ceiling, elision.
const GLIBC_OTHER_WORD: u32 = 0x17c;
/// The bit of a glibc mutex' kind that says that processes share it.
pub(super) const GLIBC_SHARED: u32 = 0x80;
/// The same of a musl mutex.
pub(super) const MUSL_SHARED: u32 = 0x80;
/// A glibc read-write lock, since 2.25: its first word, and where the others are.
pub(super) mod glibc_rwlock {
    /// Writers have their turn: it stays so when they let go and no reader waits.
    pub const WRITE_PHASE: u32 = 1;
    /// A writer has it, or is to have it next.
    pub const WRITE_LOCKED: u32 = 2;
    /// One reader more. The bits above are the number of readers.
    pub const READER: u32 = 8;
    /// Other bits than the number of readers, and that of too many of them.
    pub const NOT_ONLY_READ: u32 = 1 << 31 | (READER - 1);
    /// How many writers want it to be handed over to one of them.
    pub const NEXT_WRITERS_AT: u64 = 4;
    /// The word that readers wait for: 1 while writers have their turn.
    pub const PHASE_AT: u64 = 8;
    /// The word that writers wait for: 1 while one of them has it.
    pub const WRITERS_AT: u64 = 12;
    /// The thread that has it for writing.
    pub const WRITER_AT: u64 = 24;
}
/// The bits that hold a glibc mutex' kind, where it lends priority and is nothing else.
pub(super) const GLIBC_INHERIT: u32 = 32;
/// The robust mutexes of glibc: their word is the number of their owner, and each thread has a list of those it holds, which the
/// kernel walks when the thread dies (Documentation/locking/robust-futex-ABI.rst).
pub(super) mod glibc_robust {
    /// The bits that hold a mutex' kind, of one that is robust and nothing else but its type.
    pub const KIND: u32 = 16;
    /// Where a mutex is linked to the one before it, and to the next: an address of the same word there, or of a head.
    pub const PREVIOUS_AT: u64 = 24;
    /// See above.
    pub const NEXT_AT: u64 = 32;
    /// Where the head of a list says how far from that word the mutex' own is.
    pub const DISTANCE_AT: u64 = 8;
    /// And where it names the mutex that is about to be taken or given back.
    pub const PENDING_AT: u64 = 16;
    /// Set beside the owner in the word: somebody may wait.
    pub const WAITERS: u32 = 1 << 31;
    /// The owner has died.
    pub const OWNER_DIED: u32 = 1 << 30;
}
/// What the word of a glibc spin lock is that nobody has. Every attempt takes one off.
pub(super) const SPIN_FREE: u32 = 1;
/// What a glibc mutex' word is where it is taken and nobody waits.
const GLIBC_TAKEN: u32 = 1;
/// Where it is taken and its release is to be told. For glibc whatever is more than 1 may have waiters;
/// it makes 2 of it before one sleeps.
const GLIBC_TOLD: u32 = 3;
/// The same of a normal musl mutex: no bit of its own.
const MUSL_TOLD: u32 = EBUSY as u32 | 32;
/// The bits of a musl read-write lock's word that hold the number of its readers, all of them for a writer; of a
/// semaphore's, its value.
const MUSL_HOLDERS: u32 = 0x7fff_ffff;
/// The value of a semaphore of which there is none, and for which somebody waits.
const MUSL_LESS_THAN_NONE: u32 = u32::MAX;
/// The bits of a musl mutex' word that name its owner, where it has one.
const MUSL_OWNER: u32 = 0x3fff_ffff;

/// The word at an address.
///
/// # Safety
/// It must be mapped and aligned.
pub(super) unsafe fn word(address: u64) -> u32 {
    // SAFETY: by contract.
    unsafe { (*(address as *const AtomicU32)).load(Ordering::Relaxed) }
}

/// The kind of a lock.
///
/// # Safety
/// `lock` must be what the operation's function takes.
pub(super) unsafe fn kind_of(whose: u64, operation: Operation, lock: u64) -> u64 {
    match operation {
        // A release does not tell which; nothing is counted for it.
        Operation::Read | Operation::TryRead | Operation::Leave => kind::READ,
        Operation::Write | Operation::TryWrite => kind::WRITE,
        Operation::Spin | Operation::TrySpin | Operation::LeaveSpin => kind::SPIN,
        Operation::Condition => kind::CONDITION,
        Operation::Barrier => kind::BARRIER,
        Operation::Down | Operation::TryDown => kind::SEMAPHORE,
        Operation::Lock
        | Operation::TryLock
        | Operation::TimedLock
        | Operation::Unlock
        | Operation::Retake => {
            match whose {
                libc::GLIBC => {
                    // SAFETY: by contract; the layout is part of glibc's ABI.
                    let bits = u64::from(unsafe { word(lock + 16) });
                    // 16, 32 and 64: robust, priority inheritance and ceiling.
                    bits & kind::TYPE | bits >> 2 & (kind::ROBUST | kind::INHERIT | kind::PROTECT)
                }
                libc::MUSL => {
                    // SAFETY: by contract; the layout is part of musl's ABI.
                    let bits = u64::from(unsafe { word(lock) });
                    bits & (kind::TYPE | kind::ROBUST | kind::INHERIT)
                }
                _ => kind::MUTEX,
            }
        }
    }
}

/// Takes a plain mutex as libc would; false when it is taken, none when only libc itself can tell.
///
/// # Safety
/// `lock` must be a mutex of this libc, of kind 0.
pub(super) unsafe fn take_plain(state: &State, lock: u64) -> Option<bool> {
    let take = |at: u64, value: u32| {
        // SAFETY: the mutex' own word.
        let word = unsafe { &*(at as *const AtomicU32) };
        word.compare_exchange(0, value, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    };
    match state.settings.libc {
        // A thread whose number is not sure has no block.
        libc::GLIBC => {
            own_block(state)?;
            // SAFETY: as `kind_of`.
            if unsafe { word(lock + 16) } & GLIBC_PLAIN != 0 {
                return None;
            }
            let taken = take(lock, 1);
            if taken {
                let tid = tid_by_libc(state.settings.tid_offset);
                // SAFETY: who holds the mutex alone writes its owner and its number of users.
                unsafe {
                    (*((lock + 8) as *const AtomicU32)).store(tid, Ordering::Relaxed);
                    let users = &*((lock + 12) as *const AtomicU32);
                    users.store(
                        users.load(Ordering::Relaxed).wrapping_add(1),
                        Ordering::Relaxed,
                    );
                }
            }
            Some(taken)
        }
        libc::MUSL => {
            // SAFETY: as `kind_of`.
            let is_plain = unsafe { word(lock) } & MUSL_PLAIN == 0;
            is_plain.then(|| take(lock + 4, EBUSY as u32))
        }
        _ => None,
    }
}

/// Whether a lock that is not taken by the quick way looks taken, by another thread. A look before the
/// real attempt: it may have changed by then.
///
/// # Safety
/// `lock` must be what the operation's function takes.
pub(super) unsafe fn is_taken(state: &State, operation: Operation, lock: u64) -> bool {
    let settings = &state.settings;
    let is_glibc = settings.libc == libc::GLIBC;
    let is_musl = settings.libc == libc::MUSL;
    // SAFETY: by contract; the layouts are part of the libcs' ABIs.
    unsafe {
        match operation {
            Operation::Lock | Operation::TimedLock | Operation::Retake if is_glibc => {
                let is_mine =
                    settings.tid_offset != 0 && word(lock + 8) == tid_by_libc(settings.tid_offset);
                word(lock) != 0 && !is_mine
            }
            Operation::Lock | Operation::TimedLock if is_musl => {
                word(lock + 4) != 0 && !is_mine_by_musl(state, lock)
            }
            // Readers are counted from bit 3 on; bit 1 says that a writer has or wants it.
            Operation::Read if is_glibc => word(lock) & 2 != 0,
            Operation::Write if is_glibc => word(lock) & 2 != 0 || word(lock) >> 3 != 0,
            Operation::Read if is_musl => word(lock) & MUSL_HOLDERS == MUSL_HOLDERS,
            Operation::Write if is_musl => word(lock) & MUSL_HOLDERS != 0,
            // Of glibc's, a turn of the loop that waits tells it.
            Operation::Spin if is_musl => word(lock) != 0,
            // Who comes last knows it only afterwards.
            Operation::Barrier => is_glibc || is_musl,
            Operation::Down if is_glibc => word(lock) == 0,
            // Less than none, before musl 1.2.4: somebody waits.
            Operation::Down if is_musl => {
                word(lock) & MUSL_HOLDERS == 0 || word(lock) == MUSL_LESS_THAN_NONE
            }
            _ => false,
        }
    }
}

/// Whether this thread holds a musl mutex that knows its owner. Only ever a hint.
///
/// # Safety
/// `lock` must be a musl mutex.
unsafe fn is_mine_by_musl(state: &State, lock: u64) -> bool {
    // SAFETY: by contract.
    unsafe { word(lock + 4) & MUSL_OWNER == own_number(state) }
}

/// Whether a mutex that has just been acquired was this thread's already.
///
/// # Safety
/// The mutex must be held.
pub(super) unsafe fn is_nested(whose: u64, key: u64) -> bool {
    let (lock, kind) = lock_of(key);
    if kind > kind::TYPE + kind::ROBUST + kind::INHERIT + kind::PROTECT
        || kind & kind::TYPE != kind::RECURSIVE
    {
        return false;
    }
    // SAFETY: by contract; glibc counts from 1, musl from 0.
    unsafe {
        match whose {
            libc::GLIBC => word(lock + 4) > 1,
            libc::MUSL => word(lock + 20) > 0,
            _ => false,
        }
    }
}

/// Who holds a lock, by the lock itself and by the numbers that libc gives to threads; 0 where it does not
/// tell.
///
/// # Safety
/// `lock` must be what the operation's function takes.
pub(super) unsafe fn owner_of(state: &State, operation: Operation, lock: u64) -> u32 {
    let is_mutex = operation.is_mutex();
    // SAFETY: by contract; the layouts are part of the libcs' ABIs.
    unsafe {
        match state.settings.libc {
            libc::GLIBC if is_mutex => word(lock + 8),
            // The thread that has it for writing.
            libc::GLIBC if matches!(operation, Operation::Read | Operation::Write) => {
                word(lock + glibc_rwlock::WRITER_AT)
            }
            libc::MUSL if is_mutex && word(lock) & MUSL_PLAIN != 0 => word(lock + 4) & MUSL_OWNER,
            _ => 0,
        }
    }
}

/// Whether this thread has a read-write lock that it holds for writing.
///
/// # Safety
/// `lock` must be a read-write lock of this libc, held by this thread.
pub(super) unsafe fn is_writing(state: &State, lock: u64) -> bool {
    // SAFETY: by contract; the layouts are part of the libcs' ABIs.
    unsafe {
        match state.settings.libc {
            libc::GLIBC => word(lock + glibc_rwlock::WRITER_AT) == own_number(state),
            libc::MUSL => word(lock) & MUSL_HOLDERS == MUSL_HOLDERS,
            _ => false,
        }
    }
}

/// Whether nobody holds a mutex.
///
/// # Safety
/// `lock` must be a mutex of this libc.
pub(super) unsafe fn is_free(state: &State, lock: u64) -> bool {
    let at = if state.settings.libc == libc::MUSL {
        lock + 4
    } else {
        lock
    };
    // SAFETY: by contract.
    unsafe { word(at) == 0 }
}

/// The number that libc gives to this thread; 0 when that is not known.
pub(super) fn own_number(state: &State) -> u32 {
    /// musl keeps it that far behind the fs base.
    const MUSL_NUMBER: u64 = 48;
    match state.settings.libc {
        libc::GLIBC if state.settings.tid_offset != 0 => tid_by_libc(state.settings.tid_offset),
        // SAFETY: the thread's control block reaches farther.
        libc::MUSL => unsafe { word(this_thread() + MUSL_NUMBER) },
        _ => 0,
    }
}

/// Sees to it that the release of a taken mutex comes to `release`, where its word can say so.
///
/// # Safety
/// `lock` must be a mutex of this libc.
pub(super) unsafe fn mark(state: &State, lock: u64) {
    let whose = state.settings.libc;
    // SAFETY: by contract.
    let (at, kind) = unsafe {
        match whose {
            libc::GLIBC => (lock, word(lock + 16) & GLIBC_OTHER_WORD),
            libc::MUSL => (lock + 4, word(lock) & MUSL_PLAIN),
            _ => return,
        }
    };
    // SAFETY: the mutex' own word. It stays taken; whoever releases it sees that it may have waiters.
    let word = unsafe { &*(at as *const AtomicU32) };
    // Who waited has mostly left another value, and a look costs nothing.
    let now = word.load(Ordering::Relaxed);
    let told = match (whose, kind) {
        (libc::GLIBC, 0) if now == GLIBC_TAKEN => GLIBC_TOLD,
        (libc::GLIBC, glibc_robust::KIND)
            if now != 0 && now & (glibc_robust::WAITERS | glibc_robust::OWNER_DIED) == 0 =>
        {
            now | glibc_robust::WAITERS
        }
        (libc::MUSL, 0) if now == EBUSY as u32 => MUSL_TOLD,
        _ => return,
    };
    let _ = word.compare_exchange(now, told, Ordering::Relaxed, Ordering::Relaxed);
}
