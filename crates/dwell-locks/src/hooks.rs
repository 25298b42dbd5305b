//! Which functions get which hook.
use crate::libc::Libc;
use dwell_patch::{Hook, Place};

/// A function of libc and what of the agent stands in for it.
pub(crate) struct Function {
    pub name: &'static str,
    /// Its entry, for any libc: the real function does the work.
    plain: u64,
    /// Its entry where the agent can answer by itself.
    quick: Quick,
    /// At its `ret`s, where it keeps its argument: its entry is left alone then.
    result: Option<u64>,
    /// Where its entry cannot be hooked: at what every call passes instead.
    passed: Option<u64>,
    /// Whether what it returns does not matter.
    is_release: bool,
}

/// Entries of a function that the agent can answer by itself, by whose it is.
#[derive(Clone, Copy)]
enum Quick {
    Nowhere,
    Mutex {
        glibc: u64,
        musl: u64,
    },
    Rwlock {
        glibc: u64,
    },
    Semaphore {
        glibc: u64,
    },
    /// Only where it is seen who waits for them.
    Spin {
        glibc: u64,
    },
}

impl Function {
    /// The hook at the entry.
    pub fn entry(&self, libc: Libc) -> Hook {
        Hook::Inline(match (libc, self.quick) {
            (Libc::Glibc(_), Quick::Mutex { glibc, .. }) => glibc,
            (Libc::Musl, Quick::Mutex { musl, .. }) => musl,
            (Libc::Glibc(known), Quick::Rwlock { glibc }) if known.has_rwlock => glibc,
            (Libc::Glibc(_), Quick::Spin { glibc }) => glibc,
            (Libc::Glibc(known), Quick::Semaphore { glibc }) if known.semaphore.is_some() => glibc,
            _ => self.plain,
        })
    }

    /// Whether only its entry is hooked.
    pub fn is_release(&self) -> bool {
        self.is_release
    }

    /// The hook at what every call passes, where the entry cannot be hooked.
    pub fn passed(&self) -> Option<Hook> {
        self.passed.map(Hook::Call)
    }

    /// The hook at the `ret`s that needs none at the entry.
    pub fn result(&self, libc: Libc) -> Option<Hook> {
        // Of musl's, only the entry tells whether it waits.
        let waits = libc == Libc::Musl && self.plain == dwell_agent::SPIN_OFFSET;
        self.result.filter(|_| !waits).map(Hook::Call)
    }
}

/// The hook at the `ret`s of all others.
pub(crate) const LEAVE: Hook = Hook::Call(dwell_agent::LEAVE_OFFSET);

const fn quick(name: &'static str, plain: u64, glibc: u64, musl: u64) -> Function {
    Function {
        name,
        plain,
        quick: Quick::Mutex { glibc, musl },
        result: None,
        passed: None,
        is_release: false,
    }
}

const fn plain(name: &'static str, plain: u64) -> Function {
    Function {
        name,
        plain,
        quick: Quick::Nowhere,
        result: None,
        passed: None,
        is_release: false,
    }
}

const fn rwlock(name: &'static str, plain_at: u64, glibc: u64) -> Function {
    Function {
        quick: Quick::Rwlock { glibc },
        ..plain(name, plain_at)
    }
}

const fn semaphore(name: &'static str, plain_at: u64, glibc: u64) -> Function {
    Function {
        quick: Quick::Semaphore { glibc },
        ..plain(name, plain_at)
    }
}

const fn short(name: &'static str, plain: u64, result: u64) -> Function {
    Function {
        name,
        plain,
        quick: Quick::Nowhere,
        result: Some(result),
        passed: None,
        is_release: false,
    }
}

/// The function that releases a mutex: hooked where the mutex is known, for the sake of those who wait.
pub(crate) const UNLOCK: Function = Function {
    is_release: true,
    ..quick(
        "pthread_mutex_unlock",
        dwell_agent::LOCK_OFFSET, // of a libc that is not known: never used
        dwell_agent::GLIBC_UNLOCK_OFFSET,
        dwell_agent::MUSL_UNLOCK_OFFSET,
    )
};

/// The same for read-write locks.
pub(crate) const LEAVE_LOCK: Function = Function {
    is_release: true,
    ..rwlock(
        "pthread_rwlock_unlock",
        dwell_agent::LEAVE_LOCK_OFFSET,
        dwell_agent::GLIBC_LEAVE_LOCK_OFFSET,
    )
};

/// The same for spin locks: hooked where it is seen who waits for them.
pub(crate) const LEAVE_SPIN: Function = Function {
    is_release: true,
    quick: Quick::Spin {
        glibc: dwell_agent::GLIBC_LEAVE_SPIN_OFFSET,
    },
    ..plain("pthread_spin_unlock", dwell_agent::LEAVE_SPIN_OFFSET)
};

/// The functions that make a lock of their first argument, and the hook at their entry.
pub(crate) const MAKES: ([&str; 5], Hook) = (
    [
        "pthread_mutex_init",
        "pthread_rwlock_init",
        "pthread_cond_init",
        "pthread_barrier_init",
        "sem_init",
    ],
    Hook::Call(dwell_agent::MAKES_OFFSET),
);

/// Those that destroy one.
pub(crate) const DESTROYS: ([&str; 5], Hook) = (
    [
        "pthread_mutex_destroy",
        "pthread_rwlock_destroy",
        "pthread_cond_destroy",
        "pthread_barrier_destroy",
        "sem_destroy",
    ],
    Hook::Call(dwell_agent::DESTROYS_OFFSET),
);

/// The functions by which a process forbids itself system calls, and the hook at their entry.
pub(crate) const FORBIDS: ([&str; 2], Hook) = (
    ["prctl", "syscall"],
    Hook::Call(dwell_agent::FORBIDS_OFFSET),
);

/// What takes a mutex again at the end of a wait for a condition, in glibc; it has no name of its own.
pub(crate) const RETAKE: Function = plain("pthread_cond_wait", dwell_agent::RETAKE_OFFSET);

/// The function that takes a spin lock.
pub(crate) const SPIN_LOCK: &str = "pthread_spin_lock";
/// The hook at its entry, where that tells whether it waits.
pub(crate) const SPIN_ENTRY: Hook = Hook::Inline(dwell_agent::SPIN_OFFSET);
/// The hook where glibc tries to take it, for the first time and whenever its loop has seen it free. Where that cannot be, its
/// `ret` counts alone.
pub(crate) const SPIN_QUICK: (Place, Hook) =
    (Place::Head, Hook::Inline(dwell_agent::GLIBC_SPIN_OFFSET));
/// The hook in the loop in which glibc waits for a spin lock.
pub(crate) const SPINS: Hook = Hook::Call(dwell_agent::SPINS_OFFSET);

/// Every function that is hooked in any libc.
pub(crate) const FUNCTIONS: [Function; 22] = {
    use dwell_agent::*;
    [
        quick(
            "pthread_mutex_lock",
            LOCK_OFFSET,
            GLIBC_LOCK_OFFSET,
            MUSL_LOCK_OFFSET,
        ),
        quick(
            "pthread_mutex_trylock",
            TRYLOCK_OFFSET,
            GLIBC_TRYLOCK_OFFSET,
            MUSL_TRYLOCK_OFFSET,
        ),
        plain("pthread_mutex_timedlock", TIMEDLOCK_OFFSET),
        plain("pthread_mutex_clocklock", TIMEDLOCK_OFFSET),
        rwlock("pthread_rwlock_rdlock", READ_OFFSET, GLIBC_READ_OFFSET),
        plain("pthread_rwlock_timedrdlock", READ_OFFSET),
        plain("pthread_rwlock_clockrdlock", READ_OFFSET),
        Function {
            passed: Some(TRYREAD_PASSES_OFFSET),
            ..short(
                "pthread_rwlock_tryrdlock",
                TRYREAD_OFFSET,
                RESULT_TRYREAD_OFFSET,
            )
        },
        rwlock("pthread_rwlock_wrlock", WRITE_OFFSET, GLIBC_WRITE_OFFSET),
        plain("pthread_rwlock_timedwrlock", WRITE_OFFSET),
        plain("pthread_rwlock_clockwrlock", WRITE_OFFSET),
        short(
            "pthread_rwlock_trywrlock",
            TRYWRITE_OFFSET,
            RESULT_TRYWRITE_OFFSET,
        ),
        short(SPIN_LOCK, SPIN_OFFSET, RESULT_SPIN_OFFSET),
        short(
            "pthread_spin_trylock",
            TRYSPIN_OFFSET,
            RESULT_TRYSPIN_OFFSET,
        ),
        plain("pthread_cond_wait", CONDITION_OFFSET),
        plain("pthread_cond_timedwait", CONDITION_OFFSET),
        plain("pthread_cond_clockwait", CONDITION_OFFSET),
        plain("pthread_barrier_wait", BARRIER_OFFSET),
        semaphore("sem_wait", DOWN_OFFSET, GLIBC_DOWN_OFFSET),
        plain("sem_timedwait", DOWN_OFFSET),
        plain("sem_clockwait", DOWN_OFFSET),
        short("sem_trywait", TRYDOWN_OFFSET, RESULT_TRYDOWN_OFFSET),
    ]
};

/// Functions of musl that try again and again while they wait: their tries are no operations of the
/// program.
pub(crate) const MUSL_WAITS: [&str; 4] = [
    // The first is the one that the quick way of trying knows.
    "pthread_mutex_timedlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_timedwrlock",
    "sem_timedwait",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libc::{Cancellation, Glibc};

    /// What stands in for a function is copied: of each something must be there.
    #[test]
    fn what_stands_in_for_a_function_can_be_copied() {
        let cancellation = Cancellation {
            offset: 0,
            mask: 0,
            value: 0,
        };
        let glibc = Libc::Glibc(Glibc {
            tid_offset: 0,
            robust_offset: None,
            has_rwlock: true,
            semaphore: Some(cancellation),
        });
        let functions = FUNCTIONS
            .iter()
            .chain([&UNLOCK, &LEAVE_LOCK, &LEAVE_SPIN, &RETAKE]);
        let entries = functions
            .flat_map(|f| [glibc, Libc::Musl, Libc::Unknown].map(|libc| f.entry(libc)))
            .chain([SPIN_ENTRY, SPIN_QUICK.1]);
        for hook in entries {
            let Hook::Inline(offset) = hook else {
                panic!("{hook:?} is no entry");
            };
            assert!(!dwell_agent::copied(offset).is_empty(), "{offset:#x}");
        }
    }
}
