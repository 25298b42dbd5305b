//! Programs as native code.
use super::memory::Shape;
use super::{Made, refuse};
use crate::error::TraceError;
use dwell_abi::program::operation as op;
use dwell_agent::layout::{KEPT_LEN, Link};
use dwell_agent::script::layout::OWN_LEN;
use dwell_jit::{Frame, Gate, Links, Nearby, Sums, TranslateError, translate};
use dwell_patch::process::{Placed, Programs};
use dwell_script::codegen::Site;
use std::io;

/// Where code finds what it needs.
pub(super) struct Surroundings<'s> {
    pub(super) shape: &'s Shape,
    /// Addresses of the agent's code and of the shared part.
    pub(super) agent: u64,
    pub(super) state: u64,
    /// Whether threads of the target run it, and no others.
    pub(super) is_target: bool,
}

impl Links for Surroundings<'_> {
    fn operation(&self, operation: u32) -> Option<u64> {
        let own = self.is_target.then(|| offset_of_own(operation)).flatten();
        own.or_else(|| offset_of(operation))
            .map(|offset| self.agent + offset)
    }

    fn store(&self, store: u32) -> u64 {
        self.state + self.shape.memory(store)
    }

    fn store_address(&self, store: u32) -> u64 {
        self.store(store)
    }

    fn state(&self) -> u64 {
        self.state
    }

    fn nearby(&self) -> Option<Nearby> {
        let sum = self.agent + dwell_agent::SCRIPT_SUM_OFFSET;
        self.shape.nearby(sum).filter(|_| self.is_target)
    }

    fn sums(&self, store: u32) -> Option<Sums> {
        self.shape.sums(store)
    }
}

/// What of the agent does an operation in threads of the target only.
fn offset_of_own(operation: u32) -> Option<u64> {
    Some(match operation {
        op::READ_USER => dwell_agent::SCRIPT_READ_OWN_OFFSET,
        op::READ_USER_STRING => dwell_agent::SCRIPT_READ_OWN_STRING_OFFSET,
        op::MAPPING_CALL => dwell_agent::SCRIPT_MAPPING_CALL_OFFSET,
        _ => return None,
    })
}

/// What of the agent does an operation.
fn offset_of(operation: u32) -> Option<u64> {
    Some(match operation {
        op::LOOKUP => dwell_agent::SCRIPT_LOOKUP_OFFSET,
        op::UPDATE => dwell_agent::SCRIPT_UPDATE_OFFSET,
        op::DELETE => dwell_agent::SCRIPT_DELETE_OFFSET,
        op::MONOTONIC_TIME => dwell_agent::SCRIPT_TIME_OFFSET,
        op::WALL_TIME => dwell_agent::SCRIPT_WALL_TIME_OFFSET,
        op::THREAD_TIME => dwell_agent::SCRIPT_THREAD_TIME_OFFSET,
        op::SPEND_TIME => dwell_agent::SCRIPT_SPEND_TIME_OFFSET,
        op::RANDOM => dwell_agent::SCRIPT_RANDOM_OFFSET,
        op::PROCESSOR => dwell_agent::SCRIPT_PROCESSOR_OFFSET,
        op::IDS => dwell_agent::SCRIPT_IDS_OFFSET,
        op::USER => dwell_agent::SCRIPT_USER_OFFSET,
        op::NAME => dwell_agent::SCRIPT_NAME_OFFSET,
        op::SIGNAL => dwell_agent::SCRIPT_SIGNAL_OFFSET,
        op::READ_USER | op::READ_KERNEL => dwell_agent::SCRIPT_READ_OFFSET,
        op::READ_USER_STRING | op::READ_KERNEL_STRING => dwell_agent::SCRIPT_READ_STRING_OFFSET,
        op::RECORD => dwell_agent::SCRIPT_RECORD_OFFSET,
        op::THREAD => dwell_agent::SCRIPT_THREAD_OFFSET,
        op::THREAD_MEMORY => dwell_agent::SCRIPT_THREAD_MEMORY_OFFSET,
        _ => return None,
    })
}

/// Why a program is not possible inside, in the words of scripts.
fn explain(error: TranslateError) -> TraceError {
    match error {
        TranslateError::Operation(op::STACK | op::USER_STACK) => {
            refuse("stack() and ustack() are not there")
        }
        TranslateError::Operation(op::TASK | op::USER_REGISTERS) => {
            refuse("what the kernel knows of a thread is not there")
        }
        TranslateError::Operation(op::WRITE_USER) => refuse("copyout() is not there"),
        TranslateError::Context(_) => refuse("that register is not there"),
        other => refuse(other),
    }
}

/// Why a program cannot run inside; none if it can.
pub(super) fn why_not(made: &Made, shape: &Shape) -> Option<String> {
    let is_place = frame(made.site, &NOWHERE).is_some();
    let surroundings = Surroundings {
        shape,
        agent: NOWHERE.agent,
        state: NOWHERE.state,
        is_target: is_place,
    };
    let frame = frame(made.site, &NOWHERE).unwrap_or(Frame::Function);
    let made = translate(&made.program.code, frame, &surroundings, NOWHERE.programs);
    match made.map_err(explain) {
        Err(TraceError::NotInside(why)) => Some(why),
        Err(other) => Some(other.to_string()),
        Ok(_) => None,
    }
}

/// Where nothing is: for code that is never run.
const NOWHERE: Placed = Placed {
    programs: 0x10_0000,
    agent: 0,
    state: 0,
    owner: 0x1000,
};

/// How code at a place begins and ends; none for what runs at no place.
fn frame(site: Site, at: &Placed) -> Option<Frame> {
    // Always a word, so that the code has the same length whether we can be told to live or not.
    let owner = match at.owner {
        0 => (at.state, u32::MAX),
        word => (word, Link::OWNER_TID_MASK),
    };
    let gate = Gate {
        open: at.state,
        owner: Some(owner),
    };
    let kept = match site {
        Site::Entry | Site::Return => 0,
        Site::Offset | Site::Static(_) => KEPT_LEN as u32,
        _ => return None,
    };
    Some(Frame::Probe { gate, kept })
}

/// The programs of all places, one behind the other. They can be made for any address.
pub(super) struct Block<'m> {
    made: &'m [Made],
    shape: &'m Shape,
    /// Where each begins; none for those that do not run at a place.
    starts: Vec<Option<u64>>,
    len: u64,
}

impl<'m> Block<'m> {
    pub(super) fn new(made: &'m [Made], shape: &'m Shape) -> Result<Self, TraceError> {
        let mut block = Block {
            made,
            shape,
            starts: Vec::new(),
            len: 0,
        };
        let (code, starts) = block.make(&NOWHERE)?;
        block.starts = starts;
        block.len = code.len() as u64;
        Ok(block)
    }

    /// Where the program at this place of the list begins.
    pub(super) fn start(&self, index: usize) -> u64 {
        self.starts[index].expect("it runs at a place")
    }

    fn make(&self, at: &Placed) -> Result<(Vec<u8>, Vec<Option<u64>>), TraceError> {
        let surroundings = Surroundings {
            shape: self.shape,
            agent: at.agent,
            state: at.state + OWN_LEN,
            is_target: true,
        };
        let (mut code, mut starts) = (Vec::new(), Vec::new());
        for made in self.made {
            let Some(frame) = frame(made.site, at) else {
                starts.push(None);
                continue;
            };
            let start = (code.len() as u64).next_multiple_of(32);
            code.resize(start as usize, 0xcc);
            let here = at.programs + start;
            let bytes = translate(&made.program.code, frame, &surroundings, here);
            code.extend(bytes.map_err(explain)?);
            starts.push(Some(start));
        }
        Ok((code, starts))
    }
}

impl Programs for Block<'_> {
    fn size(&self) -> u64 {
        self.len
    }

    fn code(&self, at: &Placed) -> io::Result<Vec<u8>> {
        self.make(at).map(|made| made.0).map_err(io::Error::other)
    }
}

/// The code of a program that runs here.
pub(super) fn local(
    made: &Made,
    surroundings: &Surroundings<'_>,
    at: u64,
) -> Result<Vec<u8>, TraceError> {
    translate(&made.program.code, Frame::Function, surroundings, at).map_err(explain)
}
