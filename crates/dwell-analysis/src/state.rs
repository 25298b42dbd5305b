//! What a thread does at an instant, and time summed over it.
use dwell_recording::rows::{reason, state};

/// Why a thread is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A futex or another lock: somebody else has what is wanted, as far as is known.
    Lock,
    /// A futex on which a thread waits for news (a condition variable, a semaphore, a thread's end), not for a lock.
    /// Recordings call that `lock`; what the wait is for tells [`crate::locks`].
    Condition,
    /// Storage.
    Io,
    /// A socket.
    Socket,
    /// A pipe, FIFO, eventfd or terminal.
    Pipe,
    /// poll, select, epoll.
    Poll,
    /// nanosleep and relatives.
    Sleep,
    /// A page fault.
    Fault,
    /// A child process.
    Child,
    /// Stopped or traced.
    Stopped,
    /// Any other system call.
    Other,
    /// The wait's site was lost, and the reason with it.
    Unknown,
}

impl Reason {
    /// Every reason, in the order answers show them.
    pub const ALL: [Reason; 12] = [
        Reason::Lock,
        Reason::Condition,
        Reason::Io,
        Reason::Socket,
        Reason::Pipe,
        Reason::Poll,
        Reason::Sleep,
        Reason::Fault,
        Reason::Child,
        Reason::Stopped,
        Reason::Other,
        Reason::Unknown,
    ];

    /// The name used in answers, and in recordings where they have it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Lock => reason::LOCK,
            Reason::Condition => "condition",
            Reason::Io => reason::IO,
            Reason::Socket => reason::SOCKET,
            Reason::Pipe => reason::PIPE,
            Reason::Poll => reason::POLL,
            Reason::Sleep => reason::SLEEP,
            Reason::Fault => reason::FAULT,
            Reason::Child => reason::CHILD,
            Reason::Stopped => reason::STOPPED,
            Reason::Other => reason::OTHER,
            Reason::Unknown => "unknown",
        }
    }

    /// The reason a recording names. A name of a later version counts as [`Reason::Other`].
    pub fn from_name(name: &str) -> Reason {
        Reason::ALL
            .into_iter()
            .find(|r| r.name() == name)
            .unwrap_or(Reason::Other)
    }
}

/// What a thread does at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// On a processor, at work as far as is known.
    Running,
    /// On a processor, in a loop that only waits.
    Spinning,
    /// Wants a processor, has none.
    Runnable,
    /// Had a processor, which the machine's host or interrupts took meanwhile.
    Stolen,
    /// Asleep, and why.
    Blocked(Reason),
    /// The recorder could not tell.
    Lost,
}

impl State {
    /// How many states there are.
    pub const COUNT: usize = 17;

    /// Every state, in the order answers show them.
    pub fn all() -> impl Iterator<Item = State> {
        [
            State::Running,
            State::Spinning,
            State::Runnable,
            State::Stolen,
        ]
        .into_iter()
        .chain(Reason::ALL.into_iter().map(State::Blocked))
        .chain([State::Lost])
    }

    /// Its place in [`State::all`].
    pub fn index(self) -> usize {
        match self {
            State::Running => 0,
            State::Spinning => 1,
            State::Runnable => 2,
            State::Stolen => 3,
            State::Blocked(reason) => 4 + reason as usize,
            State::Lost => State::COUNT - 1,
        }
    }

    /// The state's name without the reason.
    pub fn name(self) -> &'static str {
        match self {
            State::Running => state::RUNNING,
            State::Spinning => "spinning",
            State::Runnable => state::RUNNABLE,
            State::Stolen => "stolen",
            State::Blocked(_) => state::BLOCKED,
            State::Lost => "lost",
        }
    }

    /// Why it is blocked; none in every other state.
    pub fn reason(self) -> Option<Reason> {
        match self {
            State::Blocked(reason) => Some(reason),
            _ => None,
        }
    }

    /// True on a processor.
    pub fn on_cpu(self) -> bool {
        matches!(self, State::Running | State::Spinning)
    }
}

/// Thread time by state, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times([u64; State::COUNT]);

impl Times {
    /// Adds `ns` spent in `state`.
    pub fn add(&mut self, state: State, ns: u64) {
        let cell = &mut self.0[state.index()];
        *cell = cell.saturating_add(ns);
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Times) {
        for (cell, more) in self.0.iter_mut().zip(other.0) {
            *cell = cell.saturating_add(more);
        }
    }

    /// Time in one state, ns.
    pub fn get(&self, state: State) -> u64 {
        self.0[state.index()]
    }

    /// Time on a processor, ns; that of spinning is in it.
    pub fn running(&self) -> u64 {
        self.get(State::Running).saturating_add(self.spinning())
    }

    /// Time on a processor in loops that only wait, ns.
    pub fn spinning(&self) -> u64 {
        self.get(State::Spinning)
    }

    /// Time wanting a processor, ns.
    pub fn runnable(&self) -> u64 {
        self.get(State::Runnable)
    }

    /// Time on a processor that the machine's host or interrupts had, ns.
    pub fn stolen(&self) -> u64 {
        self.get(State::Stolen)
    }

    /// Time asleep for any reason, ns.
    pub fn blocked(&self) -> u64 {
        Reason::ALL
            .into_iter()
            .fold(0, |sum, r| sum.saturating_add(self.get(State::Blocked(r))))
    }

    /// Time that could not be told apart, ns.
    pub fn lost(&self) -> u64 {
        self.get(State::Lost)
    }

    /// Time in every state, ns.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Every state with its time, ns, in the order answers show them.
    pub fn iter(&self) -> impl Iterator<Item = (State, u64)> + '_ {
        State::all().map(|state| (state, self.get(state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_place_in_all() {
        let places: Vec<usize> = State::all().map(State::index).collect();
        assert_eq!(places, (0..State::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn every_recorded_reason_is_known() {
        for name in reason::ALL {
            assert_eq!(Reason::from_name(name).name(), name);
        }
        assert_eq!(Reason::from_name("teleport"), Reason::Other);
    }
}
