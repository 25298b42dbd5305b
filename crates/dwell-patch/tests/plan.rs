//! Plans for real files, next to what another disassembler says of them.
use dwell_patch::plan::{self, Image, Place, Request, Window};
use iced_x86::{Decoder, DecoderOptions, OpKind, Register};
use std::process::Command;

fn libc() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let line = maps
        .lines()
        .find(|l| l.contains("libc.so"))
        .expect("this test uses libc");
    line[line.find('/').expect("a path")..].to_owned()
}

fn plan_all(image: &Image<'_>, place: Place) -> (usize, plan::Plan) {
    let mut functions: Vec<u64> = image.symbols().map(|s| s.address).collect();
    functions.sort_unstable();
    functions.dedup();
    let requests: Vec<Request> = functions
        .into_iter()
        .map(|function| Request { function, place })
        .collect();
    (requests.len(), plan::plan(image, &requests))
}

/// Where direct jumps and calls go, according to objdump.
fn branch_targets(path: &str) -> Vec<u64> {
    let output = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn", path])
        .output();
    let text = String::from_utf8(output.expect("objdump runs").stdout).expect("text");
    let targets = text.lines().filter_map(|line| {
        let instruction = line.split_once(":\t")?.1;
        let (mnemonic, operands) = instruction.split_once(char::is_whitespace)?;
        let is_branch = mnemonic.starts_with('j') || mnemonic == "call" || mnemonic == "bnd";
        let target = operands.split_whitespace().next()?;
        is_branch.then(|| u64::from_str_radix(target, 16).ok())?
    });
    targets.collect()
}

#[test]
fn no_branch_leads_into_a_window() {
    let path = libc();
    let data = std::fs::read(&path).expect("libc");
    let image = Image::parse(&data).expect("an ELF file");
    let targets = branch_targets(&path);
    assert!(targets.len() > 10_000, "{} branches", targets.len());
    for place in [Place::Entry, Place::Returns, Place::Rets] {
        let (wanted, plan) = plan_all(&image, place);
        let share = 1.0 - plan.refused.len() as f64 / wanted as f64;
        assert!(share > 0.9, "{place:?}: only {share:.3} can be patched");
        let ends = plan.windows.iter().map(|w| w.inside().end);
        let starts = plan.windows.iter().skip(1).map(Window::start);
        assert!(
            ends.zip(starts).all(|(end, next)| end <= next),
            "windows overlap"
        );
        for target in &targets {
            let index = plan.windows.partition_point(|w| w.start() <= *target);
            let window = index.checked_sub(1).map(|i| &plan.windows[i]);
            let enters = window.is_some_and(|w| w.inside().contains(target));
            assert!(!enters, "{target:#x} lies in a window for {place:?}");
        }
    }
}

// A `ret` whose jump also needs the padding behind it, inside of one function.
std::arch::global_asm!(
    ".section .text.padded_return, \"axR\"",
    ".p2align 6",
    ".globl padded_return",
    ".type padded_return, @function",
    "padded_return: ret",
    "nop",
    "nop",
    "nop",
    "nop",
    "nop",
    "ret",
    ".size padded_return, . - padded_return",
    ".text",
);

#[test]
fn padding_that_a_jump_takes_is_not_taken_twice() {
    let program = std::fs::read("/proc/self/exe").expect("this program");
    let image = Image::parse(&program).expect("an ELF file");
    let mut symbols = image.symbols();
    let padded = symbols.find(|s| s.name == b"padded_return").expect("known");
    let request = |place| Request {
        function: padded.address,
        place,
    };
    let places = (1..5).map(Place::Offset).chain([Place::Returns]);
    let requests: Vec<Request> = places.map(request).collect();
    let plan = plan::plan(&image, &requests);
    assert!(!plan.refused.is_empty(), "there is room for all of them");
    for pair in plan.windows.windows(2) {
        assert!(
            pair[0].inside().end <= pair[1].start(),
            "{:x?}",
            plan.windows
        );
    }
}

/// glibc's `pthread_mutex_lock` leaves most kinds of mutexes to a function without a name.
#[test]
fn parts_are_where_a_call_may_return() {
    let data = std::fs::read(libc()).expect("libc");
    let image = Image::parse(&data).expect("an ELF file");
    let lock = image.symbols().find(|s| s.name == b"pthread_mutex_lock");
    let lock = lock.expect("libc has mutexes").address;
    let parts = plan::parts(&image, lock);
    assert!(parts.contains(&lock) && parts.len() > 1, "{parts:x?}");
    let named: Vec<u64> = image.symbols().map(|s| s.address).collect();
    assert!(parts.iter().any(|p| !named.contains(p)), "{parts:x?}");
    // Each part by itself leads to no more than these.
    for &part in &parts {
        let beyond = plan::parts(&image, part);
        assert!(beyond.iter().all(|p| parts.contains(p)), "{part:#x}");
    }
}

#[test]
fn the_agent_uses_general_registers_only() {
    let decoder = Decoder::with_ip(64, dwell_agent::CODE, 0, DecoderOptions::NONE);
    let mut count = 0;
    for instruction in decoder {
        count += 1;
        let registers = (0..instruction.op_count())
            .filter(|&op| instruction.op_kind(op) == OpKind::Register)
            .map(|op| instruction.op_register(op));
        for register in registers {
            assert!(
                register == Register::None || register.is_gpr(),
                "{register:?} is used"
            );
        }
    }
    assert!(count > 5, "{count} instructions");
}
