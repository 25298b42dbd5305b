//! The corpus in Rust: waits with `std`'s atomics, and work like them. The argument is the time that
//! each takes, in milliseconds.
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::time::Duration;

static LOCKED: AtomicBool = AtomicBool::new(false);
static SERVING: AtomicUsize = AtomicUsize::new(0);
static STOP: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
#[unsafe(no_mangle)]
fn spin_rust_cas() {
    while LOCKED.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
        while LOCKED.load(Relaxed) {
            spin_loop();
        }
    }
}

#[inline(never)]
#[unsafe(no_mangle)]
fn spin_rust_swap() {
    while LOCKED.swap(true, Acquire) {}
}

#[inline(never)]
#[unsafe(no_mangle)]
fn spin_rust_ticket() {
    while SERVING.load(Acquire) != 1 {
        spin_loop();
    }
}

/// As `parking_lot` and crossbeam do: ever longer pauses, then it lets others run.
#[inline(never)]
#[unsafe(no_mangle)]
fn spin_rust_backoff() {
    let mut step = 0;
    while LOCKED.load(Acquire) {
        if step <= 6 {
            for _ in 0..1 << step {
                spin_loop();
            }
            step += 1;
        } else {
            std::thread::yield_now();
        }
    }
}

#[inline(never)]
#[unsafe(no_mangle)]
fn work_rust_count() {
    while !STOP.load(Relaxed) {
        COUNT.fetch_add(1, SeqCst);
    }
}

#[inline(never)]
#[unsafe(no_mangle)]
fn work_rust_update() {
    while !STOP.load(Relaxed) {
        #[allow(deprecated)] // its new name is not in all compilers that build this
        let _ = COUNT.fetch_update(SeqCst, Relaxed, |n| Some(n.wrapping_mul(3) + 1));
    }
}

#[inline(never)]
#[unsafe(no_mangle)]
fn work_rust_hash() {
    let words: Vec<u64> = (0..4096).collect();
    while !STOP.load(Relaxed) {
        black_box(words.iter().fold(0u64, |h, w| (h ^ w).wrapping_mul(0x100_0000_01b3)));
    }
}

fn main() {
    let ms = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(100);
    for wait in [spin_rust_cas, spin_rust_swap, spin_rust_ticket, spin_rust_backoff] {
        LOCKED.store(true, Release);
        SERVING.store(0, Release);
        let waiter = std::thread::spawn(wait);
        std::thread::sleep(Duration::from_millis(ms));
        LOCKED.store(false, Release);
        SERVING.store(1, Release);
        waiter.join().unwrap();
    }
    for work in [work_rust_count, work_rust_update, work_rust_hash] {
        STOP.store(false, Release);
        let worker = std::thread::spawn(work);
        std::thread::sleep(Duration::from_millis(ms));
        STOP.store(true, Release);
        worker.join().unwrap();
    }
}
