//! A running Python.
use crate::layout::Layout;
use crate::threads::{Slot, slot_of};
use crate::{CODE_TYPE, EXECUTING, NEW_IN_3_8, NEW_IN_3_10, RUNTIME, VERSION};
use dwell_abi::events::Interpreter;
use dwell_maps::Memory;

/// A running Python, as far as it is known.
#[derive(Debug)]
pub struct Python {
    pub(crate) layout: Layout,
    pub(crate) code_type: u64,
    pub(crate) runtime: u64,
    /// See [`Layout::names`].
    pub(crate) names: (u64, usize),
    slot: Slot,
    executing: Option<u64>,
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub enum NoPython {
    /// It has not begun yet, or not all of it.
    NotYet,
    /// A version that is not known.
    Unknown,
}

impl Python {
    /// Looks for it by the actual addresses of its symbols ([`crate::SYMBOLS`]).
    pub fn read(
        memory: &impl Memory,
        symbol: impl Fn(&str) -> Option<u64>,
    ) -> Result<Python, NoPython> {
        let needed = |name| symbol(name).ok_or(NoPython::Unknown);
        let runtime = needed(RUNTIME)?;
        let code_type = needed(CODE_TYPE)?;
        let version = match symbol(VERSION) {
            Some(version) => (memory.word(version).ok_or(NoPython::NotYet)? >> 16) as u16,
            None if symbol(NEW_IN_3_10).is_some() => 0x030a,
            None => needed(NEW_IN_3_8).map(|_| 0x0308)?,
        };
        let layout = Layout::of(version, memory, runtime).ok_or(NoPython::Unknown)?;
        let names = layout.names().ok_or(NoPython::Unknown)?;
        let slot = slot_of(&layout, memory, runtime).ok_or(NoPython::NotYet)?;
        let executing = match layout.tells_c_frames() {
            true => None,
            false => Some(needed(EXECUTING)?),
        };
        Ok(Python {
            layout,
            code_type,
            runtime,
            names,
            slot,
            executing,
        })
    }

    /// The actual address of the function of which each C frame executes one frame of Python, where nothing in the C frame
    /// tells which.
    pub fn executing(&self) -> Option<u64> {
        self.executing
    }

    /// What the kernel side needs of it.
    pub fn for_kernel(&self) -> Interpreter {
        let layout = &self.layout;
        // All are offsets in structs of less than 16 MiB.
        let (group_frame, group_previous) = layout.group.unwrap_or_default();
        Interpreter {
            slot_at: self.slot.at,
            slots_at: self.slot.slots_at,
            thread_frame_at: layout.thread_frame as u32,
            frame_at: layout.single_frame.unwrap_or(0) as u32,
            group_frame_at: group_frame as u32,
            group_previous_at: group_previous as u32,
            code_at: layout.frame_code as u32,
            previous_at: layout.frame_previous as u32,
            instruction_at: layout.frame_instruction as u32,
            owner_at: layout.frame_owner as u32,
            entry_at: layout.frame_entry.unwrap_or(0) as u32,
            bytecode_at: layout.bytecode as u32,
            names_at: self.names.0 as u32,
            file_nth: self.names.1 as u32,
            hash_at: layout.text_hash as u32,
            text_at: layout.ascii_text as u32,
        }
    }
}
