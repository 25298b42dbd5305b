//! Stacks: their frames, and what of them is in the kernel, in user space, or ours.
use super::State;
use crate::address_space::AddressSpace;
use crate::executed;
use crate::intern::Place;
use crate::modules::Modules;
use crate::outside::{self, Walked};
use crate::own_code::OwnCode;
use crate::parts::{KernelPart, UserPart, View};
use crate::processes::{Process, hex};
use crate::records::Trail;
use dwell_abi::events::*;
use dwell_abi::unwind::StackEnd;
use dwell_recording::rows::{FrameRow, SampleRow, state};
use std::rc::Rc;

impl State {
    pub(super) fn running(&mut self, head: &StackRecord, trail: Trail<'_>) {
        let Some(thread) = self.threads.id_of(head.tid) else {
            self.losses.orphans += 1;
            return;
        };
        let view = if head.below_interrupt != 0 {
            View::Whole
        } else {
            View::BelowInterrupt
        };
        let kernel = self.kernel_part(view, trail.kernel());
        let user = self.user_part_of_record(self.process_of(thread), head.end, trail, &kernel);
        let stack = self.join(&user, &kernel);
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

    /// The words of the user's part where those of Python's frames are to be put in their places.
    pub(super) fn placed(&self, head: &StackRecord, trail: Trail<'_>) -> Option<Vec<u8>> {
        let thread = self.threads.id_of(head.tid);
        let process = thread.and_then(|thread| self.process_of(thread));
        // That of a waker that is not followed.
        let process = process.or_else(|| self.processes.id_of(head.tgid))?;
        let executing = self.processes.get(process).python.executing();
        let is_complete = head.end == StackEnd::Complete as u8;
        (!executing.is_empty())
            .then(|| executed::placed(trail.user_bytes(), executing, is_complete))
    }

    pub(super) fn user_part_of_record(
        &mut self,
        process: Option<u32>,
        end: u8,
        trail: Trail<'_>,
        kernel: &KernelPart,
    ) -> Rc<UserPart> {
        // On its way out of an exec a thread stands in the new program, within it nowhere.
        let nowhere = end == StackEnd::NoUser as u8 && kernel.in_exec;
        let trail = if nowhere { Trail::default() } else { trail };
        self.user_part(process, end, trail)
    }

    pub(super) fn user_part(
        &mut self,
        process: Option<u32>,
        end: u8,
        trail: Trail<'_>,
    ) -> Rc<UserPart> {
        let reason = StackEnd::from_u8(end).unwrap_or(StackEnd::NotTaken);
        let Some(id) = process else {
            return UserPart::none(match reason {
                StackEnd::NoUser => reason,
                _ => StackEnd::NoMapping,
            });
        };
        if let Some(part) = self.walked_copy(id, reason, trail) {
            return Rc::new(part);
        }
        let of = self.processes.get(id);
        let key = (id, of.space.version(), end);
        let State {
            parts, interner, ..
        } = self;
        let places = Places {
            own_code: &self.own_code,
            of,
            modules: &self.modules,
            process: id,
        };
        parts.user(key, trail.user_bytes(), || {
            let address = |pc: u64| (pc & !(1 << RETURN_BIT)) - (pc >> RETURN_BIT);
            let mut words = trail.user().peekable();
            let mut frames = Vec::new();
            let mut below_code = false;
            while let Some(word) = words.next() {
                let identity = words.peek().copied().and_then(told_identity);
                let place = match identity {
                    Some(identity) => places.of_code(word, identity),
                    None => places.of(address(word)),
                };
                // With `-X perf` the interpreter is called by code that it made for each function, which has its name, too.
                let is_trampoline =
                    below_code && identity.is_none() && matches!(place, Place::Jit { .. });
                if !is_trampoline {
                    frames.push(interner.frame(place));
                }
                below_code = identity.is_some();
                if identity.is_some() {
                    words.next();
                }
            }
            frames.reverse();
            UserPart {
                frames,
                end: reason,
            }
        })
    }

    /// The user part by the copy of a stack, if there is one that tells more than the kernel side found.
    fn walked_copy(&mut self, process: u32, end: StackEnd, trail: Trail<'_>) -> Option<UserPart> {
        let (regs, copy) = trail.raw()?;
        self.copied_stacks += 1;
        let of = self.processes.get(process);
        let own = |word: &dyn Fn(u64) -> Option<u64>| {
            self.own_code.left(process, &of.space, &regs.regs, word)
        };
        let walked = outside::walk_copy(of, &self.modules, regs.regs, copy, own);
        let known = trail.user().filter(|word| told_identity(*word).is_none());
        let more = walked.frames.len().cmp(&known.count());
        // Where a stack goes on in other memory the copy ends, which is not the reason.
        let is_as_good = more.is_gt() || (more.is_eq() && walked.end != StackEnd::ShortCopy);
        let is_better = walked.end == StackEnd::Complete || (end != StackEnd::NoUser && is_as_good);
        if !is_better {
            return None;
        }
        if walked.end == StackEnd::NoMapping {
            self.processes.mappings_wanted(process);
        } else if matches!(end, StackEnd::NoMapping | StackEnd::NotReady) {
            self.processes.not_in_kernel(process);
        }
        Some(UserPart {
            frames: self.walked_frames(process, &walked),
            end: walked.end,
        })
    }

    pub(super) fn kernel_part(&mut self, view: View, pcs: &[u8]) -> Rc<KernelPart> {
        self.parts
            .kernel(view, pcs, &self.marks, &mut self.interner)
    }

    /// The number of a stack that is in the kernel only: pcs, leaf first.
    pub fn kernel_stack(&mut self, pcs: &[u8]) -> u32 {
        let kernel = self.kernel_part(View::Whole, pcs);
        self.join(&UserPart::none(StackEnd::NoUser), &kernel)
    }

    /// The number of a stack that is in user space only.
    pub(crate) fn user_stack(&mut self, process: u32, end: u8, trail: Trail<'_>) -> u32 {
        let user = self.user_part(Some(process), end, trail);
        self.interner.stack(&user.frames, user.end.name())
    }

    /// The number of the stack that has these parts.
    pub(super) fn join(&mut self, user: &UserPart, kernel: &KernelPart) -> u32 {
        self.joined.clear();
        self.joined.extend_from_slice(&user.frames);
        self.joined.extend_from_slice(&kernel.frames);
        self.interner.stack(&self.joined, user.end.name())
    }

    /// A thread's process, which may be over while its other threads' records still come.
    pub(super) fn process_of(&self, thread: u32) -> Option<u32> {
        Some(self.threads.get(thread).row.process)
    }

    /// Frames of a stack that was walked here, outermost first.
    pub(super) fn walked_frames(&mut self, process: u32, walked: &Walked) -> Vec<u32> {
        let outermost_first = walked.frames.iter().rev();
        outermost_first
            .map(|frame| {
                let address = frame.pc.wrapping_sub(u64::from(frame.is_return_address));
                self.frame_of(process, address)
            })
            .collect()
    }

    /// The frame of the call that returns to an actual address of a process.
    pub(crate) fn frame_of_call(&mut self, process: u32, returns_to: u64) -> u32 {
        self.frame_of(process, returns_to.saturating_sub(1))
    }

    fn frame_of(&mut self, process: u32, address: u64) -> u32 {
        let of = self.processes.get(process);
        let places = Places {
            own_code: &self.own_code,
            of,
            modules: &self.modules,
            process,
        };
        self.interner.frame(places.of(address))
    }
}

/// What tells the places of a process.
struct Places<'a> {
    own_code: &'a OwnCode,
    of: &'a Process,
    modules: &'a Modules,
    process: u32,
}

impl Places<'_> {
    /// Where code of Python is that a word tells of, and what tells it from other code there.
    fn of_code(&self, word: u64, identity: u32) -> Place {
        Place::Jit {
            process: self.process,
            address: word,
            generation: identity,
        }
    }

    /// Where an actual address lies.
    fn of(&self, address: u64) -> Place {
        let process = self.process;
        if self.own_code.contains(process, address) {
            return Place::Own { process };
        }
        let is_interpreted = interpreted(address);
        if is_interpreted.is_none() && compiled(address).1.is_none() {
            return place(&self.of.space, self.modules, process, address);
        }
        Place::Jit {
            process,
            address,
            generation: is_interpreted.map_or(0, |(method, _)| self.of.generation(method)),
        }
    }
}

fn place(space: &AddressSpace, modules: &Modules, process: u32, address: u64) -> Place {
    let Some((start, mapped)) = space.find(address) else {
        return Place::Unknown { process, address };
    };
    let Some(module) = mapped.module else {
        return Place::Jit {
            process,
            address,
            generation: 0,
        };
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
        Place::Jit {
            process, address, ..
        } => {
            let bytecode =
                |(method, index): (u64, Option<u32>)| method + u64::from(index.unwrap_or(0));
            let address = interpreted(address).map_or(compiled(address).0, bytecode);
            row("jit", "[anon]", address, Some(process))
        }
        Place::Own { process } => row("jit", "[dwell]", 0, Some(process)),
        Place::Unknown { process, address } => row("unknown", "[unknown]", address, Some(process)),
    }
}
