//! What threads execute, for those that stand still: the kernel side looks for itself.
use crate::interpreter::Python;
use crate::threads::threads;
use dwell_abi::events::{NO_BYTECODE, OWNER_NOBODY, interpreted, interpreted_word};
use dwell_maps::Memory;
use std::collections::HashSet;

/// Most frames of a thread that are looked at.
const MOST: usize = 1536;
/// Most frames of all threads.
const MOST_OF_ALL: usize = 1 << 14;
/// In what a thread pointer leads to, the thread's number: glibc's `struct pthread`, x86-64.
const TID: u64 = 720;

/// What a function in C executes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The actual address of what lies in that function's frame; 0: nothing is known to.
    pub marker: u64,
    /// A word ([`interpreted_word`]) for each frame of Python, innermost first.
    pub words: Vec<u64>,
}

impl Python {
    /// Addresses of the code that threads execute now, each once.
    pub fn executed(&self, memory: &impl Memory) -> HashSet<u64> {
        let threads = threads(&self.layout, memory, self.runtime);
        let groups = threads.flat_map(|state| self.groups(memory, state));
        let words = groups.flat_map(|group| group.words);
        let codes = words.take(MOST_OF_ALL).filter_map(interpreted);
        codes.map(|(code, _)| code).collect()
    }

    /// What a thread executes, innermost first. It is known by its number as its own process has it.
    pub fn executed_by(&self, memory: &impl Memory, thread: u32) -> Vec<Group> {
        let mut threads = threads(&self.layout, memory, self.runtime);
        let layout = &self.layout;
        let number = |state: u64| match layout.native_thread_id {
            Some(number) => memory.word(state.checked_add(number)?),
            None => {
                let pointer = memory.word(state.checked_add(layout.thread_id)?)?;
                let number = memory.int(pointer.checked_add(TID)?)?;
                u64::try_from(number).ok()
            }
        };
        let state = threads.find(|state| number(*state) == Some(thread.into()));
        state.map_or_else(Vec::new, |state| self.groups(memory, state))
    }

    fn groups(&self, memory: &impl Memory, state: u64) -> Vec<Group> {
        let layout = &self.layout;
        let word = |at: u64, offset: u64| memory.word(at.checked_add(offset)?);
        let byte = |at: u64, offset: u64| {
            let byte = memory.bytes::<1>(at.checked_add(offset)?);
            byte.map(|byte| u32::from(byte[0]))
        };
        let mut groups = Vec::new();
        let mut words = Vec::new();
        let mut group = word(state, layout.thread_frame);
        let mut next = match (layout.single_frame, layout.group) {
            (Some(frame), _) => word(state, frame),
            (None, Some((frame, _))) => group.and_then(|group| word(group, frame)),
            (None, None) => group,
        };
        for _ in 0..MOST {
            let Some(at) = next.filter(|at| *at != 0) else {
                break;
            };
            next = word(at, layout.frame_previous);
            let owner = byte(at, layout.frame_owner);
            let marker = match layout.frame_entry {
                None if layout.single_frame.is_some() => group.filter(|_| layout.tells_c_frames()),
                // Frames that are nobody's lie between groups.
                None if owner.is_none_or(|owner| owner >= OWNER_NOBODY) => Some(at),
                None => None,
                Some(entry) => group.filter(|_| byte(at, entry).is_some_and(|entry| entry != 0)),
            };
            if marker != Some(at) {
                words.extend(self.word_of(memory, at));
            }
            if let Some(marker) = marker {
                let words = std::mem::take(&mut words);
                groups.push(Group { marker, words });
                let previous = layout.group.map_or(0, |(_, previous)| previous);
                group = word(marker, previous);
            }
        }
        // Where the end was not reached, or nothing tells, no C frame is known.
        groups.push(Group { marker: 0, words });
        groups
    }

    fn word_of(&self, memory: &impl Memory, frame: u64) -> Option<u64> {
        let layout = &self.layout;
        let code = memory.word(frame.checked_add(layout.frame_code)?)? & !7;
        let instruction = memory.word(frame.checked_add(layout.frame_instruction)?)?;
        let units = match layout.single_frame {
            // Before the first one it is -1.
            Some(_) if layout.tells_c_frames() => u64::from(instruction as u32),
            Some(_) => u64::from(instruction as u32) / 2,
            None => instruction.wrapping_sub(code.wrapping_add(layout.bytecode)) >> 1,
        };
        let units = (units < NO_BYTECODE.into()).then_some(units as u32);
        Some(interpreted_word(code, units))
    }
}
