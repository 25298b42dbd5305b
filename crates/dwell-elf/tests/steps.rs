//! A program executed one instruction at a time: after each, the unwound stack is the one that its
//! calls and returns have made. This oracle knows nothing of unwind information.
mod common;

use common::oracles::{Stack, Unwinders};
use common::process::{Image, Stopped};
use common::programs::{LEAN, c, compile, has};
use dwell_abi::unwind::StackEnd;
use dwell_elf::step::Registers;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use std::path::Path;
use std::process::Command;

/// What was seen.
#[derive(Debug, Default)]
struct Tally {
    steps: usize,
    /// Steps at which the rows cannot say how to go on, and say so.
    unsupported: usize,
}

/// The return addresses that calls have pushed and returns have not yet popped, innermost last.
struct Shadow {
    /// The stack below, when counting began, innermost first.
    base: Vec<u64>,
    calls: Vec<u64>,
}

impl Shadow {
    fn stack(&self, pc: u64) -> Vec<u64> {
        std::iter::once(pc)
            .chain(self.calls.iter().rev().copied())
            .chain(self.base.iter().copied())
            .collect()
    }

    /// Follows the instruction that was executed at `pc`.
    fn follow(&mut self, code: &[u8; 16], pc: u64, now: &Registers) {
        let mut decoder = Decoder::with_ip(64, code, pc, DecoderOptions::NONE);
        let instruction = decoder.decode();
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall
                if instruction.mnemonic() != iced_x86::Mnemonic::Syscall =>
            {
                self.calls.push(instruction.next_ip());
            }
            FlowControl::Return => {
                let to = now.get(Registers::RIP).expect("known");
                match self.calls.pop() {
                    Some(expected) => {
                        assert_eq!(to, expected, "the return at {pc:#x} goes elsewhere")
                    }
                    None => assert_eq!(
                        to,
                        self.base.remove(0),
                        "the return at {pc:#x} goes elsewhere"
                    ),
                }
            }
            _ => {}
        }
    }
}

fn is_syscall(code: &[u8; 16]) -> bool {
    code.starts_with(&[0x0f, 0x05])
}

/// Steps from `main` until the program ends or `limit` instructions were executed.
fn step_through(program: &Path, limit: usize) -> Tally {
    step_through_stripped(program, program, limit)
}

/// Like [`step_through`], with the symbols in another file.
fn step_through_stripped(program: &Path, symbols: &Path, limit: usize) -> Tally {
    let thread = Stopped::launch(program, &[]);
    let image = Image::of(program.to_str().expect("path"));
    let symbols = &Image::of(symbols.to_str().expect("path")).file;
    let main = symbols
        .symbols()
        .find(|s| s.name == b"main")
        .expect("main")
        .address;
    let mapping = thread
        .mappings()
        .into_iter()
        .find(|m| std::ptr::eq(m.image, image))
        .expect("mapped");
    thread.run_to(main.wrapping_add(mapping.bias));
    let mut unwinders = Unwinders::new(thread.mappings());
    let mut registers = thread.registers();
    let base = unwinders.full(&registers, &thread);
    assert_eq!(base.end, StackEnd::Complete, "below main: {base:x?}");
    let mut shadow = Shadow {
        base: base.pcs()[1..].to_vec(),
        calls: Vec::new(),
    };
    let mut tally = Tally::default();
    while tally.steps < limit {
        let pc = registers.get(Registers::RIP).expect("known");
        compare(
            &mut unwinders,
            &thread,
            &registers,
            &shadow.stack(pc),
            &mut tally,
        );
        let code = thread.code(pc);
        if !thread.single_step() {
            break;
        }
        registers = thread.registers();
        shadow.follow(&code, pc, &registers);
        if is_syscall(&code) {
            unwinders = Unwinders::new(thread.mappings());
        }
        tally.steps += 1;
    }
    println!("{}: {tally:?}", program.display());
    tally
}

fn compare(
    unwinders: &mut Unwinders,
    thread: &Stopped,
    registers: &Registers,
    truth: &[u64],
    tally: &mut Tally,
) {
    let full = unwinders.full(registers, thread);
    check(&full, truth, "the full stepper", unwinders);
    let table = unwinders.table(registers, thread);
    if table.end == StackEnd::Unsupported {
        tally.unsupported += 1;
        let pcs = table.pcs();
        assert_eq!(pcs, truth[..pcs.len()], "the rows, until they give up");
    } else {
        check(&table, truth, "the rows", unwinders);
    }
}

fn check(stack: &Stack, truth: &[u64], who: &str, unwinders: &Unwinders) {
    if stack.end == StackEnd::Complete && stack.pcs() == truth {
        return;
    }
    let place = |pc: &u64| match unwinders
        .mappings
        .iter()
        .find(|m| (m.start..m.end).contains(pc))
    {
        Some(m) => format!("{}+{:#x}", m.image.path, pc.wrapping_sub(m.bias)),
        None => format!("{pc:#x}"),
    };
    let show = |pcs: &[u64]| pcs.iter().map(place).collect::<Vec<_>>().join("\n  ");
    panic!(
        "{who} ({:?}):\n  {}\nthe truth:\n  {}",
        stack.end,
        show(&stack.pcs()),
        show(truth)
    );
}

#[test]
fn lazily_bound() {
    let flags = [LEAN, &["-Wl,-z,lazy"]].concat();
    let tally = step_through(&c("steps.c", "steps-lazy", &flags), 60_000);
    assert!(tally.steps > 10_000, "{tally:?}");
    // The resolver of lazy binding addresses its frame by rbx, which rows do not know.
    assert!(tally.unsupported * 2 < tally.steps, "{tally:?}");
}

#[test]
fn bound_at_start() {
    let flags = [LEAN, &["-Wl,-z,now"]].concat();
    let tally = step_through(&c("steps.c", "steps-now", &flags), 60_000);
    assert!(tally.steps > 5_000, "{tally:?}");
    // gcc addresses a frame that it is about to realign by r10, which rows do not know.
    assert!(tally.unsupported * 100 < tally.steps, "{tally:?}");
}

#[test]
fn static_glibc() {
    let flags = [LEAN, &["-static"]].concat();
    let tally = step_through(&c("steps.c", "steps-static", &flags), 60_000);
    assert!(tally.steps > 5_000, "{tally:?}");
    assert!(tally.unsupported * 100 < tally.steps, "{tally:?}");
}

/// Without realigned frames: in their epilogues gcc still states rbp to be saved at *(rbp) after it
/// has popped it, so that for two instructions nobody can follow its information (neither can eu-stack).
#[test]
fn with_frame_pointers() {
    let tally = step_through(
        &c(
            "steps.c",
            "steps-fp",
            &["-O1", "-fno-omit-frame-pointer", "-DNO_REALIGN"],
        ),
        60_000,
    );
    assert!(tally.steps > 5_000, "{tally:?}");
}

/// No `.eh_frame` for anything but libgcc: the rows are derived from the instructions. (Without
/// realigned frames, which are not derived.)
#[test]
fn musl_without_call_frame_information() {
    if !has("musl-gcc") {
        eprintln!("musl-gcc is not installed, left out");
        return;
    }
    let flags = [
        LEAN,
        &["-static", "-fno-asynchronous-unwind-tables", "-DNO_REALIGN"],
    ]
    .concat();
    let program = compile("musl-gcc", "steps.c", "steps-musl", &flags);
    let tally = step_through(&program, 60_000);
    assert!(tally.steps > 5_000, "{tally:?}");
    let stripped = program.with_extension("stripped");
    let status = Command::new("strip")
        .arg("-o")
        .args([&stripped, &program])
        .status()
        .expect("strip");
    assert!(status.success());
    let tally = step_through_stripped(&stripped, &program, 60_000);
    assert!(tally.steps > 5_000, "{tally:?}");
}
