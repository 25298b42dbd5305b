//! What the hooked functions do, and what their results mean.

/// The operation of a hooked function, as its entry tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// `pthread_mutex_lock`
    Lock,
    /// `pthread_mutex_trylock`
    TryLock,
    /// `pthread_mutex_timedlock`, `pthread_mutex_clocklock`
    TimedLock,
    /// `pthread_rwlock_rdlock` and its timed variants
    Read,
    /// `pthread_rwlock_tryrdlock`
    TryRead,
    /// `pthread_rwlock_wrlock` and its timed variants
    Write,
    /// `pthread_rwlock_trywrlock`
    TryWrite,
    /// `pthread_spin_lock`
    Spin,
    /// `pthread_spin_trylock`
    TrySpin,
    /// `pthread_cond_wait` and its timed variants
    Condition,
    /// `pthread_barrier_wait`
    Barrier,
    /// `sem_wait` and its timed variants
    Down,
    /// `sem_trywait`
    TryDown,
    /// `pthread_mutex_unlock`
    Unlock,
    /// `pthread_rwlock_unlock`
    Leave,
    /// `pthread_spin_unlock`
    LeaveSpin,
    /// What takes the mutex again at the end of a wait for a condition, in glibc
    Retake,
}

/// Set beside the number of an operation whose lock was not free when it came.
pub const CONTENDED: u64 = 1 << 8;

const ALL: [Operation; 17] = [
    Operation::Lock,
    Operation::TryLock,
    Operation::TimedLock,
    Operation::Read,
    Operation::TryRead,
    Operation::Write,
    Operation::TryWrite,
    Operation::Spin,
    Operation::TrySpin,
    Operation::Condition,
    Operation::Barrier,
    Operation::Down,
    Operation::TryDown,
    Operation::Unlock,
    Operation::Leave,
    Operation::LeaveSpin,
    Operation::Retake,
];

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has the lock.
    Acquired,
    /// It tried, and the lock was taken.
    Failed,
    /// Its time was over.
    TimedOut,
    /// Nothing happened to the lock (an error of the caller's).
    Nothing,
}

/// Results of the functions that return an error number.
const EAGAIN: i32 = 11;
pub(super) const EBUSY: i32 = 16;
const ETIMEDOUT: i32 = 110;
pub(super) const EOWNERDEAD: i32 = 130;
/// What a barrier tells one of those who pass.
pub(super) const SERIAL_THREAD: i32 = -1;

impl Operation {
    /// The operation of a number.
    pub fn of(number: u64) -> Option<Operation> {
        ALL.get((number & (CONTENDED - 1)) as usize).copied()
    }

    /// Whether it never waits.
    pub fn is_try(self) -> bool {
        matches!(
            self,
            Operation::TryLock
                | Operation::TryRead
                | Operation::TryWrite
                | Operation::TrySpin
                | Operation::TryDown
        )
    }

    /// Whether it is about a mutex.
    pub fn is_mutex(self) -> bool {
        matches!(
            self,
            Operation::Lock | Operation::TryLock | Operation::TimedLock | Operation::Retake
        )
    }

    /// Whether it takes a read-write lock for reading.
    pub fn is_read(self) -> bool {
        matches!(self, Operation::Read | Operation::TryRead)
    }

    /// Whether a way through libc that begins with this operation may come by another entry on its way: musl
    /// goes on by a jump from the plain function to its timed variant.
    pub fn goes_on_as(self, next: Operation) -> bool {
        match self {
            Operation::Lock => next == Operation::TimedLock,
            Operation::Read | Operation::Write | Operation::Down => next == self,
            _ => false,
        }
    }

    /// What a result means.
    pub fn outcome(self, result: i32) -> Outcome {
        match (self, result) {
            (Operation::Unlock | Operation::Leave | Operation::LeaveSpin, _) => Outcome::Nothing,
            (_, 0) | (Operation::Barrier, SERIAL_THREAD) => Outcome::Acquired,
            // A robust mutex whose owner has died is acquired nevertheless.
            (_, EOWNERDEAD) if self.is_mutex() => Outcome::Acquired,
            // So is the mutex of a wait for a condition, which is over.
            (Operation::Condition, EOWNERDEAD) => Outcome::Acquired,
            (Operation::TryDown, _) => Outcome::Failed,
            (_, EBUSY) if self.is_try() => Outcome::Failed,
            // Too many readers: the lock is not to be had.
            (Operation::TryRead, EAGAIN) => Outcome::Failed,
            (_, ETIMEDOUT) => Outcome::TimedOut,
            _ => Outcome::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_operations() {
        for (number, operation) in ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
            assert_eq!(Operation::of(number as u64 | CONTENDED), Some(operation));
        }
        assert_eq!(Operation::of(ALL.len() as u64), None);
    }

    /// The rules of the results, as POSIX has them.
    #[test]
    fn results() {
        let cases = [
            (Operation::Lock, 0, Outcome::Acquired),
            (Operation::Lock, 130, Outcome::Acquired), // EOWNERDEAD
            (Operation::Lock, 131, Outcome::Nothing),  // ENOTRECOVERABLE
            (Operation::Lock, 35, Outcome::Nothing),   // EDEADLK
            (Operation::TryLock, 16, Outcome::Failed), // EBUSY
            (Operation::TryLock, 130, Outcome::Acquired),
            (Operation::TimedLock, 110, Outcome::TimedOut), // ETIMEDOUT
            (Operation::Write, 35, Outcome::Nothing),
            (Operation::TryWrite, 16, Outcome::Failed),
            (Operation::Condition, 110, Outcome::TimedOut),
            (Operation::Barrier, -1, Outcome::Acquired),
            (Operation::Down, -1, Outcome::Nothing), // EINTR or ETIMEDOUT
            (Operation::TryDown, -1, Outcome::Failed),
        ];
        for (operation, result, outcome) in cases {
            assert_eq!(operation.outcome(result), outcome, "{operation:?} {result}");
        }
    }
}
