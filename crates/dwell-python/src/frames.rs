//! What threads execute, for those that stand still: the kernel side looks for itself.
use crate::interpreter::Python;
use crate::threads::threads;
use dwell_abi::events::{NO_BYTECODE, OWNER_NOBODY, interpreted_word};
use dwell_maps::Memory;
use std::collections::HashSet;

/// Most frames of a thread that are looked at.
const MOST: usize = 1536;
/// Most frames of all threads.
const MOST_OF_ALL: usize = 1 << 14;

/// A frame of Python.
struct Frame {
    /// For [`interpreted_word`].
    code: u64,
    instruction: Option<u32>,
    /// It is the outermost one that a C frame executes.
    is_last: bool,
}

impl Python {
    /// Addresses of the code that threads execute now, each once.
    pub fn executed(&self, memory: &impl Memory) -> HashSet<u64> {
        let threads = threads(&self.layout, memory, self.runtime);
        let frames = threads.flat_map(|state| self.frames(memory, state));
        frames.map(|frame| frame.code).take(MOST_OF_ALL).collect()
    }

    /// The words for what a thread executes, innermost first, one list for each function in C that executes some. A thread is
    /// known by its number as its own process has it.
    pub fn executed_by(&self, memory: &impl Memory, thread: u32) -> Vec<Vec<u64>> {
        let mut threads = threads(&self.layout, memory, self.runtime);
        let state = threads.find(|state| {
            let number = state.wrapping_add(self.layout.native_thread_id);
            memory.word(number) == Some(thread.into())
        });
        let mut lists = Vec::new();
        let mut list = Vec::new();
        for frame in state
            .into_iter()
            .flat_map(|state| self.frames(memory, state))
        {
            list.push(interpreted_word(frame.code, frame.instruction));
            if frame.is_last {
                lists.push(std::mem::take(&mut list));
            }
        }
        lists
    }

    fn frames(&self, memory: &impl Memory, state: u64) -> Vec<Frame> {
        let layout = &self.layout;
        let word = |at: u64, offset: u64| memory.word(at.checked_add(offset)?);
        let byte = |at: u64, offset: u64| memory.bytes::<1>(at.checked_add(offset)?);
        // 3.11 has no frames between those that two C frames execute, but says which one is the last.
        let is_nobodys = |frame: u64| {
            let owner = byte(frame, layout.frame_owner).unwrap_or_default()[0];
            layout.frame_entry.is_none() && u32::from(owner) >= OWNER_NOBODY
        };
        let mut frames: Vec<Frame> = Vec::new();
        let innermost = word(state, layout.thread_frame);
        let mut next = match layout.group {
            Some((frame, _)) => innermost.and_then(|group| word(group, frame)),
            None => innermost,
        };
        for _ in 0..MOST {
            let Some(at) = next.filter(|at| *at != 0) else {
                break;
            };
            next = word(at, layout.frame_previous);
            if is_nobodys(at) {
                if let Some(last) = frames.last_mut() {
                    last.is_last = true;
                }
                continue;
            }
            let (Some(code), Some(instruction)) = (
                word(at, layout.frame_code),
                word(at, layout.frame_instruction),
            ) else {
                break;
            };
            let code = code & !7;
            let units = instruction.wrapping_sub(code.wrapping_add(layout.bytecode)) >> 1;
            let is_entry = layout.frame_entry.and_then(|entry| byte(at, entry));
            frames.push(Frame {
                code,
                instruction: (units < NO_BYTECODE.into()).then_some(units as u32),
                is_last: is_entry.is_some_and(|byte| byte != [0]),
            });
        }
        frames
    }
}
