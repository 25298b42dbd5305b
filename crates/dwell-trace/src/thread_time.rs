//! How long threads have run, for programs in the kernel: no helper function tells.
//!
//! A table has, by thread, what it has run until it last got a processor, and when that was. A thread is in it from the
//! first time it is asked for. A program of ours at `sched_switch` keeps it right, by what the scheduler has counted
//! until then: the time of a switch itself is the next thread's, however long what is attached there takes. It takes
//! out threads that have ended. In programs the call of [`op::THREAD_TIME`] becomes instructions that read the table.
use crate::kernel_types::Account;
use dwell_abi::program::instruction::{Alu, CALL, EXIT, Jump, Width, atomic, class};
use dwell_abi::program::{Instruction as I, Program, Store, operation as op};
use dwell_script::codegen::{MEMORY, control};

/// The table: by thread, what [`RUN`] and the others say.
pub(crate) const TABLE: Store = Store::Table {
    key: 8,
    value: 32,
    entries: 1 << 20,
};
/// Offset in an entry: ns that the thread had run when it got the processor.
const RUN: i16 = 0;
/// When that was (CLOCK_MONOTONIC).
const SINCE: i16 = 8;
/// What the scheduler had counted by then; 0 when it is not known.
const COUNTED: i16 = 16;
/// What was told last: it never tells less.
const TOLD: i16 = 24;

/// Whether a program asks.
pub(crate) fn is_asked(program: &Program) -> bool {
    program.code.iter().any(is_call)
}

fn is_call(instruction: &I) -> bool {
    instruction.opcode == CALL && instruction.imm == op::THREAD_TIME as i32
}

/// A program with what reads the table in place of each call; none if a jump would be too long.
pub(crate) fn expand(code: &[I], table: u32) -> Option<Vec<I>> {
    let pieces = code.iter().map(|i| match is_call(i) {
        true => reading(table, i.offset),
        false => vec![*i],
    });
    let mut pieces: Vec<Vec<I>> = pieces.collect();
    // Where each instruction comes to be, and where the end.
    let mut places = vec![0];
    places.extend(pieces.iter().scan(0, |end, piece| {
        *end += piece.len();
        Some(*end)
    }));
    for (at, original) in code.iter().enumerate().filter(|(_, i)| is_jump(i)) {
        let to = (at as isize + 1 + isize::from(original.offset)) as usize;
        let distance = places[to] as isize - places[at] as isize - 1;
        pieces[at][0].offset = i16::try_from(distance).ok()?;
    }
    Some(pieces.concat())
}

fn is_jump(i: &I) -> bool {
    matches!(i.opcode & 7, class::JMP | class::JMP32) && !matches!(i.opcode, CALL | EXIT)
}

/// Instructions, some of which jump to places behind them.
#[derive(Default)]
struct Code(Vec<I>);

impl Code {
    fn add(&mut self, instructions: impl IntoIterator<Item = I>) {
        self.0.extend(instructions);
    }

    /// A jump to where [`Code::land`] is told; returns what it wants to know.
    fn jump(&mut self, jump: I) -> usize {
        self.0.push(jump);
        self.0.len()
    }

    fn land(&mut self, jump: usize) {
        self.0[jump - 1].offset = (self.0.len() - jump) as i16;
    }

    /// Reads bytes of the `task_struct` that is an argument of the tracepoint, in the context that register 6 has, to
    /// a place of the stack.
    fn read(&mut self, to: i16, bytes: i32, task: i16, offset: u64) {
        self.add(address(1, to));
        self.add([
            I::alu_imm(Alu::Mov, 2, bytes),
            I::load(Width::W8, 3, 6, task),
            I::alu_imm(Alu::Add, 3, offset as i32),
            I::call(op::READ_KERNEL),
        ]);
    }

    /// Register 0 becomes the address of the entry whose key is at this place of the stack, or 0.
    fn look_up(&mut self, table: u32, key: i16) {
        self.add(I::load_store(1, table));
        self.add(address(2, key));
        self.add([I::call(op::LOOKUP)]);
    }
}

/// The address of a place on the stack.
fn address(dst: u8, at: i16) -> [I; 2] {
    [
        I::alu(Alu::Mov, dst, 10),
        I::alu_imm(Alu::Add, dst, i32::from(at)),
    ]
}

/// How long the thread has run, into register 0; in [`op::THREAD_TIME_ROOM`] bytes of stack.
fn reading(table: u32, room: i16) -> Vec<I> {
    /// A thread that loses its processor while it reads begins anew; once is enough.
    const TRIES: u32 = 2;
    let (key, value) = (room, room + 8);
    let mut code = Code::default();
    code.add([
        I::call(op::IDS),
        I::alu_imm(Alu::Lsh, 0, 32),
        I::alu_imm(Alu::Rsh, 0, 32),
        I::store(Width::W8, 10, key, 0),
    ]);
    // A processor that has nothing to do is no thread: 0 is the number of that of each.
    let idle = code.jump(I::jump_imm(Jump::Eq, 0, 0, 0));
    code.look_up(table, key);
    let known = code.jump(I::jump_imm(Jump::Ne, 0, 0, 0));
    code.add([I::call(op::MONOTONIC_TIME)]);
    code.add([I::store(Width::W8, 10, value + SINCE, 0)]);
    code.add([RUN, COUNTED, TOLD].map(|at| I::store_imm(Width::W8, 10, value + at, 0)));
    code.add(I::load_store(1, table));
    code.add(address(2, key));
    code.add(address(3, value));
    code.add([I::alu_imm(Alu::Mov, 4, op::IF_NEW), I::call(op::UPDATE)]);
    let added = code.jump(I::jump_imm(Jump::Eq, 0, 0, 0));
    code.add(I::load_address(1, MEMORY, control::VARIABLE_DROPS));
    code.add([I::alu_imm(Alu::Mov, 2, 1), I::atomic(atomic::ADD, 1, 0, 2)]);
    code.land(added);
    code.land(idle);
    code.add([I::alu_imm(Alu::Mov, 0, 0)]);
    let new = code.jump(I::jump_imm(Jump::Always, 0, 0, 0));
    code.land(known);
    let (entry, since) = (value, value + 8);
    code.add([I::store(Width::W8, 10, entry, 0)]);
    let mut read = Vec::new();
    for _ in 0..TRIES {
        code.add([
            I::load(Width::W8, 1, 10, entry),
            I::load(Width::W8, 1, 1, SINCE),
            I::store(Width::W8, 10, since, 1),
            I::call(op::MONOTONIC_TIME),
            I::load(Width::W8, 3, 10, entry),
            I::load(Width::W8, 2, 10, since),
            I::alu(Alu::Sub, 0, 2),
            I::load(Width::W8, 1, 3, RUN),
            I::alu(Alu::Add, 0, 1),
            I::load(Width::W8, 1, 3, SINCE),
        ]);
        read.push(code.jump(I::jump(Jump::Eq, 1, 2, 0)));
    }
    for jump in read {
        code.land(jump);
    }
    code.add([I::store(Width::W8, 3, TOLD, 0)]);
    code.land(new);
    code.0
}

/// The program at `sched_switch`.
pub(crate) fn keeping(table: u32, account: &Account) -> Program {
    /// Arguments of the tracepoint.
    const PREVIOUS: i16 = 8;
    const NEXT: i16 = 16;
    const PREVIOUS_STATE: i16 = 24;
    /// In that state (`TASK_DEAD`) a thread never runs again.
    const DEAD: i32 = 0x80;
    const KEY: i16 = -8;
    const COUNT: i16 = -16;
    let count = |code: &mut Code, task: i16| {
        code.add([I::store_imm(Width::W8, 10, COUNT, 0)]);
        code.read(COUNT, 8, task, account.run_time);
        code.add([I::load(Width::W8, 1, 10, COUNT)]);
    };
    let mut code = Code::default();
    code.add([
        I::alu(Alu::Mov, 6, 1),
        I::call(op::MONOTONIC_TIME),
        I::alu(Alu::Mov, 7, 0),
        I::call(op::IDS),
        I::alu_imm(Alu::Lsh, 0, 32),
        I::alu_imm(Alu::Rsh, 0, 32),
        I::store(Width::W8, 10, KEY, 0),
    ]);
    code.look_up(table, KEY);
    let unknown = code.jump(I::jump_imm(Jump::Eq, 0, 0, 0));
    code.add([I::alu(Alu::Mov, 8, 0)]);
    count(&mut code, PREVIOUS);
    code.add([I::load(Width::W8, 2, 8, COUNTED)]);
    let counted = code.jump(I::jump_imm(Jump::Ne, 2, 0, 0));
    // It was asked for in the midst of its time on the processor.
    code.add([I::alu(Alu::Mov, 1, 7), I::load(Width::W8, 2, 8, SINCE)]);
    code.land(counted);
    code.add([
        I::alu(Alu::Sub, 1, 2),
        I::load(Width::W8, 2, 8, RUN),
        I::alu(Alu::Add, 1, 2),
        I::load(Width::W8, 2, 8, TOLD),
    ]);
    // The scheduler does not count what the host of a virtual machine took; whoever asked was told more.
    let more = code.jump(I::jump(Jump::Ge, 1, 2, 0));
    code.add([I::alu(Alu::Mov, 1, 2)]);
    code.land(more);
    code.add([
        I::store(Width::W8, 8, RUN, 1),
        I::load(Width::W8, 1, 6, PREVIOUS_STATE),
        I::alu_imm(Alu::And, 1, DEAD),
    ]);
    let lives = code.jump(I::jump_imm(Jump::Eq, 1, 0, 0));
    code.add(I::load_store(1, table));
    code.add(address(2, KEY));
    code.add([I::call(op::DELETE)]);
    code.land(unknown);
    code.land(lives);
    code.add([I::store_imm(Width::W8, 10, KEY, 0)]);
    code.read(KEY, 4, NEXT, account.number);
    code.look_up(table, KEY);
    let unknown = code.jump(I::jump_imm(Jump::Eq, 0, 0, 0));
    code.add([I::alu(Alu::Mov, 8, 0), I::store(Width::W8, 8, SINCE, 7)]);
    count(&mut code, NEXT);
    code.add([I::store(Width::W8, 8, COUNTED, 1)]);
    code.land(unknown);
    code.add([I::alu_imm(Alu::Mov, 0, 0), I::exit()]);
    Program { code: code.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_where_they_did() {
        let call = |offset| I {
            offset,
            ..I::call(op::THREAD_TIME)
        };
        let code = [
            I::alu_imm(Alu::Mov, 0, 5),
            I::jump_imm(Jump::Eq, 0, 0, 2),
            call(-32),
            I::jump_imm(Jump::Always, 0, 0, -3),
            I::exit(),
        ];
        let length = reading(7, -32).len();
        let expanded = expand(&code, 7).expect("short jumps");
        assert_eq!(expanded.len(), code.len() - 1 + length);
        assert_eq!(usize::try_from(expanded[1].offset), Ok(length + 1));
        let back = &expanded[2 + length];
        assert_eq!(isize::from(back.offset), -(length as isize) - 2);
        assert!(!expanded.iter().any(is_call));
    }
}
