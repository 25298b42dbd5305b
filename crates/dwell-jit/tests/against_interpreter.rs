//! Programs drawn at random, run natively and by the interpreter: same result, same memory.
mod common;

use common::draw::{Draw, program};
use common::{Native, at_probe};
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width};
use dwell_abi::program::model::{Model, Nothing};
use dwell_abi::program::{Store, interpret};
use dwell_jit::{Frame, TranslateError, translate};

/// Bytes of the memory that drawn programs work on.
const MEMORY: usize = 256;
const STEPS: u64 = 1 << 20;

/// What is there before a program runs.
fn initial(draw: &mut Draw) -> Vec<u8> {
    (0..MEMORY).map(|_| draw.next() as u8).collect()
}

/// What a program leaves: register 0 and the memory.
fn interpreted(code: &[Instruction], memory: &[u8]) -> (u64, Vec<u8>) {
    let store = Store::Memory {
        size: MEMORY as u32,
    };
    let mut model = Model::new(&[store], Nothing);
    model
        .memory_of(0)
        .expect("the store is memory")
        .copy_from_slice(memory);
    let result =
        interpret::run(code, &mut model, 7, STEPS).expect("drawn programs do nothing wrong");
    let memory = model.memory_of(0).expect("the store is memory").to_vec();
    (result, memory)
}

/// Two million programs' worth of instructions, arithmetic at the edges of its types, jumps, loops, memory.
#[test]
fn drawn_programs_do_what_the_interpreter_says() {
    let mut draw = Draw(0x5eed_5eed_5eed_5eed);
    let mut translated = 0usize;
    for round in 0..30_000 {
        let code = program(&mut draw);
        let memory = initial(&mut draw);
        let expected = interpreted(&code, &memory);
        let native = Native::new(&code, Frame::Function);
        let found = native.run(&memory);
        assert_eq!(found, expected, "program {round}: {code:#?}");
        translated += code.len();
    }
    assert!(translated > 1_000_000, "{translated}");
}

/// What `quantize()` does for every highest bit there is, and for none.
#[test]
fn logarithms_do_what_the_interpreter_says() {
    let mut values: Vec<u64> = (0..64)
        .flat_map(|n| [1 << n, (1 << n) + 1, u64::MAX >> n])
        .collect();
    values.push(0);
    for value in values {
        let mut code = Vec::from(Instruction::load_64(1, value));
        code.extend(Instruction::load_64(0, 128));
        for shift in [32, 16, 8, 4, 2, 1] {
            code.extend([
                Instruction::alu(Alu::Mov, 2, 1),
                Instruction::alu_imm(Alu::Rsh, 2, shift),
                Instruction::alu_imm(Alu::Neg, 2, 0),
                Instruction::alu_imm(Alu::Rsh, 2, 63),
                Instruction::alu_imm(Alu::Mul, 2, shift),
                Instruction::alu(Alu::Rsh, 1, 2),
                Instruction::alu(Alu::Or, 0, 2),
            ]);
        }
        // All three registers are told.
        for register in [1, 2] {
            code.push(Instruction::alu_imm(Alu::Mul, 0, 1000));
            code.push(Instruction::alu(Alu::Add, 0, register));
        }
        code.push(Instruction::exit());
        let native = Native::new(&code, Frame::Function);
        let memory = [0; MEMORY];
        assert_eq!(
            native.run(&memory),
            interpreted(&code, &memory),
            "{value:#x}"
        );
    }
}

/// At a probe, no register is changed but what the script is meant to change, and the context is what it is.
#[test]
fn a_probe_changes_no_register() {
    let mut draw = Draw(0x1234_5678_9abc_def1);
    for _ in 0..2_000 {
        let mut code = vec![Instruction::alu(Alu::Mov, 6, 1)];
        code.extend(common::draw::without(program(&mut draw), 6));
        let memory = initial(&mut draw);
        let registers: [u64; 15] = std::array::from_fn(|_| draw.next());
        assert_eq!(at_probe(&code, &memory, &registers), registers, "{code:#?}");
    }
}

#[test]
fn a_probe_sees_registers_where_the_kernel_has_them() {
    use common::REGISTERS;
    let registers: [u64; 15] = std::array::from_fn(|n| 0x1000 + n as u64);
    for (distance, register) in REGISTERS {
        let code = [
            Instruction::alu(Alu::Mov, 6, 1),
            Instruction::load(Width::W8, 3, 6, distance),
            Instruction::load_address(9, 0, 0)[0],
            Instruction::load_address(9, 0, 0)[1],
            Instruction::store(Width::W8, 9, 0, 3),
            Instruction::call(dwell_abi::program::operation::COOKIE),
            Instruction::store(Width::W8, 9, 8, 0),
            Instruction::exit(),
        ];
        let native = Native::new(&code, common::probe_frame());
        let (after, memory, _) = native.run_at_probe(&[0; MEMORY], &registers);
        let word = |at: usize| u64::from_le_bytes(memory[at..at + 8].try_into().expect("8 bytes"));
        assert_eq!(after, registers);
        assert_eq!(word(0), registers[register], "byte {distance}");
        assert_eq!(word(8), common::NUMBER.into());
    }
}

#[test]
fn the_stack_pointer_is_the_interrupted_codes() {
    let code = [
        Instruction::alu(Alu::Mov, 6, 1),
        Instruction::load(Width::W8, 3, 6, 152),
        Instruction::load_address(9, 0, 0)[0],
        Instruction::load_address(9, 0, 0)[1],
        Instruction::store(Width::W8, 9, 0, 3),
        Instruction::exit(),
    ];
    let native = Native::new(&code, common::probe_frame());
    let (_, memory, sp) = native.run_at_probe(&[0; MEMORY], &[0; 15]);
    assert_eq!(memory[..8], sp.to_le_bytes());
}

#[test]
fn what_is_only_in_the_kernel_is_refused_by_name() {
    let refused = |code: &[Instruction]| {
        let code = [&[Instruction::alu(Alu::Mov, 6, 1)][..], code].concat();
        translate(&code, common::probe_frame(), &common::Nowhere, 0).unwrap_err()
    };
    let error = refused(&[Instruction::call(35), Instruction::exit()]);
    assert_eq!(error, TranslateError::Operation(35));
    let flags = Instruction::load(Width::W8, 0, 6, 144);
    assert_eq!(
        refused(&[flags, Instruction::exit()]),
        TranslateError::Context(144)
    );
    let beyond = Instruction::jump_imm(Jump::Always, 0, 0, 5);
    assert_eq!(refused(&[beyond]), TranslateError::Instruction(7));
}

/// The same at another address has the same size, so room can be made for it first.
#[test]
fn its_size_does_not_depend_on_addresses() {
    struct At(u64);
    impl dwell_jit::Links for At {
        fn operation(&self, _: u32) -> Option<u64> {
            Some(self.0)
        }
        fn store(&self, store: u32) -> u64 {
            self.0 + u64::from(store)
        }
        fn store_address(&self, store: u32) -> u64 {
            self.store(store)
        }
        fn state(&self) -> u64 {
            self.0
        }
    }
    let mut draw = Draw(99);
    for _ in 0..100 {
        let mut code = program(&mut draw);
        code.insert(0, Instruction::call(1));
        let size = |at| {
            let code = translate(&code, Frame::Function, &At(at), at);
            code.expect("it is translated").len()
        };
        assert_eq!(size(0x1000), size(0x7fff_1234_5000));
    }
}
