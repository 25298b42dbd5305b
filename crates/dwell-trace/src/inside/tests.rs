//! Native code against the interpreter: the scripts that the engines are compared with, each as one program, fired with
//! the same registers. Needs no root.
use super::Made;
use super::local::Local;
use super::memory::{Memory, Shape};
use super::records::Reader;
use super::sums;
use dwell_abi::program::interpret;
use dwell_abi::program::model::{Model, World};
use dwell_abi::program::operation as op;
use dwell_patch::process::Shared;
use dwell_script::aggregate::add_rows;
use dwell_script::codegen::{Generator, Limits, MEMORY, Numbering, Site};
use dwell_script::schema::{AggregationId, Row};
use dwell_script::typed::Script;
use dwell_script::{Bare, Input, Macros, compile};
use memmap2::MmapMut;

const SCRIPTS: &[&str] = &[
    include_str!("../../tests/parity/operators.d"),
    include_str!("../../tests/parity/places.d"),
    include_str!("../../tests/parity/memory.d"),
    include_str!("../../tests/parity/text.d"),
    include_str!("../../tests/parity/variables.d"),
    include_str!("../../tests/parity/aggregations.d"),
];
/// What is not the same twice, or the interpreter has not.
const LEFT_OUT: &[&str] = &[
    "timestamp",
    "rand()",
    "execname",
    "caller",
    "cpu",
    "usym",
    "uaddr",
    "uid",
];
const RING: u32 = 1 << 20;
const STEPS: u64 = 1 << 24;
/// What a record's header says of the processor.
const CPU: std::ops::Range<usize> = 8..12;
/// Words of `pt_regs`, and which of them are arguments.
const REGISTERS: usize = 32;
const ARGUMENTS: [usize; 6] = [14, 13, 12, 11, 9, 8];
const TEXTS: [&[u8]; 3] = [
    b"hello\0",
    b"/usr/lib/x86_64/libc.so.6\0",
    b"one,two;three  four\0",
];

/// This process, for the interpreter.
struct Here;

impl World for Here {
    fn value(&mut self, operation: u32) -> Option<u64> {
        // SAFETY: asks for a number.
        let tid = unsafe { libc::gettid() } as u64;
        match operation {
            op::IDS => Some(u64::from(std::process::id()) << 32 | tid),
            op::THREAD | op::PROCESSOR => Some(1),
            _ => None,
        }
    }

    fn read_user(&mut self, address: u64, into: &mut [u8]) -> usize {
        let ours = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        let theirs = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: into.len(),
        };
        // SAFETY: writes to the slice only; what cannot be read is an error.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &ours, 1, &theirs, 1, 0) };
        read.max(0) as usize
    }

    fn stack(&mut self, _user: bool) -> Vec<u64> {
        Vec::new()
    }

    fn name(&mut self) -> [u8; 16] {
        [0; 16]
    }
}

/// The registers of each firing.
fn firings() -> Vec<[u64; REGISTERS]> {
    let numbers: [i64; 14] = [
        0,
        1,
        -1,
        2,
        7,
        100,
        127,
        -128,
        255,
        32767,
        65535,
        i64::MAX,
        i64::MIN,
        0x8000_0000,
    ];
    let texts = TEXTS.iter().map(|text| text.as_ptr() as i64);
    let firing = |(n, first): (usize, i64)| {
        let mut registers = [0x1111 * n as u64; REGISTERS];
        let others = [first, numbers[n % 14], n as i64, !first, 3];
        let all = std::iter::once(first).chain(others);
        for (at, value) in ARGUMENTS.into_iter().zip(all) {
            registers[at] = value as u64;
        }
        registers
    };
    numbers
        .into_iter()
        .chain(texts)
        .enumerate()
        .map(firing)
        .collect()
}

/// What a script came to.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    records: Vec<Vec<u8>>,
    rows: Vec<Vec<Row>>,
}

fn outcome(
    script: &Script,
    generator: &Generator<'_>,
    mut records: Vec<Vec<u8>>,
    entries: impl Fn(u32) -> Vec<(Vec<u8>, Vec<u8>)>,
) -> Outcome {
    for record in &mut records {
        record[CPU].fill(0);
    }
    let rows = |id: u32| {
        let aggregation = AggregationId(id);
        let store = generator.sums_store(aggregation);
        let parts = store.into_iter().flat_map(&entries);
        let parts = parts.filter_map(|(key, value)| generator.row(aggregation, &key, &value));
        let function = generator.aggregations()[id as usize].function;
        let mut rows = add_rows(function, parts.collect::<Vec<Row>>());
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        rows
    };
    let rows = (0..script.aggregations.len() as u32).map(rows).collect();
    Outcome { records, rows }
}

/// One program of all clauses; none where the script needs what is not here.
fn compiled(text: &str) -> Option<Script> {
    let text = text.replace("P:", "pid$target:parity:");
    let input = Input {
        source: &text,
        macros: Macros {
            arguments: vec!["test"],
            variables: vec![("target", std::process::id().into())],
        },
        ..Input::default()
    };
    compile(&input, &Bare).ok().map(|compiled| compiled.0)
}

fn interpreted(script: &Script, generator: &Generator<'_>, made: &Made) -> Outcome {
    let mut model = Model::new(&generator.stores(), Here);
    let memory = model.memory_of(MEMORY).expect("the first store is memory");
    memory.copy_from_slice(generator.memory());
    for registers in firings() {
        let bytes = registers.iter().flat_map(|word| word.to_ne_bytes());
        let context = model.add_memory(bytes.collect());
        let result = interpret::run(&made.program.code, &mut model, context, STEPS);
        assert!(result.is_ok(), "{result:?}");
    }
    let records = model.take_records();
    let entries = |store| {
        let all = model.entries(store);
        all.map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    };
    outcome(script, generator, records, entries)
}

fn native(script: &Script, generator: &Generator<'_>, made: Made) -> Outcome {
    let shape = Shape::new(&generator.stores(), RING);
    let map = MmapMut::map_anon(shape.len as usize).expect("memory");
    let memory = Memory::new(Shared::Mapped(map));
    shape.fill(&memory, std::process::id());
    memory.write(shape.memory(MEMORY), generator.memory());
    let local = Local::new(&[made], &shape, &memory).expect("it is translated");
    for registers in firings() {
        local.run_with(Site::Begin, &registers);
    }
    let mut records = Vec::new();
    Reader::default().drain(&memory, &mut |record| records.push(record.to_vec()));
    let entries = |store| {
        let mut all = Vec::new();
        sums::each(&memory, &shape, store, &mut |key, value| {
            all.push((key.to_vec(), value.to_vec()));
        });
        all
    };
    outcome(script, generator, records, entries)
}

#[test]
fn native_code_does_what_the_interpreter_says() {
    let paragraphs = SCRIPTS.iter().flat_map(|text| text.split("\n\n"));
    let wanted = paragraphs.filter(|text| !LEFT_OUT.iter().any(|word| text.contains(word)));
    let (mut tried, mut records) = (0, 0);
    for text in wanted {
        let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with("# ")).collect();
        let Some(script) = compiled(&lines.join("\n")) else {
            continue;
        };
        let mut generator = Generator::new(&script, &Limits::default());
        let clauses = 0..script.clauses.len();
        let of_error = |n: &usize| &*script.clauses[*n].probe.name == "ERROR";
        let (errors, clauses): (Vec<usize>, Vec<usize>) = clauses.partition(of_error);
        generator.on_errors(3, &errors);
        let program = generator.program(Site::Entry, &Numbering::One(7), &clauses);
        let Ok(program) = program else { continue };
        // What has no place in the target runs here.
        let made = Made {
            site: Site::Begin,
            program,
            members: Vec::new(),
        };
        let expected = interpreted(&script, &generator, &made);
        let found = native(&script, &generator, made);
        assert!(found == expected, "{text}\n{found:?}\n{expected:?}");
        tried += 1;
        records += found.records.len();
    }
    assert!(tried >= 220, "{tried} scripts");
    assert!(records > 1000, "{records} records");
}
