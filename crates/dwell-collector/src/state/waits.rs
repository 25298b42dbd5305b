//! Waits that ended, their stacks, and who ended them.
use super::State;
use crate::futexes;
use crate::kernel_marks::WakerStack;
use crate::parts::{KernelPart, UserPart, View};
use crate::reasons;
use crate::records::{Trail, comm};
use crate::sampling;
use crate::threads::{EarlyStack, OwedWait, Waker};
use dwell_abi::events::*;
use dwell_abi::unwind::StackEnd;
use dwell_recording::rows::{SampleRow, SliceRow, reason, state};
use std::rc::Rc;

/// Waits of one system call that owe their stack: a thread may never come back from it, as the kernel's helpers of a
/// process do not.
const MOST_OWED: usize = 4096;

impl State {
    pub(super) fn waker(&mut self, head: &StackRecord, trail: Trail<'_>) {
        let Some(thread) = self.threads.id_of(head.peer) else {
            self.losses.orphans += 1;
            return;
        };
        let kernel = self.kernel_part(View::BelowWaking, trail.kernel());
        let waker_process = self.processes.id_of(head.tgid);
        let interrupt = match kernel.who {
            WakerStack::Task => "",
            WakerStack::Timer => "[timer]",
            WakerStack::Interrupt => "[irq]",
        };
        let user = if kernel.who == WakerStack::Task {
            self.user_part_of_record(waker_process, head.end, trail, &kernel)
        } else {
            UserPart::none(StackEnd::NoUser)
        };
        let stack = self.join(&user, &kernel);
        if let Some(waker) = self.threads.id_of(head.tid)
            && kernel.who == WakerStack::Task
        {
            self.threads.get_mut(waker).early.wakes(head.sp, stack);
        }
        self.threads.get_mut(thread).waker = Waker {
            wait: head.seq,
            stack: Some(stack),
            interrupt,
        };
    }

    /// Who ended a wait.
    fn waker_of(&mut self, thread: u32, record: &WaitRecord) -> Waker {
        let site = (record.ip, record.sp);
        let state = self.threads.get_mut(thread);
        if state.waker.wait == record.wait {
            let waker = state.waker.clone();
            if let (Some(stack), "") = (waker.stack, waker.interrupt) {
                state.early.woken(site, record.waker_tid, stack);
            }
            return waker;
        }
        let stack = if record.waker_place != 0 {
            // Its stack was passed over: the last one that it had at this place stands for it. It may have ended since:
            // the record comes when the woken thread leaves the processor.
            let kept = self.threads.latest_of(record.waker_tid);
            let kept = kept.and_then(|id| self.threads.get(id).early.woke(record.waker_place));
            let none = || UserPart::none(StackEnd::NotTaken);
            Some(kept.unwrap_or_else(|| self.join(&none(), &KernelPart::none())))
        } else if record.waker_kind == WAKER_TASK && record.flags & WAIT_SAMPLED != 0 {
            // The wait came to its turn between its waking and the thread's run: the last one of the same waker here.
            state.early.woken_by(site, record.waker_tid)
        } else {
            None
        };
        Waker {
            wait: record.wait,
            stack,
            interrupt: "",
        }
    }

    pub(super) fn wait(&mut self, record: WaitRecord, trail: Trail<'_>) {
        let Some(thread) = self.threads.id_of(record.tid) else {
            self.losses.orphans += 1;
            return;
        };
        let preempted = record.site_flags & SITE_PREEMPTED != 0;
        let view = if preempted {
            View::BelowInterrupt
        } else {
            View::Whole
        };
        let kernel = self.kernel_part(view, trail.kernel());
        let waker = self.waker_of(thread, &record);
        if record.flags & WAIT_STACK_FOLLOWS != 0 {
            self.owed_stacks += 1;
            if self.threads.get(thread).owed.len() >= MOST_OWED {
                self.flush_owed(thread, StackEnd::NotTaken);
            }
            self.threads.get_mut(thread).owed.push(OwedWait {
                record,
                kernel,
                waker,
            });
            return;
        }
        let taken = record.flags & (WAIT_SAMPLED | WAIT_FIRST) != 0;
        let stack = taken.then(|| {
            if record.site_flags & SITE_KTHREAD != 0 {
                self.join(&UserPart::none(StackEnd::NoUser), &kernel)
            } else {
                self.early_stack(thread, &record, &kernel)
            }
        });
        self.finish_wait(thread, &record, stack, &waker);
    }

    /// A stack that was taken before its wait, with the kernel part that came after it unless that was taken too.
    fn early_stack(&mut self, thread: u32, record: &WaitRecord, kernel: &KernelPart) -> u32 {
        let early = &self.threads.get(thread).early;
        match early.of_wait(record.wait, (record.ip, record.sp)).cloned() {
            Some(early) if kernel.frames.is_empty() => self.join(&early.user, &early.kernel),
            Some(early) => self.join(&early.user, kernel),
            None => {
                self.losses.stacks_missing += 1;
                self.join(&UserPart::none(StackEnd::NotTaken), kernel)
            }
        }
    }

    /// The user stack that waits owe, or one that is taken before a wait.
    pub(super) fn wait_stack(&mut self, head: &StackRecord, trail: Trail<'_>) {
        let Some(thread) = self.threads.id_of(head.tid) else {
            self.losses.orphans += 1;
            return;
        };
        let part = self.user_part(self.process_of(thread), head.end, trail);
        let leaf = trail
            .user()
            .next()
            .map(|pc| compiled(pc & !(1 << RETURN_BIT)).0);
        let leaf = leaf.or_else(|| trail.raw().map(|(regs, _)| regs.regs[16]));
        if head.peer == 0 {
            let kernel = self.kernel_part(View::BelowSwitching, trail.kernel());
            let site = (leaf.unwrap_or(0), head.sp);
            let stack = EarlyStack { user: part, kernel };
            let state = self.threads.get_mut(thread);
            state.early.take(head.seq, site, stack);
            return;
        }
        for wait in std::mem::take(&mut self.threads.get_mut(thread).owed) {
            // What waited inside an exec is another program by now, unless the exec failed.
            let gone = wait.kernel.in_exec
                && (leaf != Some(wait.record.ip) || head.end == StackEnd::NoUser as u8);
            if wait.record.wait < head.peer {
                self.finish_without(thread, &wait, StackEnd::NotTaken);
            } else if gone {
                self.finish_owed(thread, &wait, &UserPart::none(StackEnd::NoUser));
            } else {
                self.finish_owed(thread, &wait, &part);
            }
        }
    }

    /// The user stack that a wait owed is there, or there is none. Of a thread that was killed while it waited, and did not come
    /// back to its stack, that of the site's last wait stands for it.
    fn finish_owed(&mut self, thread: u32, wait: &OwedWait, user: &Rc<UserPart>) {
        let site = self.threads.site(thread, (&wait.record).into());
        let parts = &mut self.threads.get_mut(thread).user_at_site;
        let is_killed =
            user.end == StackEnd::NoUser && !wait.kernel.in_exec && !wait.kernel.in_exit;
        let last = parts.get(&site).filter(|_| is_killed).cloned();
        if user.end == StackEnd::Complete {
            parts.insert(site, user.clone());
        }
        let stack = self.join(last.as_ref().unwrap_or(user), &wait.kernel);
        self.finish_wait(thread, &wait.record, Some(stack), &wait.waker);
    }

    /// The user stack of a wait will not come any more, for the reason `end`. Its kernel part is known.
    fn finish_without(&mut self, thread: u32, wait: &OwedWait, end: StackEnd) {
        self.losses.stacks_missing += 1;
        self.finish_owed(thread, wait, &UserPart::none(end));
    }

    /// The user stacks of a thread's last waits will not come any more, for the reason `end`.
    pub(super) fn flush_owed(&mut self, thread: u32, end: StackEnd) {
        for wait in std::mem::take(&mut self.threads.get_mut(thread).owed) {
            self.finish_without(thread, &wait, end);
        }
    }

    /// A wait is over.
    fn finish_wait(&mut self, thread: u32, record: &WaitRecord, stack: Option<u32>, waker: &Waker) {
        let site = self.threads.site(thread, record.into());
        let signalled = record.flags & WAIT_SIGNALLED != 0;
        let result = match stack {
            Some(_) => futexes::result(record.operation, record.waker_kind, signalled),
            None => "", // signals were not looked for
        };
        let sampled = record.flags & WAIT_SAMPLED != 0;
        let duration = record.end.saturating_sub(record.start);
        if let Some(stack) = stack {
            self.threads.get_mut(thread).at_site.insert(site, stack);
            let preempted = record.site_flags & SITE_PREEMPTED != 0;
            self.samples.push(SampleRow {
                time_ns: record.end,
                thread,
                cpu: record.cpu,
                state: if preempted {
                    state::RUNNABLE
                } else {
                    state::BLOCKED
                }
                .into(),
                stack,
                site: Some(site),
                weight_ns: if sampled {
                    sampling::weight(duration, self.period_ns)
                } else {
                    0
                },
            });
        }
        let known = record.waker_kind != WAKER_NONE;
        let interrupt = match (waker.stack, waker.interrupt) {
            (None, _) if record.waker_kind == WAKER_IRQ && is_timed(record) => "[timer]",
            (None, _) if record.waker_kind == WAKER_IRQ => "[irq]",
            (_, name) => name,
        };
        let waker_tid =
            (known && interrupt.is_empty() && record.waker_tid != 0).then_some(record.waker_tid);
        let waker_thread = waker_tid.and_then(|tid| self.threads.latest_of(tid));
        self.slices.push(SliceRow {
            thread,
            site,
            start_ns: record.start,
            blocked_ns: record.wake.saturating_sub(record.start),
            runnable_ns: record.end.saturating_sub(record.wake),
            cpu: record.cpu,
            stack,
            waker_tid,
            waker_thread,
            waker_name: if !known {
                String::new()
            } else if !interrupt.is_empty() {
                interrupt.into()
            } else if record.waker_comm[0] != 0 {
                comm(&record.waker_comm)
            } else {
                waker_thread.map_or_else(String::new, |t| self.threads.get(t).row.name.clone())
            },
            waker_stack: waker.stack.filter(|_| known),
            result: result.into(),
        });
    }
}

/// Whether no interrupt but a timer's ends the wait.
fn is_timed(record: &WaitRecord) -> bool {
    let reason = reasons::reason(record.nr, record.fd_kind, record.site_flags);
    reason == reason::SLEEP || u32::from(record.operation) & FUTEX_TIMED != 0
}
