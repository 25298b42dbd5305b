//! Draws programs that do nothing wrong: they end, and keep to their stack and to one store of memory.
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width, atomic, class};

/// Numbers that look random (xorshift).
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Often one at the edge of a type.
    fn number(&mut self) -> u64 {
        const EDGES: [u64; 10] = [
            0,
            1,
            u64::MAX,
            i64::MAX as u64,
            i64::MIN as u64,
            u32::MAX as u64,
            i32::MAX as u64,
            0xffff_ffff_8000_0000,
            63,
            1 << 32,
        ];
        match self.below(3) {
            0 => self.of(&EDGES),
            1 => self.next() % 100,
            _ => self.next(),
        }
    }

    fn register(&mut self) -> u8 {
        self.of(&NUMBERS)
    }
}

/// Registers that hold numbers; 8 counts turns, 9 has the memory's address.
const NUMBERS: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
const TURNS: u8 = 8;
const MEMORY: u8 = 9;
const WIDTHS: [Width; 4] = [Width::W1, Width::W2, Width::W4, Width::W8];
const OPERATIONS: [Alu; 13] = [
    Alu::Add,
    Alu::Sub,
    Alu::Mul,
    Alu::Div,
    Alu::Or,
    Alu::And,
    Alu::Lsh,
    Alu::Rsh,
    Alu::Neg,
    Alu::Mod,
    Alu::Xor,
    Alu::Mov,
    Alu::Arsh,
];
const CONDITIONS: [Jump; 10] = [
    Jump::Eq,
    Jump::Gt,
    Jump::Ge,
    Jump::Ne,
    Jump::SGt,
    Jump::SGe,
    Jump::Lt,
    Jump::Le,
    Jump::SLt,
    Jump::SLe,
];

/// A program whose result tells of all its registers.
pub fn program(draw: &mut Draw) -> Vec<Instruction> {
    let mut code = Vec::new();
    for register in NUMBERS {
        code.extend(Instruction::load_64(register, draw.number()));
    }
    code.extend(Instruction::load_address(MEMORY, 0, 0));
    // The stack holds nothing that is known.
    for at in 1..=16 {
        code.push(Instruction::store(Width::W8, 10, -8 * at, (at % 8) as u8));
    }
    for _ in 0..1 + draw.below(3) {
        block(draw, &mut code);
        if draw.below(2) == 0 {
            turns(draw, &mut code);
        }
    }
    for register in &NUMBERS[1..] {
        code.push(Instruction::alu_imm(Alu::Mul, 0, 31));
        code.push(Instruction::alu(Alu::Add, 0, *register));
    }
    code.push(Instruction::exit());
    code
}

/// A loop of a few turns.
fn turns(draw: &mut Draw, code: &mut Vec<Instruction>) {
    code.push(Instruction::alu_imm(
        Alu::Mov,
        TURNS,
        1 + draw.below(20) as i32,
    ));
    let start = code.len();
    block(draw, code);
    code.push(Instruction::alu_imm(Alu::Sub, TURNS, 1));
    let back = start as i64 - code.len() as i64 - 1;
    code.push(Instruction::jump_imm(Jump::Ne, TURNS, 0, back as i16));
}

/// Instructions with jumps forward among them.
fn block(draw: &mut Draw, code: &mut Vec<Instruction>) {
    let mut left = 5 + draw.below(25);
    while left > 0 {
        left -= 1;
        if draw.below(8) == 0 {
            // Over whole instructions: what is jumped over is made of single ones.
            let over = 1 + draw.below(4);
            code.push(jump(draw, over as i16));
            (0..over).for_each(|_| code.push(single(draw)));
        } else if draw.below(12) == 0 {
            let (register, value) = (draw.register(), draw.number());
            code.extend(Instruction::load_64(register, value));
        } else {
            code.push(single(draw));
        }
    }
}

fn jump(draw: &mut Draw, over: i16) -> Instruction {
    let (condition, register) = (draw.of(&CONDITIONS), draw.register());
    match draw.below(2) {
        0 => Instruction::jump(condition, register, draw.register(), over),
        _ => Instruction::jump_imm(condition, register, draw.number() as i32, over),
    }
}

fn single(draw: &mut Draw) -> Instruction {
    match draw.below(10) {
        0..=4 => arithmetic(draw),
        5 => Instruction::swap(draw.register(), draw.of(&[16, 32, 64])),
        6 => atomic_operation(draw),
        _ => access(draw),
    }
}

fn arithmetic(draw: &mut Draw) -> Instruction {
    let (operation, dst) = (draw.of(&OPERATIONS), draw.register());
    let mut made = match draw.below(2) {
        0 => Instruction::alu(operation, dst, draw.register()),
        _ => Instruction::alu_imm(operation, dst, draw.number() as i32),
    };
    if draw.below(2) == 0 {
        made.opcode = made.opcode & !7 | class::ALU32;
    }
    made
}

/// On the stack or in the memory.
fn access(draw: &mut Draw) -> Instruction {
    let width = draw.of(&WIDTHS);
    let room = 128 - width.bytes() as usize;
    let (base, offset) = match draw.below(2) {
        0 => (10, draw.below(room + 1) as i16 - 128),
        _ => (MEMORY, (draw.below(room + 129)) as i16),
    };
    match draw.below(3) {
        0 => Instruction::load(width, draw.register(), base, offset),
        1 => Instruction::store(width, base, offset, draw.register()),
        _ => Instruction::store_imm(width, base, offset, draw.number() as i32),
    }
}

fn atomic_operation(draw: &mut Draw) -> Instruction {
    let operation = draw.of(&[atomic::ADD, atomic::FETCH_ADD, atomic::COMPARE_EXCHANGE]);
    let (base, offset) = match draw.below(2) {
        0 => (10, -8 * (1 + draw.below(16) as i16)),
        _ => (MEMORY, 8 * draw.below(32) as i16),
    };
    Instruction::atomic(operation, base, offset, draw.register())
}

/// The program without what writes a register, so that it can hold something else.
pub fn without(code: Vec<Instruction>, register: u8) -> Vec<Instruction> {
    let other = |r: u8| if r == register { 7 } else { r };
    let replaced = code.into_iter().map(|mut i| {
        (i.dst, i.src) = (other(i.dst), other(i.src));
        i
    });
    replaced.collect()
}
