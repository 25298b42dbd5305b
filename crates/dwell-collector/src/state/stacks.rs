//! Stacks: their frames, and what of them is in the kernel, in user space, or ours.
use super::State;
use crate::address_space::AddressSpace;
use crate::intern::Place;
use crate::modules::Modules;
use crate::outside::{self, Walked};
use crate::processes::{Process, hex};
use crate::records::Trail;
use crate::threads::UserPart;
use dwell_abi::events::*;
use dwell_abi::unwind::StackEnd;
use dwell_recording::rows::{FrameRow, SampleRow, state};

impl State {
    pub(super) fn running(&mut self, head: &StackRecord, trail: Trail<'_>) {
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
    pub(super) fn joined_stack(
        &mut self,
        process: Option<u32>,
        end: u8,
        trail: Trail<'_>,
        kernel: &[u64],
    ) -> u32 {
        let user = self.user_part_of_record(process, end, trail, kernel);
        self.join(user, kernel)
    }

    pub(super) fn user_part_of_record(
        &mut self,
        process: Option<u32>,
        end: u8,
        trail: Trail<'_>,
        kernel: &[u64],
    ) -> UserPart {
        // On its way out of an exec a thread stands in the new program, within it nowhere.
        let nowhere = end == StackEnd::NoUser as u8 && self.marks.in_exec(kernel);
        let trail = if nowhere { Trail::default() } else { trail };
        self.user_part(process, end, trail)
    }

    pub(super) fn user_part(
        &mut self,
        process: Option<u32>,
        end: u8,
        trail: Trail<'_>,
    ) -> UserPart {
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
                self.copied_stacks += u64::from(walked.is_some());
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

    pub(super) fn join(&mut self, user: UserPart, kernel: &[u64]) -> u32 {
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
    pub(super) fn process_of(&self, thread: u32) -> Option<u32> {
        Some(self.threads.get(thread).row.process)
    }

    pub(super) fn push_walked(&mut self, process: u32, walked: &Walked, frames: &mut Vec<u32>) {
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

    /// The frame of the call that returns to an actual address of a process.
    pub(crate) fn frame_of_call(&mut self, process: u32, returns_to: u64) -> u32 {
        let place = self.place(process, returns_to.saturating_sub(1));
        self.interner.frame(place)
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
