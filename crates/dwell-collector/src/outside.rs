//! Unwinding in user space: stacks the kernel side could not finish, and threads that never switch.
use crate::address_space::bias;
use crate::executed;
use crate::modules::Modules;
use crate::processes::{OfProcess, Process, read_memory_into};
use dwell_abi::events::{MAX_USER_FRAMES, interpreted_word};
use dwell_abi::unwind::{Row, StackEnd};
use dwell_elf::step::{Compiled, Frame, Module, Registers, Stepper};
use dwell_python::Group;
use std::fs;
use std::ops::Range;

/// Most of a sleeping thread's stack that is read at once; what lies beyond is read when needed.
const FIRST_READ: usize = 16 << 10;

/// A stack as far as it could be walked, innermost frame first.
pub struct Walked {
    /// The frames.
    pub frames: Vec<Frame>,
    /// Why it ends.
    pub end: StackEnd,
}

/// Code that a process compiled, and what the thread executes.
struct CompiledBy<'p> {
    process: &'p Process,
    /// By a Python. None: the thread went on, so nothing is known of what it executes.
    executed: Option<Vec<Group>>,
}

impl CompiledBy<'_> {
    /// Puts what is executed in frames of C that do not tell it in the places of these.
    fn place(&self, frames: &mut [Frame], end: StackEnd) {
        let Some(Group { words, .. }) = self.executed.iter().flatten().last() else {
            return;
        };
        let addresses = frames
            .iter()
            .map(|frame| frame.pc.wrapping_sub(frame.is_return_address.into()));
        let code = self.process.python.executing();
        let is_complete = end == StackEnd::Complete;
        for (frame, word) in executed::places(addresses, words.len(), code, is_complete) {
            frames[frame] = Frame {
                pc: words[word],
                is_return_address: false,
            };
        }
    }
}

impl Compiled for CompiledBy<'_> {
    fn row(&self, pc: u64, returned: bool) -> Option<Row> {
        let memory = OfProcess(self.process.row.pid);
        self.process.java.row(&memory, pc, returned)
    }

    fn bytecode(&self, method: u64, address: u64) -> Option<u32> {
        let memory = OfProcess(self.process.row.pid);
        self.process.java.bytecode(&memory, method, address)
    }

    fn executed_by(&self, stack: Range<u64>) -> &[u64] {
        let mut groups = self.executed.iter().flatten();
        let group = groups.find(|group| stack.contains(&group.marker));
        group.map_or(&[], |group| &group.words)
    }

    fn has_functions(&self) -> bool {
        self.executed.is_some() && self.process.javascript.is_known()
    }

    fn function_of(&self, context: u64, function: u64) -> Option<u64> {
        let memory = OfProcess(self.process.row.pid);
        let javascript = &self.process.javascript;
        let shared = javascript.executed(&memory, context, function)?;
        Some(interpreted_word(shared, None))
    }
}

fn walk(
    process: &Process,
    modules: &Modules,
    registers: [u64; 17],
    executed: Option<Vec<Group>>,
    mut read: impl FnMut(u64) -> Option<u64>,
) -> Walked {
    let mapped = process.space.iter().map(|(start, m)| {
        let module = m.module.map(|id| modules.get(id));
        Module {
            start,
            end: m.end,
            bias: module
                .and_then(|module| bias(start, m, module))
                .unwrap_or(0),
            info: module.and_then(|module| module.unwind_info()),
        }
    });
    let mut frames = Vec::new();
    let registers = Registers::from_dwarf_order(registers);
    let compiled = CompiledBy { process, executed };
    let mut stepper = Stepper::new(mapped.collect()).with_compiled(&compiled);
    let end = stepper.walk(&registers, &mut read, MAX_USER_FRAMES as usize, &mut frames);
    compiled.place(&mut frames, end);
    Walked { frames, end }
}

/// Walks a copy of a stack that begins at the stack pointer. Code without a module is read from the
/// process itself, as long as it lives. `leave` leads out of code of ours, where they stand in it.
pub fn walk_copy(
    process: &Process,
    modules: &Modules,
    registers: [u64; 17],
    copy: &[u8],
    leave: impl Fn(&dyn Fn(u64) -> Option<u64>) -> Option<[u64; 17]>,
) -> Walked {
    let (pid, space) = (process.row.pid, &process.space);
    let base = registers[usize::from(Registers::RSP)] & !7;
    let left = leave(&|address| word_at(copy, base, address).or_else(|| read_code(pid, address)));
    let mut beyond = false;
    let registers_left = left.unwrap_or(registers);
    let mut walked = walk(process, modules, registers_left, None, |address| {
        let word = word_at(copy, base, address);
        if word.is_none() && space.find(address).is_some() {
            return read_code(pid, address);
        }
        beyond |= word.is_none() && address >= base;
        word
    });
    if beyond && walked.end == StackEnd::ReadFault {
        walked.end = StackEnd::ShortCopy;
    }
    if left.is_some() {
        let pc = registers[usize::from(Registers::RIP)];
        let own = Frame {
            pc,
            is_return_address: false,
        };
        walked.frames.insert(0, own);
    }
    walked
}

/// Walks the stack of a thread that sleeps, whose number in its own PID namespace is `ns_tid`; [`StackEnd::NotTaken`] if it
/// was woken meanwhile.
pub fn walk_memory(
    process: &Process,
    modules: &Modules,
    registers: [u64; 17],
    (pid, tid): (u32, u32),
    ns_tid: u32,
) -> Walked {
    let space = &process.space;
    let mut base = registers[usize::from(Registers::RSP)] & !7;
    let mut copy = vec![0; FIRST_READ];
    let read_at = |base: u64, copy: &mut Vec<u8>| {
        copy.resize(FIRST_READ, 0);
        let mut n = read_memory_into(pid, base, copy);
        if n == 0 {
            // The end of the stack is nearer than that: read to the end of the page.
            copy.truncate((4096 - (base & 4095)) as usize);
            n = read_memory_into(pid, base, copy);
        }
        copy.truncate(n);
    };
    read_at(base, &mut copy);
    let executed = process.python.executed_by(&OfProcess(pid), ns_tid);
    let mut walked = walk(process, modules, registers, Some(executed), |address| {
        word_at(&copy, base, address).or_else(|| {
            if space.find(address).is_some() {
                return read_code(pid, address);
            }
            base = address & !7;
            read_at(base, &mut copy);
            word_at(&copy, base, address)
        })
    });
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall"));
    if text.is_ok_and(|text| !sleeps_at(&text, &registers)) {
        // What was read may be the stack of another moment: only where it slept is certain.
        walked.frames.truncate(1);
        walked.end = StackEnd::NotTaken;
    }
    walked
}

/// Whether `/proc/PID/task/TID/syscall` tells the same place: its last words are sp and pc.
fn sleeps_at(text: &str, registers: &[u64; 17]) -> bool {
    let mut words = text.split_ascii_whitespace().rev().map(|word| {
        let digits = word.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    });
    [Registers::RIP, Registers::RSP]
        .into_iter()
        .all(|r| words.next().flatten() == Some(registers[usize::from(r)]))
}

/// Apart from the stack, whose copy stays what it is.
fn read_code(pid: u32, address: u64) -> Option<u64> {
    let mut word = [0; 8];
    (read_memory_into(pid, address, &mut word) == word.len()).then(|| u64::from_ne_bytes(word))
}

fn word_at(copy: &[u8], base: u64, address: u64) -> Option<u64> {
    let at = usize::try_from(address.checked_sub(base)?).ok()?;
    Some(u64::from_ne_bytes(
        copy.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_where_it_was_or_not() {
        let mut registers = [0; 17];
        registers[usize::from(Registers::RSP)] = 0x7ffe_1000;
        registers[usize::from(Registers::RIP)] = 0x7f00_2000;
        assert!(sleeps_at(
            "230 0x0 0x0 0x1 0x7ffe1000 0x7f002000\n",
            &registers
        ));
        assert!(sleeps_at("-1 0x7ffe1000 0x7f002000\n", &registers));
        assert!(!sleeps_at(
            "230 0x0 0x0 0x1 0x7ffe0ff8 0x7f002000\n",
            &registers
        ));
        assert!(!sleeps_at("running\n", &registers));
        assert!(!sleeps_at("", &registers));
    }
}
