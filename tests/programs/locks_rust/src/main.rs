//! Threads that wait for locks of Rust's standard library and of parking_lot, and say how long each
//! kind took by a stopwatch around the calls: one line `RUNTIME KIND USE NS` each.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 150;
const MS: Duration = Duration::from_millis(1);

static HOT: Mutex<u64> = Mutex::new(0);
static BOOK: RwLock<u64> = RwLock::new(0);
static NEWS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());
static PARKING: parking_lot::Mutex<u64> = parking_lot::Mutex::new(0);
static NOTES: (parking_lot::Mutex<u32>, parking_lot::Condvar) =
    (parking_lot::Mutex::new(0), parking_lot::Condvar::new());

static KINDS: [(&str, AtomicU64); 7] = [
    ("Rust Mutex lock", AtomicU64::new(0)),
    ("Rust RwLock lock", AtomicU64::new(0)),
    ("Rust Condvar idle", AtomicU64::new(0)),
    ("Rust Condvar timed", AtomicU64::new(0)),
    ("Rust park idle", AtomicU64::new(0)),
    ("parking_lot Mutex lock", AtomicU64::new(0)),
    ("parking_lot Condvar idle", AtomicU64::new(0)),
];

/// Set when nobody parks any more.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Adds the time of a wait to its kind.
fn timed<R>(kind: usize, wait: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = wait();
    KINDS[kind]
        .1
        .fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    result
}

#[inline(never)]
fn hot() {
    for _ in 0..ROUNDS {
        let mut held = timed(0, || HOT.lock().unwrap());
        *held += 1;
        thread::sleep(MS);
    }
}

#[inline(never)]
fn read() {
    for _ in 0..ROUNDS {
        let held = timed(1, || BOOK.read().unwrap());
        thread::sleep(MS);
        drop(held);
        thread::sleep(MS / 4);
    }
}

#[inline(never)]
fn write() {
    for _ in 0..ROUNDS {
        let mut held = timed(1, || BOOK.write().unwrap());
        *held += 1;
        thread::sleep(MS);
        drop(held);
        thread::sleep(MS / 4);
    }
}

#[inline(never)]
fn parking() {
    for _ in 0..ROUNDS {
        let mut held = timed(5, || PARKING.lock());
        *held += 1;
        thread::sleep(MS);
    }
}

/// Takes what `give` gives, from both kinds of conditions in turn.
#[inline(never)]
fn take() {
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            let mut items = NEWS.0.lock().unwrap();
            while *items == 0 {
                items = timed(2, || NEWS.1.wait(items).unwrap());
            }
            *items -= 1;
        } else {
            let mut items = NOTES.0.lock();
            while *items == 0 {
                timed(6, || NOTES.1.wait(&mut items));
            }
            *items -= 1;
        }
    }
}

#[inline(never)]
fn give() {
    for round in 0..ROUNDS {
        thread::sleep(2 * MS);
        if round % 2 == 0 {
            *NEWS.0.lock().unwrap() += 1;
            NEWS.1.notify_one();
        } else {
            *NOTES.0.lock() += 1;
            NOTES.1.notify_one();
        }
    }
}

#[inline(never)]
fn tick() {
    let (never, come) = (Mutex::new(()), Condvar::new());
    let mut guard = never.lock().unwrap();
    for _ in 0..ROUNDS {
        guard = timed(3, || come.wait_timeout(guard, 2 * MS).unwrap().0);
    }
}

#[inline(never)]
fn sleeper() {
    for _ in 0..ROUNDS {
        timed(4, thread::park);
    }
}

fn main() {
    let parked = thread::spawn(sleeper);
    let mut threads: Vec<_> = [hot, hot, hot, read, read, write, parking, parking, parking, take, give, tick]
        .map(thread::spawn)
        .into();
    let target = parked.thread().clone();
    threads.push(thread::spawn(move || {
        while DONE.load(Ordering::Relaxed) == 0 {
            thread::sleep(2 * MS);
            target.unpark();
        }
    }));
    parked.join().unwrap();
    DONE.store(1, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    for (kind, ns) in &KINDS {
        println!("{kind} {}", ns.load(Ordering::Relaxed));
    }
}
