//! Which threads wait for locks at the end of a recording, and who holds these: what a deadlock is told from.
//!
//! A mutex of glibc says who holds it behind its word, and so does a read-write lock who has it for writing; a word
//! with `FUTEX_WAITERS` (priority inheritance, robust mutexes, those of musl that are not normal) says so itself.
//! Whether a word belongs to such a lock is for a reader to tell, who knows the stacks.
//!
//! Everything is read twice. A thread that did not leave the processor in between waited all the time, so what
//! is told held for all threads at one instant: a circle among them is real.
use crate::processes::read_memory;
use std::fs;

/// A thread that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// The number that it was asked by.
    pub thread: u32,
    /// Address of the word it waits on.
    pub address: u64,
    /// Who holds the lock, by its number in its own PID namespace.
    pub owner_ns_tid: u32,
    /// Whether it gives up when a time is over.
    pub timed: bool,
}

/// A futex wait that a thread is in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FutexWait {
    address: u64,
    /// What its word was, as far as the kernel looks.
    expected: u32,
    timed: bool,
}

/// What is read of a thread at a time.
type Reading = (FutexWait, u32, u64);

/// Those of these threads (any number, pid, tid) that wait for a lock, of which the lock tells who holds it.
pub fn held_up(threads: impl Iterator<Item = (u32, u32, u32)>) -> Vec<HeldUp> {
    let first: Vec<(u32, u32, u32, Reading)> = threads
        .filter_map(|(thread, pid, tid)| Some((thread, pid, tid, read(pid, tid)?)))
        .collect();
    let still = first
        .into_iter()
        .filter(|(_, pid, tid, reading)| read(*pid, *tid).as_ref() == Some(reading));
    still
        .map(|(thread, _, _, (wait, owner_ns_tid, _))| HeldUp {
            thread,
            address: wait.address,
            owner_ns_tid,
            timed: wait.timed,
        })
        .collect()
}

/// Its wait, the owner of the lock, and how often it went to sleep so far.
fn read(pid: u32, tid: u32) -> Option<Reading> {
    let task = format!("/proc/{pid}/task/{tid}");
    let wait = futex_wait(&fs::read_to_string(format!("{task}/syscall")).ok()?, || {
        let sleeps_in = fs::read_to_string(format!("{task}/wchan"));
        sleeps_in.is_ok_and(|function| function.starts_with("futex"))
    })?;
    let owner = owner(pid, &wait)?;
    let status = fs::read_to_string(format!("{task}/status")).ok()?;
    let sleeps = status
        .lines()
        .find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
    Some((wait, owner, sleeps?.trim().parse().ok()?))
}

/// The wait that a line of `/proc/PID/task/TID/syscall` tells of. A call that goes on after a signal is another there;
/// `in_futex` tells whether the kernel sleeps for a futex.
fn futex_wait(line: &str, in_futex: impl FnOnce() -> bool) -> Option<FutexWait> {
    let mut words = line.split_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    if number != libc::SYS_futex && !(number == libc::SYS_restart_syscall && in_futex()) {
        return None;
    }
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (address, operation, expected, timeout) =
        (argument()?, argument()?, argument()?, argument()?);
    const FUTEX_LOCK_PI2: i32 = 13;
    let command = operation as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let waits = [
        libc::FUTEX_WAIT,
        libc::FUTEX_WAIT_BITSET,
        libc::FUTEX_LOCK_PI,
        FUTEX_LOCK_PI2,
    ];
    waits.contains(&command).then_some(FutexWait {
        address,
        expected: expected as u32,
        timed: timeout != 0,
    })
}

/// Who holds the lock that is waited for, where it tells; 0 is nobody.
fn owner(pid: u32, wait: &FutexWait) -> Option<u32> {
    /// What a word of glibc's plain mutexes is while somebody waits.
    const CONTENDED: u32 = 2;
    /// Bytes from the word to the owner there.
    const OWNER: u64 = 8;
    /// What either word of glibc's read-write locks is while somebody waits for a writer.
    const WRITTEN: u32 = 3;
    /// Bytes from the word that writers wait on to the one who writes; between the word that readers wait on and that
    /// one there are four bytes more, and nothing is where it would be for a writer.
    const WRITER: u64 = 12;
    let address = wait.address;
    let word = |address| {
        Some(u32::from_ne_bytes(
            read_memory(pid, address, 4)?.try_into().ok()?,
        ))
    };
    let value = word(address)?;
    let owner = if value & libc::FUTEX_WAITERS != 0 {
        value & libc::FUTEX_TID_MASK
    } else if value == CONTENDED {
        word(address.checked_add(OWNER)?)?
    } else if value == WRITTEN && wait.expected == WRITTEN {
        let writer = address.checked_add(WRITER)?;
        match word(writer)? {
            0 => word(writer + 4)?,
            writer => writer,
        }
    } else {
        0
    };
    // No number of a thread is larger.
    const PID_MAX_LIMIT: u32 = 1 << 22;
    (1..=PID_MAX_LIMIT).contains(&owner).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    #[test]
    fn futex_waits_are_told_from_other_calls() {
        let told = |line, in_futex| futex_wait(line, || in_futex).map(|w| (w.address, w.timed));
        let wait = |line| told(line, false);
        let plain = "202 0x7f10 0x80 0x2 0x0 0x0 0x0 0x7ffc 0x7f00\n";
        assert_eq!(wait(plain), Some((0x7f10, false)));
        // FUTEX_WAIT_BITSET | PRIVATE | CLOCK_REALTIME with a time.
        let timed = "202 0x7f10 0x189 0x2 0x7ffd0 0x0 0xffffffff 0x7ffc 0x7f00";
        assert_eq!(wait(timed), Some((0x7f10, true)));
        assert_eq!(wait("202 0x7f10 0x81 0x1 0x0 0x0 0x0 0x7ffc 0x7f00"), None);
        assert_eq!(wait("0 0x3 0x7ffd 0x400 0x0 0x0 0x0 0x7ffc 0x7f00"), None);
        let again = "219 0x7f10 0x189 0x2 0x7ffd0 0x0 0xffffffff 0x7ffc 0x7f00";
        assert_eq!(told(again, true), Some((0x7f10, true)));
        assert_eq!(told(again, false), None);
        assert_eq!(wait("running"), None);
        assert_eq!(wait("202 0x7f10"), None);
        assert_eq!(wait(""), None);
    }

    struct Mutex(UnsafeCell<libc::pthread_mutex_t>);
    // SAFETY: a mutex is made to be shared; only its functions touch it.
    unsafe impl Sync for Mutex {}

    impl Mutex {
        const fn new() -> Mutex {
            Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
        }

        fn lock(&self) {
            // SAFETY: an initialised mutex that is never moved or freed.
            assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
        }
    }

    static MUTEXES: [Mutex; 2] = [Mutex::new(), Mutex::new()];

    struct Rwlock(UnsafeCell<libc::pthread_rwlock_t>);
    // SAFETY: as of a mutex.
    unsafe impl Sync for Rwlock {}
    static WRITTEN: Rwlock = Rwlock(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER));

    /// A thread that waits for the lock for ever; its number.
    fn wants(take: unsafe extern "C" fn(*mut libc::pthread_rwlock_t) -> i32) -> u32 {
        let (said, tid) = mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: takes nothing and has no effect.
            said.send(unsafe { libc::gettid() } as u32).expect("heard");
            // SAFETY: an initialised lock that is never moved or freed.
            unsafe { take(WRITTEN.0.get()) }
        });
        tid.recv().expect("said")
    }

    /// A reader and a writer wait for who writes, each on a word of its own.
    #[test]
    fn who_writes_is_told_to_readers_and_writers() {
        // SAFETY: as above; this thread never lets it go.
        let me = unsafe {
            assert_eq!(libc::pthread_rwlock_wrlock(WRITTEN.0.get()), 0);
            libc::gettid() as u32
        };
        let tids = [
            wants(libc::pthread_rwlock_rdlock),
            wants(libc::pthread_rwlock_wrlock),
        ];
        let found = found(&tids);
        let lock = WRITTEN.0.get() as u64;
        let words = found.iter().map(|w| (w.address, w.owner_ns_tid, w.timed));
        let wanted = [(lock + 8, me, false), (lock + 12, me, false)];
        assert_eq!(words.collect::<Vec<_>>(), wanted);
    }

    /// What is told of these threads, once it is told of all; their numbers are their places.
    fn found(tids: &[u32]) -> Vec<HeldUp> {
        let pid = std::process::id();
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let numbered = (0..).zip(tids);
            let found = held_up(numbered.map(|(me, &tid)| (me, pid, tid)));
            if found.len() == tids.len() || Instant::now() > until {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Threads that wait for each other until the process ends.
    #[test]
    fn the_owners_of_real_mutexes_are_told() {
        let (said, tids) = mpsc::channel();
        let both = std::sync::Arc::new(std::sync::Barrier::new(2));
        for me in [0, 1] {
            let (said, both) = (said.clone(), both.clone());
            std::thread::spawn(move || {
                MUTEXES[me].lock();
                // SAFETY: takes nothing and has no effect.
                said.send((me as u32, unsafe { libc::gettid() } as u32))
                    .expect("heard");
                both.wait();
                MUTEXES[1 - me].lock();
            });
        }
        let mut tids: Vec<(u32, u32)> = tids.iter().take(2).collect();
        tids.sort_unstable();
        let numbers: Vec<u32> = tids.iter().map(|&(_, tid)| tid).collect();
        let found = found(&numbers);
        let wanted = |me: usize| HeldUp {
            thread: me as u32,
            address: MUTEXES[1 - me].0.get() as u64,
            owner_ns_tid: tids[1 - me].1,
            timed: false,
        };
        assert_eq!(found, [wanted(0), wanted(1)]);
    }
}
