//! Which functions get which hook.
use crate::libc::Libc;
use dwell_patch::Hook;

/// A function of libc and the entry of the agent that stands in for it.
struct Function {
    name: &'static str,
    /// For any libc: the real function does the work.
    plain: u64,
    /// Where the agent can answer by itself: glibc, musl.
    quick: Option<(u64, u64)>,
}

const fn plain(name: &'static str, plain: u64) -> Function {
    Function {
        name,
        plain,
        quick: None,
    }
}

const FUNCTIONS: [Function; 4] = [
    Function {
        name: "pthread_mutex_lock",
        plain: dwell_agent::LOCK_OFFSET,
        quick: Some((
            dwell_agent::GLIBC_LOCK_OFFSET,
            dwell_agent::MUSL_LOCK_OFFSET,
        )),
    },
    Function {
        name: "pthread_mutex_trylock",
        plain: dwell_agent::TRYLOCK_OFFSET,
        quick: Some((
            dwell_agent::GLIBC_TRYLOCK_OFFSET,
            dwell_agent::MUSL_TRYLOCK_OFFSET,
        )),
    },
    plain("pthread_mutex_timedlock", dwell_agent::TIMEDLOCK_OFFSET),
    plain("pthread_mutex_clocklock", dwell_agent::TIMEDLOCK_OFFSET),
];

/// Every function that is hooked, and the hook at its entry. Its `ret`s get [`LEAVE`].
pub(crate) fn entries(libc: Libc) -> impl Iterator<Item = (&'static str, Hook)> {
    FUNCTIONS.iter().map(move |function| {
        let offset = match (libc, function.quick) {
            (Libc::Glibc { .. }, Some((glibc, _))) => glibc,
            (Libc::Musl, Some((_, musl))) => musl,
            _ => function.plain,
        };
        (function.name, Hook::Inline(offset))
    })
}

/// The hook at the `ret`s.
pub(crate) const LEAVE: Hook = Hook::Call(dwell_agent::LEAVE_OFFSET);

/// Functions of musl that try again and again while they wait: their tries are no operations of the
/// program.
pub(crate) const MUSL_WAITS: [&str; 1] = ["pthread_mutex_timedlock"];
