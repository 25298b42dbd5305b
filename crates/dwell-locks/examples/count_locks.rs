//! Counts the lock operations of a running process, and lets go of it:
//!
//! ```text
//! count_locks PID SECONDS
//! ```
use dwell_locks::Locks;
use std::time::Duration;

/// Locks that are printed.
const MOST: usize = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pid, seconds] = &arguments[..] else {
        return Err("count_locks PID SECONDS".into());
    };
    let locks = Locks::attach(pid.parse()?)?;
    println!("{:?}, {:?}", locks.libc(), locks.pause());
    for missed in locks.missed() {
        println!("not counted: {missed:?}");
    }
    std::thread::sleep(Duration::from_secs_f64(seconds.parse()?));
    let (snapshot, restored) = locks.detach()?;
    println!("{restored:?}");
    let Some(mut snapshot) = snapshot else {
        println!("the process has ended");
        return Ok(());
    };
    println!(
        "{} locks, {} acquisitions, {} forgotten",
        snapshot.locks.len(),
        snapshot.sum(|l| l.acquired),
        snapshot.forgotten
    );
    snapshot
        .locks
        .sort_by_key(|l| std::cmp::Reverse(l.acquired));
    for lock in snapshot.locks.iter().take(MOST) {
        println!(
            "{:#16x} {:>14} acquired {:>12} contended {:>10} failed {:>8} timed out {:>8} nested {:?}",
            lock.address,
            lock.acquired,
            lock.contended,
            lock.try_fails,
            lock.timeouts,
            lock.nested,
            lock.kind
        );
    }
    Ok(())
}
