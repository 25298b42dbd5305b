//! What locks and processors cost.
use serde::{Deserialize, Serialize};

/// How a lock is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Test-and-set in a loop.
    Tas,
    /// Test, and test-and-set when it looks free.
    Ttas,
    /// Tickets: in order, all spin for one word.
    Ticket,
    /// A queue in which each spins for a word of its own (MCS).
    Mcs,
    /// Spins for a while, then sleeps: glibc's `PTHREAD_MUTEX_ADAPTIVE_NP`.
    Adaptive,
    /// Sleeps at once: glibc's normal mutex.
    Futex,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 6] = [
        Kind::Tas,
        Kind::Ttas,
        Kind::Ticket,
        Kind::Mcs,
        Kind::Adaptive,
        Kind::Futex,
    ];

    /// Its name in answers and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tas => "tas",
            Kind::Ttas => "ttas",
            Kind::Ticket => "ticket",
            Kind::Mcs => "mcs",
            Kind::Adaptive => "adaptive",
            Kind::Futex => "mutex",
        }
    }

    /// The kind of this name.
    pub fn of(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| k.name() == name)
    }

    /// True where waiters get the lock in the order in which they came, running or not.
    pub fn is_in_order(self) -> bool {
        matches!(self, Kind::Ticket | Kind::Mcs)
    }

    /// True where a waiter sleeps, sooner or later.
    pub fn sleeps(self) -> bool {
        matches!(self, Kind::Adaptive | Kind::Futex)
    }
}

/// What one kind of lock costs, ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// To take and let go a free lock that this processor had last.
    pub alone_ns: f64,
    /// To take and let go a free lock that another processor had last.
    pub moved_ns: f64,
    /// From a release to the waiter's first instruction with the lock, when one waiter spins.
    pub handoff_ns: f64,
    /// Added to that by each further waiter that spins.
    pub per_waiter_ns: f64,
}

/// Processors, and what the scheduler and locks cost on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Number of processors that the program may use.
    pub processors: usize,
    /// How much longer work takes while all processors are busy than while one is (≥ 1): processors that share a
    /// core.
    pub crowded: f64,
    /// How long a thread runs on while others wait for a processor.
    pub slice_ns: f64,
    /// To put another thread on a processor.
    pub switch_ns: f64,
    /// From a wake-up to the woken thread's first instruction, on a processor that is idle.
    pub wake_latency_ns: f64,
    /// What a wake-up costs who does it.
    pub wake_ns: f64,
    /// To ask the kernel to sleep for a lock, until it looks whether that is still taken.
    pub enter_ns: f64,
    /// To go to sleep then, on the processor.
    pub sleep_ns: f64,
    /// How long an adaptive mutex spins before it sleeps.
    pub spin_ns: f64,
    /// By kind, in the order of [`Kind::ALL`].
    pub costs: [Costs; 6],
}

impl Machine {
    /// What one kind costs.
    pub fn cost(&self, kind: Kind) -> &Costs {
        &self.costs[kind as usize]
    }

    /// From a release to the next owner's first instruction while this many wait on their processors.
    pub fn handoff_ns(&self, kind: Kind, spinning: usize) -> f64 {
        let costs = self.cost(kind);
        costs.handoff_ns + costs.per_waiter_ns * spinning.saturating_sub(1) as f64
    }

    /// How much longer work takes while this many processors are busy.
    pub(crate) fn slowdown(&self, busy: usize) -> f64 {
        match self.processors {
            0 | 1 => 1.0,
            all => {
                let others = busy.saturating_sub(1) as f64 / (all - 1) as f64;
                1.0 + (self.crowded - 1.0).max(0.0) * others.min(1.0)
            }
        }
    }

    /// A machine on which locks, switches and wake-ups cost nothing: what remains is queueing.
    pub fn ideal(processors: usize) -> Machine {
        let free = Costs {
            alone_ns: 0.0,
            moved_ns: 0.0,
            handoff_ns: 0.0,
            per_waiter_ns: 0.0,
        };
        Machine {
            processors,
            crowded: 1.0,
            slice_ns: 3e6,
            switch_ns: 0.0,
            wake_latency_ns: 0.0,
            wake_ns: 0.0,
            enter_ns: 0.0,
            sleep_ns: 0.0,
            spin_ns: 0.0,
            costs: [free; 6],
        }
    }

    /// A server of several sockets, by published figures: a line of memory takes about 100 ns to come from another
    /// processor. Every waiter of a lock that all spin for takes it once more; of a queue each has one of its own.
    pub fn server(processors: usize) -> Machine {
        let line = 100.0;
        let costs = |handoff_ns: f64, per_waiter_ns: f64| Costs {
            alone_ns: 20.0,
            moved_ns: line,
            handoff_ns,
            per_waiter_ns,
        };
        Machine {
            processors,
            crowded: 1.0,
            slice_ns: 3e6,
            switch_ns: 2_000.0,
            wake_latency_ns: 20_000.0,
            wake_ns: 2_000.0,
            enter_ns: 300.0,
            sleep_ns: 2_000.0,
            spin_ns: 5_000.0,
            costs: [
                costs(line, line / 4.0),
                costs(line, line / 10.0),
                costs(line, line / 10.0),
                costs(2.0 * line, 0.0),
                costs(line, line / 10.0),
                costs(line, 0.0),
            ],
        }
    }
}
