//! Libraries that let threads wait in functions that have no names as distributions ship them. What they wait for then
//! shows in where the program came into the library, or that a thread of the library's own has never left it.
use super::kinds::{GLIB, Kind, OPENMP, Says, Word, row};

/// One of them.
pub(super) struct Library {
    /// Beginnings of the names of what belongs to it, and runs nothing of the program's.
    functions: &'static [&'static str],
    /// The functions by which a program comes into it, of those that may wait.
    ways: &'static [Kind],
    /// What a thread of its own waits for that runs nothing of the program's.
    pub own: Kind,
    /// What a thread waits for that came into it by none of the ways: they end by jumps to functions without names.
    pub other: Option<Kind>,
}

use Says::{Idle, Lock};
use Word::Thread;

const TBB: &str = "TBB";

const fn idle(runtime: &'static str) -> Kind {
    row("", runtime, "idle thread", Idle, Thread)
}

const GLIB_MUTEX: Kind = row("", GLIB, "mutex", Lock, Word::At(0));

const LIBRARIES: &[Library] = &[
    // LLVM's OpenMP, which is Intel's; it has GNU's functions for programs, too. Its threads go from the end of one team
    // straight to the wait for the next, so that only the main thread is seen to wait at the end.
    Library {
        functions: &["[libomp", "[libiomp5", "__kmp_"],
        ways: &[
            row("=kmpc_*barrier*", OPENMP, "barrier", Lock, Thread),
            row("=kmpc_reduce*", OPENMP, "barrier", Lock, Thread),
            row("=kmpc_fork_*", OPENMP, "barrier", Lock, Thread),
            row("=kmpc_*task*", OPENMP, "tasks", Idle, Thread),
            row("=GOMP_barrier*", OPENMP, "barrier", Lock, Thread),
            row("=GOMP_parallel*", OPENMP, "barrier", Lock, Thread),
            row("=GOMP_task*", OPENMP, "tasks", Idle, Thread),
        ],
        own: idle(OPENMP),
        other: None,
    },
    // oneTBB: its mutexes wait by a table of addresses.
    Library {
        functions: &["[libtbb", "tbb::detail::r1::"],
        ways: &[
            row("tbb:: r1::wait_on_address", TBB, "mutex", Lock, Thread),
            row(
                "tbb:: r1::wait_bounded_queue_monitor",
                TBB,
                "concurrent_bounded_queue",
                Idle,
                Thread,
            ),
            row("tbb:: 1::execute_and_wait", TBB, "tasks", Idle, Thread),
            row("tbb:: 1::wait(", TBB, "tasks", Idle, Thread),
        ],
        own: idle(TBB),
        other: None,
    },
    // `g_mutex_lock` goes on elsewhere when it has to wait; what else waits in GLib returns to its function.
    Library {
        functions: &["[libglib-2.0"],
        ways: &[],
        own: GLIB_MUTEX,
        other: Some(GLIB_MUTEX),
    },
];

impl Library {
    /// The library that a function belongs to.
    pub fn of_function(name: &str) -> Option<&'static Library> {
        LIBRARIES.iter().find(|library| library.has(name))
    }

    fn has(&self, name: &str) -> bool {
        self.functions.iter().any(|start| name.starts_with(start))
    }
}

/// What a wait is for if a program came into a library by this function.
pub(super) fn way(name: &str) -> Option<&'static Kind> {
    LIBRARIES
        .iter()
        .flat_map(|library| library.ways)
        .find(|way| way.matches(name))
}
