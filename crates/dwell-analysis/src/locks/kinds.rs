//! What the functions of a stack say about a futex wait: a table of the runtimes' own functions.
//!
//! Of the functions with a row of the highest [`Rank`] the innermost decides: a rank above the plain one
//! builds a lock of its own out of what a row below describes (the GIL out of a condition variable).

/// What a wait there means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Somebody else holds what is wanted.
    Lock,
    /// Nothing is wanted but news: work, an end, a notification.
    Idle,
    /// Either: it is a lock if those who wake also wait there.
    ByWakers,
}

/// Where the word lies that is waited on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// So many bytes into the lock.
    At(u64),
    /// In a glibc rwlock: `__wrphase_futex` at 8 or `__writers_futex` at 12; or `__readers` at 0, which only other waits
    /// tell.
    Rwlock,
    /// In a glibc condition variable: `__g_signals` at 40 and 44.
    Condition,
    /// In a glibc barrier: `current_round` at 4.
    Barrier,
    /// It belongs to the waiting thread: which lock it is, only the place in the code can tell.
    Thread,
}

impl Word {
    /// Bytes from the start of the lock to its word at `address`; none when the word is no part of it.
    pub fn offset(self, address: u64) -> Option<u64> {
        // All of these begin at multiples of 8.
        let odd = address & 4;
        match self {
            Word::At(offset) => Some(offset),
            Word::Rwlock => Some(8 + odd),
            Word::Condition => Some(40 + odd),
            Word::Barrier => Some(odd),
            Word::Thread => None,
        }
    }
}

/// Which row counts when several functions of a stack have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The innermost.
    Plain,
    /// Before any plain one.
    Above,
    /// Before any other.
    Top,
}

/// One row: functions, and what a futex wait below them is.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// `=name`: the plain name of a C function (see [`plain`]), `=name*`: its beginning. Otherwise the
    /// parts between blanks, all of which the name has.
    pub function: &'static str,
    /// Whose lock.
    pub runtime: &'static str,
    /// What it is called there.
    pub name: &'static str,
    /// What the wait means.
    pub says: Says,
    /// Where the word is.
    pub word: Word,
    /// Against other rows.
    pub rank: Rank,
    /// Whoever wants it waits up to a time limit, and anew until the lock is had: the limit ends no waiting.
    pub tries_again: bool,
}

pub(super) const fn row(
    function: &'static str,
    runtime: &'static str,
    name: &'static str,
    says: Says,
    word: Word,
) -> Kind {
    Kind {
        function,
        runtime,
        name,
        says,
        word,
        rank: Rank::Plain,
        tries_again: false,
    }
}

const fn above(
    function: &'static str,
    runtime: &'static str,
    name: &'static str,
    says: Says,
) -> Kind {
    Kind {
        function,
        runtime,
        name,
        says,
        word: Word::Thread,
        rank: Rank::Above,
        tries_again: false,
    }
}

const fn top(
    function: &'static str,
    runtime: &'static str,
    name: &'static str,
    says: Says,
) -> Kind {
    Kind {
        rank: Rank::Top,
        ..above(function, runtime, name, says)
    }
}

/// CPython's lock of the interpreter, in the function that wants it or gives it to another.
pub(super) const fn gil(function: &'static str) -> Kind {
    Kind {
        word: Condition,
        tries_again: true,
        ..top(function, PYTHON, super::gil::NAME, Lock)
    }
}

/// Java's lock of an object: one of those that wait wakes up from time to time.
const fn monitor(function: &'static str) -> Kind {
    Kind {
        tries_again: true,
        ..above(function, JAVA, "monitor", Lock)
    }
}

use Says::{ByWakers, Idle, Lock};
use Word::{At, Barrier, Condition, Rwlock, Thread};

/// The runtime of rows that glibc and musl share; [`super::classify`] tells the two apart.
pub const PTHREAD: &str = "pthread";
const RUST: &str = "Rust";
const PARKING_LOT: &str = "parking_lot";
const GO: &str = "Go";
const JAVA: &str = "Java";
const PYTHON: &str = "Python";
pub(super) const GLIB: &str = "GLib";
const QT: &str = "Qt";
/// GNU's OpenMP, and LLVM's.
pub const OPENMP: &str = "OpenMP";
/// What the functions of GNU's library are called where there are no names of them.
pub const BARE_OPENMP: &str = "[libgomp.so";

/// Every row; of rows for the same function the first counts.
pub const KINDS: &[Kind] = &[
    // POSIX threads.
    row("=pthread_mutex_cond_lock*", PTHREAD, "mutex", Lock, At(0)),
    row("=pthread_mutex_*lock*", PTHREAD, "mutex", Lock, At(0)),
    row("=mtx_*lock", PTHREAD, "mutex", Lock, At(0)),
    row("=pthread_rwlock_*", PTHREAD, "rwlock", Lock, Rwlock),
    row("=pthread_cond_*wait*", PTHREAD, "cond", Idle, Condition),
    row("=cnd_*wait*", PTHREAD, "cond", Idle, Condition),
    row("=pthread_barrier_*", PTHREAD, "barrier", Lock, Barrier),
    row("=pthread_once*", PTHREAD, "once", Lock, At(0)),
    row("=pthread_*join*", PTHREAD, "join", Idle, Thread),
    row("=thrd_join", PTHREAD, "join", Idle, Thread),
    row("=sem_*wait*", PTHREAD, "semaphore", ByWakers, At(0)),
    row("=new_sem_*wait*", PTHREAD, "semaphore", ByWakers, At(0)),
    row(
        "=lll_lock_wait_private",
        PTHREAD,
        "internal lock",
        Lock,
        At(0),
    ),
    row("=lll_lock_wait", PTHREAD, "mutex", Lock, At(0)),
    row("=gai_suspend", PTHREAD, "requests", Idle, At(0)),
    row("=aio_suspend*", PTHREAD, "requests", Idle, At(0)),
    // Rust's standard library, by names of all its versions with futexes.
    row("std::sys Mutex lock_contended", RUST, "Mutex", Lock, At(0)),
    row(
        "std::sys RwLock read_contended",
        RUST,
        "RwLock",
        Lock,
        At(0),
    ),
    row(
        "std::sys RwLock write_contended",
        RUST,
        "RwLock",
        Lock,
        At(4),
    ),
    row(
        "std::sys condvar::futex Condvar wait",
        RUST,
        "Condvar",
        Idle,
        At(0),
    ),
    row(
        "std::sys futex_condvar Condvar wait",
        RUST,
        "Condvar",
        Idle,
        At(0),
    ),
    row("std::sys thread_park", RUST, "park", Idle, Thread),
    row("std::sys once::futex::Once", RUST, "Once", Lock, At(0)),
    row(
        "std::sync::barrier::Barrier wait",
        RUST,
        "Barrier",
        Lock,
        At(0),
    ),
    // parking_lot: threads queue, each on a word of its own.
    row(
        "parking_lot::raw_mutex::RawMutex lock_slow",
        PARKING_LOT,
        "Mutex",
        Lock,
        Thread,
    ),
    row(
        "parking_lot::raw_fair_mutex",
        PARKING_LOT,
        "FairMutex",
        Lock,
        Thread,
    ),
    row(
        "parking_lot::raw_rwlock::RawRwLock",
        PARKING_LOT,
        "RwLock",
        Lock,
        Thread,
    ),
    row(
        "parking_lot::condvar::Condvar wait",
        PARKING_LOT,
        "Condvar",
        Idle,
        Thread,
    ),
    row("parking_lot::once::Once", PARKING_LOT, "Once", Lock, Thread),
    // Go. Goroutines that wait for each other do not sleep in the kernel; its threads do.
    row("=runtime.lock2", GO, "runtime lock", Lock, Thread),
    row("=runtime.lockWithRank*", GO, "runtime lock", Lock, Thread),
    row("=runtime.notesleep", GO, "idle thread", Idle, Thread),
    row("=runtime.notetsleep*", GO, "idle thread", Idle, Thread),
    row("=runtime.stopm", GO, "idle thread", Idle, Thread),
    row("=runtime.mPark", GO, "idle thread", Idle, Thread),
    above("=runtime.stopTheWorld*", GO, "stop the world", Lock),
    // HotSpot: all of it stands on POSIX mutexes and conditions of the waiting thread.
    monitor("ObjectMonitor:: nter"),
    monitor("ObjectSynchronizer:: enter"),
    above("ObjectMonitor::wait", JAVA, "Object.wait", Idle),
    top(
        "AbstractQueuedSynchronizer ConditionObject await",
        JAVA,
        "Condition.await",
        Idle,
    ),
    top(
        "AbstractQueuedSynchronizer acquire",
        JAVA,
        "java.util.concurrent lock",
        Lock,
    ),
    above("Parker::park", JAVA, "LockSupport.park", Idle),
    above("Unsafe_Park", JAVA, "LockSupport.park", Idle),
    above("JavaThread::sleep", JAVA, "Thread.sleep", Idle),
    above("JVM_Sleep", JAVA, "Thread.sleep", Idle),
    above("SafepointSynchronize::block", JAVA, "safepoint", Idle),
    above("SafepointMechanism::process", JAVA, "safepoint", Idle),
    above("Monitor::wait", JAVA, "VM thread", Idle),
    above("Mutex::lock_contended(Thread*)", JAVA, "VM lock", Lock),
    above("Mutex::lock(Thread*)", JAVA, "VM lock", Lock),
    above("Mutex::lock_without_safepoint_check", JAVA, "VM lock", Lock),
    above("PosixSemaphore::wait", JAVA, "VM thread", Idle),
    above("PosixSemaphore::timedwait", JAVA, "VM thread", Idle),
    // CPython: its locks are semaphores; those of a queue or a thread's end are for news.
    gil("=take_gil*"),
    gil("=PyEval_RestoreThread"),
    gil("=PyEval_AcquireThread"),
    gil("=drop_gil*"),
    top("=queue_SimpleQueue_get*", PYTHON, "SimpleQueue", Idle),
    above("=PyMutex_Lock*", PYTHON, "PyMutex", Lock),
    Kind {
        word: At(0),
        ..above(
            "=PyThread_acquire_lock_timed",
            PYTHON,
            "threading.Lock",
            ByWakers,
        )
    },
    // GNU's OpenMP. Its threads wait at one barrier for the others of their team, at another for the next team.
    row("=gomp_mutex_lock_slow", OPENMP, "lock", Lock, At(0)),
    row("=gomp_ptrlock_get_slow", OPENMP, "work share", Lock, At(0)),
    row("=gomp_team_barrier_wait*", OPENMP, "barrier", Lock, At(4)),
    row("=gomp_barrier_wait*", OPENMP, "idle thread", Idle, At(4)),
    row("=gomp_sem_wait_slow", OPENMP, "semaphore", ByWakers, At(0)),
    // Programs and libraries with locks of their own.
    row("=g_mutex_lock*", GLIB, "mutex", Lock, At(0)),
    row("=g_cond_wait*", GLIB, "cond", Idle, At(0)),
    row("=g_bit_lock*", GLIB, "bit lock", Lock, At(0)),
    row("=g_pointer_bit_lock*", GLIB, "bit lock", Lock, At(0)),
    above("=g_once_init_enter*", GLIB, "once", Lock),
    row("QBasicMutex::lockInternal", QT, "QMutex", Lock, At(0)),
    row("QMutex:: ock", QT, "QMutex", Lock, At(0)),
    row("QSemaphore:: cquire", QT, "QSemaphore", ByWakers, Thread),
    above("QWaitCondition::wait", QT, "QWaitCondition", Idle),
    top("QReadWriteLock:: ockFor", QT, "QReadWriteLock", Lock),
    above("=LWLockAcquire*", "PostgreSQL", "LWLock", Lock),
    above("=ProcSleep", "PostgreSQL", "heavyweight lock", Lock),
    row("srw_mutex_impl wait", "InnoDB", "srw_mutex", Lock, At(0)),
    row("srw_lock_impl wait", "InnoDB", "srw_lock", Lock, At(0)),
    row("ssux_lock_impl wait", "InnoDB", "ssux_lock", Lock, At(0)),
    row("absl:: Mutex::LockSlow", "Abseil", "Mutex", Lock, Thread),
    row("absl:: CondVar::Wait", "Abseil", "CondVar", Idle, Thread),
    row(
        "absl:: Mutex::Await",
        "Abseil",
        "Mutex::Await",
        Idle,
        Thread,
    ),
    row(
        "folly:: SharedMutexImpl",
        "folly",
        "SharedMutex",
        Lock,
        Thread,
    ),
    row("folly:: Baton wait", "folly", "Baton", Idle, At(0)),
    // C++20 waits on atomics and what is made of them.
    above(
        "std::counting_semaphore< acquire",
        "C++",
        "counting_semaphore",
        ByWakers,
    ),
    above(
        "std::__atomic_semaphore",
        "C++",
        "counting_semaphore",
        ByWakers,
    ),
    above("std::latch::wait", "C++", "latch", Idle),
    above("std::barrier< wait", "C++", "barrier", Lock),
    row(
        "=cxa_guard_acquire",
        "C++",
        "static initializer",
        Lock,
        At(0),
    ),
    row(
        "std::__atomic_wait",
        "C++",
        "atomic::wait",
        ByWakers,
        Thread,
    ),
];

/// Beginnings of the names of functions between a lock's own and the one that wanted it.
const PLUMBING: &[&str] = &[
    "[dwell counts locks]",
    "std::",
    "<std::",
    "core::",
    "<core::",
    "alloc::",
    "lock_api::",
    "<lock_api::",
    "parking_lot::",
    "<parking_lot::",
    "parking_lot_core::",
    "__gthread",
    "pthread_",
    "__pthread",
    "___pthread",
    "__GI_",
    "lll_",
    "__lll_",
    "futex_",
    "__futex_",
    "boost::",
    "absl::",
    "[libc.so",
    "[libc-",
    "[libpthread",
    "[libstdc++",
    "[ld-",
    "[libjvm",
    "syscall",
    "runtime.",
    "gomp_",
    "GOMP_",
    "omp_",
    BARE_OPENMP,
    "tbb::detail::d1::",
    "acquire_timed",
    "lock_PyThread",
    "PyThread_",
    "ObjectMonitor::",
    "ObjectSynchronizer::",
    "SharedRuntime::",
    "InterpreterRuntime::",
    "Runtime1::",
    "os::",
];

/// The plain name of a C function, of whatever alias and clone: `__GI___pthread_mutex_lock` and
/// `pthread_mutex_lock.part.0` are `pthread_mutex_lock`.
pub fn plain(name: &str) -> &str {
    let name = name.trim_start_matches('_');
    let name = name.strip_prefix("GI_").unwrap_or(name);
    let name = name.trim_start_matches('_');
    let clone = [
        ".part.",
        ".constprop.",
        ".isra.",
        ".cold",
        ".lto_priv.",
        "@",
    ];
    let end = clone.iter().filter_map(|mark| name.find(mark)).min();
    &name[..end.unwrap_or(name.len())]
}

impl Kind {
    /// Whether this row is about the function of this name.
    pub fn matches(&self, name: &str) -> bool {
        match self.function.strip_prefix('=') {
            Some(wanted) => like(wanted, plain(name)),
            None => self.function.split(' ').all(|part| name.contains(part)),
        }
    }
}

/// Whether a name is like a pattern, in which `*` stands for anything.
fn like(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The row for a function, if it has one.
pub fn of_function(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.matches(name))
}

/// True for a function that stands between a lock's own and the one that wanted it.
pub fn is_plumbing(name: &str) -> bool {
    PLUMBING.iter().any(|start| name.starts_with(start))
}

/// True for a function of a lock, or between it and the one that wanted it.
pub fn belongs_to_lock(name: &str) -> bool {
    of_function(name).is_some() || is_plumbing(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names() {
        for (name, wanted) in [
            ("___pthread_mutex_lock", "pthread_mutex_lock"),
            ("__GI___pthread_mutex_lock", "pthread_mutex_lock"),
            ("__new_sem_wait_slow64.constprop.0", "new_sem_wait_slow64"),
            ("pthread_cond_wait@@GLIBC_2.3.2", "pthread_cond_wait"),
            ("take_gil.lto_priv.0", "take_gil"),
        ] {
            assert_eq!(plain(name), wanted);
        }
    }

    #[test]
    fn stars_stand_for_anything() {
        assert!(like("pthread_mutex_*lock*", "pthread_mutex_clocklock64"));
        assert!(like("pthread_mutex_*lock*", "pthread_mutex_lock"));
        assert!(!like("pthread_mutex_*lock*", "pthread_mutexattr_init"));
        assert!(!like("lll_lock_wait", "lll_lock_wait_private"));
        assert!(like("mtx_*lock", "mtx_timedlock"));
        assert!(!like("mtx_*lock", "mtx_locker"));
    }

    #[test]
    fn every_row_can_be_met() {
        for (place, kind) in KINDS.iter().enumerate() {
            let name = match kind.function.strip_prefix('=') {
                Some(pattern) => pattern.replace('*', ""),
                None => kind.function.replace(' ', "_"),
            };
            let met = KINDS.iter().position(|k| k.matches(&name));
            assert!(met.is_some_and(|met| met <= place), "{}", kind.function);
        }
    }
}
