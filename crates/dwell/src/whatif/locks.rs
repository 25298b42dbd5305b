//! Real locks of every kind, to be measured.
use dwell_whatif::Kind;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Does this much work: each turn waits for the one before.
pub fn turns(count: u32) {
    let mut x = u64::from(count);
    for _ in 0..count {
        x = std::hint::black_box(
            x.wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407),
        );
    }
    std::hint::black_box(x);
}

/// A line of memory to itself.
#[repr(align(128))]
struct Padded<T>(T);

/// A lock that threads share.
pub struct Shared {
    kind: Kind,
    word: Padded<AtomicU32>,
    serving: Padded<AtomicU32>,
    /// Of a queue: its last, one more than the thread's number; 0 when nobody has it.
    tail: Padded<AtomicUsize>,
    nodes: Vec<Padded<(AtomicUsize, AtomicU32)>>,
    mutex: Option<Mutex>,
}

impl Shared {
    /// For threads numbered from 0.
    pub fn new(kind: Kind, threads: usize) -> Shared {
        let node = || Padded((AtomicUsize::new(0), AtomicU32::new(0)));
        Shared {
            kind,
            word: Padded(AtomicU32::new(0)),
            serving: Padded(AtomicU32::new(0)),
            tail: Padded(AtomicUsize::new(0)),
            nodes: (0..threads).map(|_| node()).collect(),
            mutex: mutex(kind),
        }
    }

    /// Does something with the lock held, as the thread of this number.
    pub fn with(&self, own: usize, work: impl FnOnce()) {
        self.lock(own);
        work();
        self.unlock(own);
    }

    fn lock(&self, own: usize) {
        let word = &self.word.0;
        match self.kind {
            Kind::Tas => {
                while word.swap(1, Ordering::Acquire) != 0 {
                    std::hint::spin_loop();
                }
            }
            Kind::Ttas => {
                while word.swap(1, Ordering::Acquire) != 0 {
                    while word.load(Ordering::Relaxed) != 0 {
                        std::hint::spin_loop();
                    }
                }
            }
            Kind::Ticket => {
                let ticket = word.fetch_add(1, Ordering::Relaxed);
                while self.serving.0.load(Ordering::Acquire) != ticket {
                    std::hint::spin_loop();
                }
            }
            Kind::Mcs => self.queue(own),
            Kind::Adaptive | Kind::Futex => self.mutex.iter().for_each(Mutex::lock),
        }
    }

    fn unlock(&self, own: usize) {
        match self.kind {
            Kind::Tas | Kind::Ttas => self.word.0.store(0, Ordering::Release),
            Kind::Ticket => {
                self.serving.0.fetch_add(1, Ordering::Release);
            }
            Kind::Mcs => self.leave(own),
            Kind::Adaptive | Kind::Futex => self.mutex.iter().for_each(Mutex::unlock),
        }
    }

    fn queue(&self, own: usize) {
        let (next, waits) = &self.nodes[own].0;
        next.store(0, Ordering::Relaxed);
        waits.store(1, Ordering::Relaxed);
        let Some(before) = self.tail.0.swap(own + 1, Ordering::AcqRel).checked_sub(1) else {
            return;
        };
        self.nodes[before].0.0.store(own + 1, Ordering::Release);
        while waits.load(Ordering::Acquire) != 0 {
            std::hint::spin_loop();
        }
    }

    fn leave(&self, own: usize) {
        let next = &self.nodes[own].0.0;
        if next.load(Ordering::Acquire) == 0 {
            let is_last =
                self.tail
                    .0
                    .compare_exchange(own + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
            if is_last.is_ok() {
                return;
            }
            while next.load(Ordering::Acquire) == 0 {
                std::hint::spin_loop();
            }
        }
        let next = next.load(Ordering::Acquire) - 1;
        self.nodes[next].0.1.store(0, Ordering::Release);
    }
}

/// A mutex of libc as the lock of a kind, see [`Shared`].
fn mutex(kind: Kind) -> Option<Mutex> {
    match kind {
        Kind::Futex => Some(Mutex::new(false)),
        Kind::Adaptive => Some(Mutex::new(true)),
        _ => None,
    }
}

/// A mutex of libc.
pub struct Mutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a mutex of libc is made to be used by many threads; it never moves, since it is boxed.
unsafe impl Send for Mutex {}
// SAFETY: as above.
unsafe impl Sync for Mutex {}

/// glibc's type of mutexes that spin before they sleep.
const PTHREAD_MUTEX_ADAPTIVE_NP: libc::c_int = 3;

impl Mutex {
    /// A normal one, or an adaptive one.
    pub fn new(adaptive: bool) -> Mutex {
        let mutex = Mutex(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        if adaptive {
            // SAFETY: attributes and mutex are ours, valid, and not in use yet.
            unsafe {
                let mut attributes = std::mem::zeroed();
                libc::pthread_mutexattr_init(&mut attributes);
                libc::pthread_mutexattr_settype(&mut attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
                libc::pthread_mutex_init(mutex.0.get(), &attributes);
            }
        }
        mutex
    }

    fn lock(&self) {
        // SAFETY: the mutex was made and lives as long as this.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    fn unlock(&self) {
        // SAFETY: likewise; the caller has locked it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// Sleeps while the word has this value.
pub fn futex_wait(word: &AtomicU32, value: u32) {
    // SAFETY: the word outlives the call; no timeout.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        );
    }
}

/// Wakes one that sleeps on the word.
pub fn futex_wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel only compares the address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) };
}

/// Time that this thread was on a processor, ns.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec through a valid pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Does something in a thread that may use one processor only, with all threads it starts.
pub fn on_one_processor<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        // SAFETY: reads and writes one set of this thread's own.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let cpu = libc::sched_getcpu().max(0) as usize;
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set);
        }
        work()
    });
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
