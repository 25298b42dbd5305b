//! Waits in progress, at the end of a segment and of the recording.
use super::State;
use crate::outside;
use crate::sampling;
use dwell_abi::events::*;
use dwell_abi::unwind::StackEnd;
use dwell_recording::rows::{SampleRow, SliceRow, state};

impl State {
    /// Threads that wait now: their wait counts as far as it got, and the stack of a long one is read
    /// from outside.
    pub fn open_waits(&mut self) {
        self.count_open_waits(false);
    }

    /// The recording ends: whatever is in progress is written as far as it got.
    pub fn close(&mut self) {
        let all: Vec<u32> = self.threads.iter().map(|(id, _)| id).collect();
        for thread in all {
            self.flush_owed(thread, StackEnd::NotTaken);
        }
        self.count_open_waits(true);
    }

    fn count_open_waits(&mut self, closing: bool) {
        let waiting = self.threads.iter().filter(|(_, t)| {
            t.last
                .as_ref()
                .is_some_and(|l| l.ended == 0 && l.state != STATE_RUNNING)
        });
        let waiting: Vec<u32> = waiting.map(|(id, _)| id).collect();
        for thread in waiting {
            self.open_wait(thread, closing);
        }
    }

    fn open_wait(&mut self, thread: u32, closing: bool) {
        const LONG_NS: u64 = 500_000_000;
        let Some(last) = self.threads.get(thread).last.clone() else {
            return;
        };
        let duration = last.time.saturating_sub(last.since);
        let (blocked_ns, runnable_ns) = if last.state == STATE_BLOCKED {
            (duration, 0)
        } else {
            (0, duration)
        };
        let site = self.threads.site(thread, (&*last).into());
        self.threads
            .credit_open(thread, site, &last, blocked_ns, runnable_ns, closing);
        let user = last.site_flags & SITE_KTHREAD == 0;
        let is_due = last.time >= last.next_cut;
        // The last wait of every thread is kept: it may be for ever.
        let wanted = closing
            || duration >= LONG_NS && self.threads.get(thread).open_wait_seen != Some(last.wait);
        if !user || !wanted {
            return;
        }
        self.threads.get_mut(thread).open_wait_seen = Some(last.wait);
        let stack = self.stack_from_outside(thread, site, &last);
        self.samples.push(SampleRow {
            time_ns: last.time,
            thread,
            cpu: 0,
            state: if last.state == STATE_BLOCKED {
                state::BLOCKED
            } else {
                state::RUNNABLE
            }
            .into(),
            stack,
            site: Some(site),
            weight_ns: if closing && is_due {
                sampling::weight(duration, self.period_ns)
            } else {
                0
            },
        });
        if closing {
            let start_ns = last.since;
            let stack = Some(stack);
            self.slices.push(SliceRow {
                thread,
                site,
                start_ns,
                blocked_ns,
                runnable_ns,
                stack,
                ..SliceRow::default()
            });
        }
    }

    /// The stack of a wait in progress. If the thread was woken meanwhile, it is the last one of that site.
    fn stack_from_outside(&mut self, thread: u32, site: u32, last: &ThreadRecord) -> u32 {
        let row = &self.threads.get(thread).row;
        let (process, ns_tid) = (row.process, row.ns_tid);
        let of = self.processes.get(process);
        let ids = (last.tgid, last.tid);
        let walked = outside::walk_memory(of, &self.modules, last.regs, ids, ns_tid);
        let before = self.threads.get(thread).at_site.get(&site).copied();
        if let (StackEnd::NotTaken, Some(before)) = (walked.end, before) {
            return before;
        }
        let frames = self.walked_frames(process, &walked);
        let stack = self.interner.stack(&frames, walked.end.name());
        self.threads.get_mut(thread).at_site.insert(site, stack);
        stack
    }
}
