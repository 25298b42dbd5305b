//! A made Python, as 3.12 has it, or 3.10: what no real one shows.
use dwell_maps::Memory;
use dwell_python::{Group, NoPython, Python, SYMBOLS};
use std::collections::HashMap;

const RUNTIME: u64 = 0x10_0000;
const VERSION: u64 = 0x20_0000;
const CODE_TYPE: u64 = 0x30_0000;
const INTERPRETER: u64 = 0x40_0000;
const STATE: u64 = 0x50_0000;
const THREAD: u64 = 0x60_0000;
const GROUP: u64 = 0x70_0000;
const FRAME: u64 = 0x80_0000;
const NOBODYS: u64 = 0x80_1000;
const CODE: u64 = 0x90_0000;

/// Words by their addresses.
#[derive(Clone)]
struct Made(HashMap<u64, u64>);

impl Memory for Made {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        into.iter_mut().zip(address..).all(|(byte, at)| {
            let word = self.0.get(&(at & !7));
            word.map(|word| *byte = word.to_le_bytes()[(at & 7) as usize])
                .is_some()
        })
    }
}

fn made() -> Made {
    let words = [
        (VERSION, 0x030c_01f0),
        (RUNTIME + 40, INTERPRETER),
        (INTERPRETER, 0),
        (INTERPRETER + 72, STATE),
        (STATE + 8, 0),
        (STATE + 56, GROUP),
        (STATE + 136, THREAD),
        (STATE + 144, 77),
        (THREAD, THREAD),
        (THREAD + 0x328, STATE),
        (GROUP, FRAME),
        (FRAME, CODE),
        (FRAME + 8, NOBODYS),
        (FRAME + 56, CODE + 192 + 2 * 3),
        (FRAME + 64, 0),
        (NOBODYS + 8, 0),
        (NOBODYS + 64, 3 << 48),
    ];
    Made(words.into())
}

fn read(memory: &Made) -> Result<Python, NoPython> {
    let addresses = [RUNTIME, VERSION, CODE_TYPE];
    Python::read(memory, |name| {
        let at = SYMBOLS.iter().position(|symbol| *symbol == name)?;
        addresses.get(at).copied()
    })
}

#[test]
fn frames_and_the_slot_of_a_thread() {
    let memory = made();
    let python = read(&memory).expect("a Python");
    assert_eq!(python.for_kernel().slot_at, 0x328);
    assert_eq!(python.for_kernel().slots_at, 0);
    let word = dwell_abi::events::interpreted_word(CODE, Some(3));
    let group = Group {
        marker: NOBODYS,
        words: vec![word],
    };
    assert_eq!(python.executed_by(&memory, 77), [group, Group::default()]);
    assert!(python.executed_by(&memory, 78).is_empty());
}

/// What versions before 3.11 have in common, and more: two frames, of which the outer one has not begun.
fn older<const N: usize>(more: [(u64, u64); N]) -> Made {
    let words = [
        (RUNTIME + 32, INTERPRETER),
        (INTERPRETER, 0),
        (INTERPRETER + 8, STATE),
        (STATE + 8, 0),
        (STATE + 24, FRAME),
        (STATE + 176, THREAD),
        (THREAD, THREAD),
        (THREAD + 0x328, STATE),
        (THREAD + 720, 77),
        (FRAME + 24, FRAME + 0x1000),
        (FRAME + 32, CODE),
        (FRAME + 64, 0),
        (FRAME + 0x1018, 0),
        (FRAME + 0x1020, CODE + 0x100),
        (FRAME + 0x1040, 0),
    ];
    Made(words.into_iter().chain(more).collect())
}

/// In 3.10, which does not state its version, each C frame executes one frame.
#[test]
fn single_frames_of_an_older_version() {
    let memory = older([
        (STATE + 48, GROUP),
        (GROUP + 8, GROUP + 0x1000),
        (GROUP + 0x1008, 0),
        (FRAME + 96, 3),
        (FRAME + 0x1060, 0xffff_ffff),
    ]);
    let symbol = |name: &str| match name {
        "_PyRuntime" => Some(RUNTIME),
        "PyCode_Type" => Some(CODE_TYPE),
        "PyIter_Send" => Some(CODE),
        _ => None,
    };
    let python = Python::read(&memory, symbol).expect("a Python");
    assert_eq!(python.executing(), None);
    let word = dwell_abi::events::interpreted_word;
    let group = |marker, word| Group {
        marker,
        words: vec![word],
    };
    let expected = [
        group(GROUP, word(CODE, Some(3))),
        group(GROUP + 0x1000, word(CODE + 0x100, None)),
        Group::default(),
    ];
    assert_eq!(python.executed_by(&memory, 77), expected);
    let oldest = |name: &str| symbol(name).filter(|_| name != "PyIter_Send");
    assert_eq!(Python::read(&memory, oldest).err(), Some(NoPython::Unknown));
}

/// Before 3.10 nothing tells which frame a C frame executes.
#[test]
fn frames_that_no_frame_of_c_tells() {
    let memory = older([(FRAME + 104, 6), (FRAME + 0x1068, 0xffff_ffff)]);
    let symbol = |name: &str| match name {
        "_PyRuntime" => Some(RUNTIME),
        "PyCode_Type" => Some(CODE_TYPE),
        "PyCode_NewWithPosOnlyArgs" => Some(CODE),
        "_PyEval_EvalFrameDefault" => Some(CODE + 0x40),
        _ => None,
    };
    let python = Python::read(&memory, symbol).expect("a Python");
    assert_eq!(python.executing(), Some(CODE + 0x40));
    let word = dwell_abi::events::interpreted_word;
    let group = Group {
        marker: 0,
        words: vec![word(CODE, Some(3)), word(CODE + 0x100, None)],
    };
    assert_eq!(python.executed_by(&memory, 77), [group]);
    let stripped = |name: &str| symbol(name).filter(|_| !name.starts_with("_PyEval"));
    assert_eq!(
        Python::read(&memory, stripped).err(),
        Some(NoPython::Unknown)
    );
}

#[test]
fn values_that_are_found_by_their_own_address() {
    let mut memory = made();
    memory.0.remove(&(THREAD + 0x328));
    assert_eq!(read(&memory).err(), Some(NoPython::NotYet));
    memory.0.insert(THREAD + 0x80, 0xa0_0000);
    memory.0.insert(0xa0_0010, STATE);
    let interpreter = read(&memory).expect("a Python").for_kernel();
    assert_eq!((interpreter.slots_at, interpreter.slot_at), (0x80, 0x10));
}

#[test]
fn circles_end() {
    let mut memory = made();
    memory.0.insert(INTERPRETER, INTERPRETER);
    memory.0.insert(STATE + 8, STATE);
    memory.0.insert(NOBODYS + 8, NOBODYS);
    let python = read(&memory).expect("a Python");
    assert_eq!(python.executed(&memory).len(), 1);
    memory.0.insert(FRAME + 8, FRAME);
    assert_eq!(python.executed(&memory).len(), 1);
}

#[test]
fn what_is_not_known() {
    let mut memory = made();
    memory.0.insert(VERSION, 0x0307_00f0);
    assert_eq!(read(&memory).err(), Some(NoPython::Unknown));
    memory.0.remove(&VERSION);
    assert_eq!(read(&memory).err(), Some(NoPython::NotYet));
    let none = Python::read(&memory, |_| None);
    assert_eq!(none.err(), Some(NoPython::Unknown));
}
