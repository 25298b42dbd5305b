//! Records in, rows out: what is known of the target while it is recorded.
use crate::address_space::AddressSpace;
use crate::error::CollectError;
use crate::futexes::{self, DataPlace};
use crate::intern::{Interner, Place};
use crate::kernel_code::KernelCode;
use crate::kernel_marks::{KernelMarks, WakerStack};
use crate::modules::Modules;
use crate::outside::{self, Walked};
use crate::own_code::OwnCode;
use crate::perf::MapEvent;
use crate::processes::{Process, Processes, hex};
use crate::programs::Programs;
use crate::reasons;
use crate::records::{Record, Trail, comm};
use crate::sampling;
use crate::threads::{OwedWait, Threads, UserPart, Waker};
use dwell_abi::events::*;
use dwell_abi::unwind::StackEnd;
use dwell_recording::Tables;
use dwell_recording::rows::{EventRow, FrameRow, SampleRow, SliceRow, ThreadRow, reason, state};
use hashbrown::HashSet;

/// Everything known of the target.
pub struct State {
    /// Its processes.
    pub processes: Processes,
    /// Its threads.
    pub threads: Threads,
    /// The files it has mapped.
    pub modules: Modules,
    /// Frames and stacks.
    pub interner: Interner,
    /// Code that the kernel had for a while.
    pub kernel_code: KernelCode,
    /// What dwell has put into processes.
    pub own_code: OwnCode,
    marks: KernelMarks,
    period_ns: u64,
    /// What a stack of a running thread stands for before scaling, ns.
    running_weight_ns: u64,
    /// Stacks at which threads were seen running.
    pub(crate) running_stacks: HashSet<u32>,
    samples: Vec<SampleRow>,
    slices: Vec<SliceRow>,
    events: Vec<EventRow>,
    /// Thread id and start of every thread that died.
    ended: HashSet<(u32, u64)>,
    /// Things that were lost on this side, by name.
    pub losses: Losses,
}

/// What was lost on the way from records to rows.
#[derive(Clone, Copy, Default, Debug)]
pub struct Losses {
    /// Records of threads that are not known (their first record was lost).
    pub orphans: u64,
    /// Waits whose stack never came.
    pub stacks_missing: u64,
    /// Mapping reports the kernel dropped.
    pub map_events: u64,
}

impl State {
    /// Knows nothing yet.
    pub fn new(marks: KernelMarks, period_ns: u64, running_weight_ns: u64) -> Self {
        State {
            processes: Processes::default(),
            threads: Threads::default(),
            modules: Modules::default(),
            interner: Interner::default(),
            kernel_code: KernelCode::default(),
            own_code: OwnCode::default(),
            marks,
            period_ns,
            running_weight_ns,
            running_stacks: HashSet::new(),
            samples: Vec::new(),
            slices: Vec::new(),
            events: Vec::new(),
            ended: HashSet::new(),
            losses: Losses::default(),
        }
    }

    /// Takes in a record.
    pub fn record(&mut self, programs: &Programs, record: Record<'_>) -> Result<(), CollectError> {
        match record {
            Record::Stack(head, trail) => match head.kind {
                RECORD_RUNNING => self.running(&head, trail),
                RECORD_WAKER => self.waker(&head, trail),
                _ => self.wait_stack(&head, trail),
            },
            Record::Wait(head, trail) => self.wait(head, trail),
            Record::Site(record) => match self.threads.id_of(record.tid) {
                Some(thread) => self.threads.site_sums(thread, &record),
                None => self.losses.orphans += 1,
            },
            Record::Thread(record) => self.thread_report(programs, record)?,
            Record::Task(record) => self.task(&record),
        }
        Ok(())
    }

    /// Takes in a new mapping. False: its process is not known (yet).
    pub fn map_event(
        &mut self,
        programs: &Programs,
        event: &MapEvent,
    ) -> Result<bool, CollectError> {
        let Some(process) = self.processes.id_of(event.pid) else {
            return Ok(false);
        };
        self.processes
            .map(programs, &mut self.modules, process, event)?;
        Ok(true)
    }

    fn thread_report(
        &mut self,
        programs: &Programs,
        record: Box<ThreadRecord>,
    ) -> Result<(), CollectError> {
        let thread = match self.threads.id_of(record.tid) {
            Some(thread) => thread,
            // A sweep may report a thread just after it died.
            None if self.ended.contains(&(record.tid, record.start)) => return Ok(()),
            None if record.ended != 0 && record.running + record.runnable + record.blocked == 0 => {
                return Ok(());
            }
            None => self.discover(programs, &record)?,
        };
        let process = self.threads.get_mut(thread).row.process;
        self.processes
            .report(process, record.ns_tgid, record.parent);
        let (ended, leader, time, status) = (
            record.ended != 0,
            record.tid == record.tgid,
            record.time,
            record.exit_code,
        );
        let name = comm(&record.comm);
        if ended {
            self.ended.insert((record.tid, record.start));
        }
        if leader {
            self.processes.rename(process, name.clone(), 0);
        }
        self.threads.report(thread, record, name);
        if ended {
            // It died on its way out.
            self.flush_owed(thread, StackEnd::NoUser);
            self.event(time, Some(thread), "exit", String::new());
            if self.processes.thread_ends(process) {
                self.processes.end(programs, process, time, status);
            }
        }
        Ok(())
    }

    /// A thread that lived before the recording began.
    fn discover(
        &mut self,
        programs: &Programs,
        record: &ThreadRecord,
    ) -> Result<u32, CollectError> {
        let process = match self.processes.id_of(record.tgid) {
            Some(process) => process,
            None => {
                let process = self.processes.begin(record.tgid, record.start);
                if record.site_flags & SITE_KTHREAD == 0 {
                    self.processes
                        .map_all(programs, &mut self.modules, process, record.start)?;
                }
                process
            }
        };
        Ok(self.begin_thread(ThreadRow {
            process,
            tid: record.tid,
            ns_tid: record.ns_tid,
            name: comm(&record.comm),
            start_ns: record.start,
            until_ns: record.start,
            ..ThreadRow::default()
        }))
    }

    fn task(&mut self, record: &TaskRecord) {
        let name = comm(&record.comm);
        match record.kind {
            RECORD_FORK => {
                let process = match self.processes.id_of(record.tgid) {
                    Some(process) if record.tid != record.tgid => process,
                    _ => self.processes.begin_fork(
                        record.tgid,
                        record.ns_tid,
                        record.other_tgid,
                        name.clone(),
                        record.time,
                    ),
                };
                let thread = self.begin_thread(ThreadRow {
                    process,
                    tid: record.tid,
                    ns_tid: record.ns_tid,
                    name,
                    start_ns: record.time,
                    until_ns: record.time,
                    ..ThreadRow::default()
                });
                let parent = self.threads.id_of(record.other_tid);
                self.event(
                    record.time,
                    parent,
                    "fork",
                    format!("thread {thread}, tid {}", record.tid),
                );
            }
            RECORD_EXEC => {
                self.threads.change_tid(record.other_tid, record.tid);
                if let Some(process) = self.processes.id_of(record.tgid) {
                    self.threads.futexes.forget(process);
                    self.processes.exec(process, name.clone());
                }
                let thread = self
                    .threads
                    .id_of(record.tid)
                    .or_else(|| self.begin_launched(record, &name));
                self.event(record.time, thread, "exec", name);
            }
            _ => {
                let leader = self
                    .processes
                    .id_of(record.tgid)
                    .filter(|_| record.tid == record.tgid);
                if let Some(process) = leader {
                    self.processes.rename(process, name.clone(), record.time);
                }
                match self.threads.id_of(record.tid) {
                    Some(thread) => {
                        self.threads.rename(thread, name.clone());
                        self.event(record.time, Some(thread), "rename", name);
                    }
                    None => self.losses.orphans += 1,
                }
            }
        }
    }

    fn begin_thread(&mut self, row: ThreadRow) -> u32 {
        self.processes.thread_begins(row.process);
        self.threads.begin(row)
    }

    /// The first thread of a launched command: its life begins with its exec.
    fn begin_launched(&mut self, record: &TaskRecord, name: &str) -> Option<u32> {
        let process = self.processes.id_of(record.tgid)?;
        Some(self.begin_thread(ThreadRow {
            process,
            tid: record.tid,
            ns_tid: record.ns_tid,
            name: name.into(),
            start_ns: record.time,
            until_ns: record.time,
            ..ThreadRow::default()
        }))
    }

    fn event(&mut self, time_ns: u64, thread: Option<u32>, kind: &str, detail: String) {
        self.events.push(EventRow {
            time_ns,
            thread,
            kind: kind.into(),
            detail,
        });
    }

    // ---- stacks ----

    fn running(&mut self, head: &StackRecord, trail: Trail<'_>) {
        let Some(thread) = self.threads.id_of(head.tid) else {
            self.losses.orphans += 1;
            return;
        };
        let kernel: Vec<u64> = trail.kernel().collect();
        let kernel = self.marks.without_interrupt(&kernel).to_vec();
        let stack = self.joined_stack(self.process_of(thread), head.end, trail, &kernel);
        self.running_stacks.insert(stack);
        self.samples.push(SampleRow {
            time_ns: head.time,
            thread,
            cpu: head.cpu,
            state: state::RUNNING.into(),
            stack,
            site: None,
            weight_ns: self.running_weight_ns,
        });
    }

    /// The number of a stack of a process: its user part from the record, on top the kernel part.
    fn joined_stack(
        &mut self,
        process: Option<u32>,
        end: u8,
        trail: Trail<'_>,
        kernel: &[u64],
    ) -> u32 {
        // On its way out of an exec a thread stands in the new program, within it nowhere.
        let nowhere = end == StackEnd::NoUser as u8 && self.marks.in_exec(kernel);
        let trail = if nowhere { Trail::default() } else { trail };
        let user = self.user_part(process, end, trail);
        self.join(user, kernel)
    }

    fn user_part(&mut self, process: Option<u32>, end: u8, trail: Trail<'_>) -> UserPart {
        let mut end = StackEnd::from_u8(end).unwrap_or(StackEnd::NotTaken);
        let mut frames: Vec<u32> = Vec::new();
        match process {
            Some(id) => {
                let walked = trail.raw().map(|(regs, copy)| {
                    let Process { row, space, .. } = self.processes.get(id);
                    let own = |word: &dyn Fn(u64) -> Option<u64>| {
                        self.own_code.left(id, space, &regs.regs, word)
                    };
                    outside::walk_copy(space, &self.modules, regs.regs, copy, row.pid, own)
                });
                match walked {
                    Some(walked)
                        if walked.end == StackEnd::Complete
                            || (end != StackEnd::NoUser
                                && walked.frames.len() >= trail.user().count()) =>
                    {
                        end = walked.end;
                        self.push_walked(id, &walked, &mut frames);
                        if end == StackEnd::NoMapping {
                            self.processes.mappings_wanted(id);
                        }
                    }
                    _ => self.push_pcs(id, trail.user(), &mut frames),
                }
            }
            None if end != StackEnd::NoUser => end = StackEnd::NoMapping,
            None => {}
        }
        frames.reverse();
        UserPart { frames, end }
    }

    /// The number of a stack that is in the kernel only, leaf first.
    pub fn kernel_stack(&mut self, pcs: &[u64]) -> u32 {
        self.join(UserPart::none(StackEnd::NoUser), pcs)
    }

    fn join(&mut self, user: UserPart, kernel: &[u64]) -> u32 {
        let UserPart { mut frames, end } = user;
        for (i, &pc) in kernel.iter().enumerate().rev() {
            // All are return addresses but the leaf and what an interrupt or exception came upon.
            let interrupted = i == 0 || self.marks.entry.contains(&kernel[i - 1]);
            let address = if interrupted { pc } else { pc - 1 };
            frames.push(self.interner.frame(Place::Kernel(address)));
        }
        self.interner.stack(frames, end.name())
    }

    /// A thread's process, which may be over while its other threads' records still come.
    fn process_of(&self, thread: u32) -> Option<u32> {
        Some(self.threads.get(thread).row.process)
    }

    fn push_walked(&mut self, process: u32, walked: &Walked, frames: &mut Vec<u32>) {
        for frame in &walked.frames {
            let address = frame.pc.wrapping_sub(u64::from(frame.is_return_address));
            let place = self.place(process, address);
            frames.push(self.interner.frame(place));
        }
    }

    fn push_pcs(&mut self, process: u32, pcs: impl Iterator<Item = u64>, frames: &mut Vec<u32>) {
        for pc in pcs {
            let place = self.place(process, (pc & !(1 << RETURN_BIT)) - (pc >> RETURN_BIT));
            frames.push(self.interner.frame(place));
        }
    }

    fn place(&self, process: u32, address: u64) -> Place {
        if self.own_code.contains(process, address) {
            return Place::Own { process };
        }
        place(
            &self.processes.get(process).space,
            &self.modules,
            process,
            address,
        )
    }

    // ---- waits ----

    fn waker(&mut self, head: &StackRecord, trail: Trail<'_>) {
        let Some(thread) = self.threads.id_of(head.peer) else {
            self.losses.orphans += 1;
            return;
        };
        let kernel: Vec<u64> = trail.kernel().collect();
        let (kernel, who) = self.marks.waker(&kernel);
        let kernel = kernel.to_vec();
        let waker_process = self.processes.id_of(head.tgid);
        let interrupt = match who {
            WakerStack::Task => "",
            WakerStack::Timer => "[timer]",
            WakerStack::Interrupt => "[irq]",
        };
        let stack = if who == WakerStack::Task {
            self.joined_stack(waker_process, head.end, trail, &kernel)
        } else {
            self.join(UserPart::none(StackEnd::NoUser), &kernel)
        };
        self.threads.get_mut(thread).waker = Waker {
            wait: head.seq,
            stack: Some(stack),
            interrupt,
        };
    }

    fn wait(&mut self, record: WaitRecord, trail: Trail<'_>) {
        let Some(thread) = self.threads.id_of(record.tid) else {
            self.losses.orphans += 1;
            return;
        };
        let kernel: Vec<u64> = trail.kernel().collect();
        let preempted = record.site_flags & SITE_PREEMPTED != 0;
        let kernel = if preempted {
            self.marks.without_interrupt(&kernel).to_vec()
        } else {
            kernel
        };
        let waker = self.threads.get_mut(thread).waker.clone();
        let waker = if waker.wait == record.wait {
            waker
        } else {
            Waker::default()
        };
        if record.flags & WAIT_STACK_FOLLOWS != 0 {
            self.flush_owed(thread, StackEnd::NotTaken);
            self.threads.get_mut(thread).owed = Some(OwedWait {
                record,
                kernel,
                waker,
            });
            return;
        }
        let taken = record.flags & (WAIT_SAMPLED | WAIT_FIRST) != 0;
        let stack = taken.then(|| {
            let user = if record.site_flags & SITE_KTHREAD != 0 {
                UserPart::none(StackEnd::NoUser)
            } else {
                self.early_part(thread, &record)
            };
            self.join(user, &kernel)
        });
        self.finish_wait(thread, &record, stack, &waker, "");
    }

    /// The user stack that was taken before a wait, or else the last one of its site.
    fn early_part(&mut self, thread: u32, record: &WaitRecord) -> UserPart {
        let early = &self.threads.get(thread).early;
        let own = early.last.as_ref().filter(|(wait, _)| *wait == record.wait);
        let site = || early.by_site.get(&(record.ip, record.sp));
        match own.map(|(_, part)| part).or_else(site) {
            Some(part) => part.clone(),
            None => {
                self.losses.stacks_missing += 1;
                UserPart::none(StackEnd::NotTaken)
            }
        }
    }

    /// The user stack that a wait owes, or one that is taken before a wait.
    fn wait_stack(&mut self, head: &StackRecord, trail: Trail<'_>) {
        let Some(thread) = self.threads.id_of(head.tid) else {
            self.losses.orphans += 1;
            return;
        };
        let part = self.user_part(self.process_of(thread), head.end, trail);
        let leaf = trail.user().next().map(|pc| pc & !(1 << RETURN_BIT));
        let leaf = leaf.or_else(|| trail.raw().map(|(regs, _)| regs.regs[16]));
        let state = self.threads.get_mut(thread);
        let Some(wait) = state.owed.take_if(|w| w.record.wait == head.seq) else {
            let site = (leaf.unwrap_or(0), head.sp);
            state.early.take(head.seq, site, part);
            return;
        };
        // What waited inside an exec is another program by now, unless the exec failed.
        let gone = self.marks.in_exec(&wait.kernel)
            && (leaf != Some(wait.record.ip) || head.end == StackEnd::NoUser as u8);
        let part = if gone {
            UserPart::none(StackEnd::NoUser)
        } else {
            part
        };
        let stack = self.join(part, &wait.kernel);
        let record = &wait.record;
        let signalled = head.signalled != 0;
        let result = futexes::result(record.operation, record.waker_kind, signalled);
        self.finish_wait(thread, record, Some(stack), &wait.waker, result);
    }

    /// The user stack of the last wait will not come any more, for the reason `end`. Its kernel part is known.
    fn flush_owed(&mut self, thread: u32, end: StackEnd) {
        if let Some(wait) = self.threads.get_mut(thread).owed.take() {
            self.losses.stacks_missing += 1;
            let stack = self.join(UserPart::none(end), &wait.kernel);
            self.finish_wait(thread, &wait.record, Some(stack), &wait.waker, "");
        }
    }

    /// A wait is over. `result`: how, where that was seen.
    fn finish_wait(
        &mut self,
        thread: u32,
        record: &WaitRecord,
        stack: Option<u32>,
        waker: &Waker,
        result: &str,
    ) {
        let site = self.threads.site(thread, record.into());
        let sampled = record.flags & WAIT_SAMPLED != 0;
        let duration = record.end.saturating_sub(record.start);
        if let Some(stack) = stack {
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
            // Nothing but a timer's interrupt ends a sleep that asked for one.
            (None, _) if record.waker_kind == WAKER_IRQ && is_sleep(record) => "[timer]",
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
        let wanted = if closing {
            last.time >= last.next_cut
        } else {
            duration >= LONG_NS && self.threads.get(thread).open_wait_seen != Some(last.wait)
        };
        if !user || !wanted {
            return;
        }
        self.threads.get_mut(thread).open_wait_seen = Some(last.wait);
        let stack = self.stack_from_outside(thread, &last);
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
            weight_ns: if closing {
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

    fn stack_from_outside(&mut self, thread: u32, last: &ThreadRecord) -> u32 {
        let process = self.threads.get(thread).row.process;
        let space = &self.processes.get(process).space;
        let walked = outside::walk_memory(space, &self.modules, last.regs, last.tgid, last.tid);
        let mut frames = Vec::new();
        self.push_walked(process, &walked, &mut frames);
        frames.reverse();
        self.interner.stack(frames, walked.end.name())
    }

    // ---- rows ----

    /// All rows gathered since the last call (without `meta`).
    pub fn take_rows(&mut self) -> Tables {
        let modules = &self.modules;
        Tables {
            processes: self.processes.take_processes(),
            threads: self.threads.take_threads(),
            mappings: self.processes.take_mappings(),
            frames: self.interner.take_frames(|place| frame_row(place, modules)),
            stacks: std::mem::take(&mut self.interner.new_stacks),
            futexes: self.threads.futexes.take_new(|process, address| {
                data_place(&self.processes, modules, process, address)
            }),
            sites: self.threads.take_sites(),
            site_times: self.threads.take_sums(),
            samples: std::mem::take(&mut self.samples),
            slices: std::mem::take(&mut self.slices),
            events: std::mem::take(&mut self.events),
            ..Tables::default()
        }
    }
}

/// The file in whose data an address of a process lies. Data follow the code they came with.
fn data_place(
    processes: &Processes,
    modules: &Modules,
    process: u32,
    address: u64,
) -> Option<DataPlace> {
    let space = &processes.get(process).space;
    space.iter().find_map(|(start, mapped)| {
        let module = mapped.module?;
        let code = modules.get(module).stated_address(mapped.file_offset)?;
        let stated = address.checked_sub(start.checked_sub(code)?)?;
        let file = modules.get(module);
        file.has_data(stated).then(|| DataPlace {
            module,
            path: file.path.clone(),
            build_id: hex(&file.build_id),
            stated,
        })
    })
}

fn is_sleep(record: &WaitRecord) -> bool {
    reasons::reason(record.nr, record.fd_kind, record.site_flags) == reason::SLEEP
}

fn place(space: &AddressSpace, modules: &Modules, process: u32, address: u64) -> Place {
    let Some((start, mapped)) = space.find(address) else {
        return Place::Unknown { process, address };
    };
    let Some(module) = mapped.module else {
        return Place::Jit { process, address };
    };
    match modules
        .get(module)
        .stated_address(mapped.file_offset + (address - start))
    {
        Some(address) => Place::User { module, address },
        None => Place::Unknown { process, address },
    }
}

pub(crate) fn frame_row(place: Place, modules: &Modules) -> FrameRow {
    let row = |kind: &str, module: &str, address, process| FrameRow {
        kind: kind.into(),
        module: module.into(),
        address,
        process,
        ..FrameRow::default()
    };
    match place {
        Place::User { module, address } => {
            let module = modules.get(module);
            FrameRow {
                build_id: hex(&module.build_id),
                ..row("user", &module.path, address, None)
            }
        }
        Place::Kernel(address) => row("kernel", "[kernel]", address, None),
        Place::Jit { process, address } => row("jit", "[anon]", address, Some(process)),
        Place::Own { process } => row("jit", "[dwell]", 0, Some(process)),
        Place::Unknown { process, address } => row("unknown", "[unknown]", address, Some(process)),
    }
}
