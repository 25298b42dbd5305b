//! How the scheduler prefers threads, as far as it is not the usual (normal, nice 0). Read from outside, once for
//! each thread that is there when a segment is closed, and of all once more at the end: no program in the kernel
//! would be worth it.
use dwell_recording::rows::{EventRow, event};
use std::collections::HashMap;

/// What is known of threads, by their number in the recording.
#[derive(Debug, Default)]
pub struct Priorities {
    /// Threads before this one were looked at.
    looked: u32,
    /// Of those that are not as usual.
    known: HashMap<u32, String>,
}

impl Priorities {
    /// Rows of those of these threads (number, tid) that have not been looked at, or `again` of those that have
    /// changed.
    pub fn look(
        &mut self,
        time_ns: u64,
        threads: impl Iterator<Item = (u32, u32)>,
        again: bool,
    ) -> Vec<EventRow> {
        let from = self.looked;
        let mut rows = Vec::new();
        for (thread, tid) in threads.filter(|(thread, _)| again || *thread >= from) {
            self.looked = self.looked.max(thread + 1);
            let Some(now) = priority(tid) else {
                continue; // it has ended
            };
            let before = self.known.get(&thread);
            if before.map_or(event::USUAL_PRIORITY, String::as_str) != now {
                self.known.insert(thread, now.clone());
                rows.push(EventRow {
                    time_ns,
                    thread: Some(thread),
                    kind: event::PRIORITY.into(),
                    detail: now,
                });
            }
        }
        rows
    }
}

/// The priority of a thread, in words.
fn priority(tid: u32) -> Option<String> {
    // SAFETY: all of it are numbers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes to `attributes`, which has as many.
    let failed =
        unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, size, 0) };
    if failed != 0 {
        return None;
    }
    let real_time = attributes.sched_priority;
    Some(match attributes.sched_policy as i32 {
        libc::SCHED_FIFO => format!("fifo {real_time}"),
        libc::SCHED_RR => format!("rr {real_time}"),
        libc::SCHED_DEADLINE => "deadline".to_owned(),
        libc::SCHED_IDLE => "idle".to_owned(),
        _ => format!("nice {}", attributes.sched_nice),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_usual_is_told_once() {
        let (say, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let nice = std::thread::spawn(move || {
            // SAFETY: these take numbers and a struct that lives, and change this thread only.
            let tid = unsafe {
                let tid = libc::gettid();
                // Whatever these tests are run with.
                let usual = libc::sched_param { sched_priority: 0 };
                assert_eq!(libc::sched_setscheduler(tid, libc::SCHED_OTHER, &usual), 0);
                assert_eq!(libc::setpriority(libc::PRIO_PROCESS, tid as u32, 19), 0);
                tid
            };
            say.send(tid as u32).expect("heard");
            let _ = ended.recv();
        });
        let threads = [(7, told.recv().expect("a thread")), (9, u32::MAX)];
        let mut priorities = Priorities::default();
        let mut look = |again| {
            let rows = priorities.look(5, threads.into_iter(), again);
            rows.into_iter()
                .map(|r| (r.thread, r.detail))
                .collect::<Vec<_>>()
        };
        assert_eq!(look(false), [(Some(7), "nice 19".to_owned())]);
        assert_eq!((look(false), look(true)), (vec![], vec![]));
        drop(end);
        nice.join().expect("it ends");
    }
}
