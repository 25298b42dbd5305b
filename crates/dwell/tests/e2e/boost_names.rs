//! Names in merged programs: gdb, perf and dwell name at least 98 % of what they name in the stock program. Needs root.

use crate::shared::{Scratch, bare_dwell, installed};
use dwell_booster::Origin;
use dwell_elf::ElfFile;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What is to be named of what is named in stock.
const SHARE: f64 = 0.98;
/// Addresses that gdb is asked for, of each module.
const ADDRESSES: u64 = 400;
/// A loop of bash with its own functions, the C library's and system calls.
const LOOP: &str = "for ((i = 0; i < 200000; i++)); do x=${i%5}; [[ $x == 7 ]]; done; \
    for ((i = 0; i < 300; i++)); do echo $i > /dev/null; read -r y < /proc/self/stat; done";
/// Functions that call each other down to a system call.
const DEPTH: &str = "f() { local a; a=(1 2); g; }; g() { eval 'echo hi'; }; f";

fn run(command: &mut Command) -> Output {
    // Under variables that name other libraries, as cargo's, the stock program runs.
    let output = command.env_remove("LD_LIBRARY_PATH").output();
    let output = output.unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stock() -> PathBuf {
    fs::canonicalize("/bin/bash").expect("bash")
}

/// bash with all its libraries, under its own name; none with a C library that it cannot be merged with.
fn merged(scratch: &Scratch, level: &str) -> Option<PathBuf> {
    let to = scratch.join("bash");
    let mut command = bare_dwell();
    command.args(["boost", "build", "/bin/bash", "--mode", "static", "-o"]);
    let output = command.arg(&to).args(["--level", level]).output();
    let output = output.expect("dwell runs");
    if output.status.success() {
        return Some(to);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot be merged"), "{said}");
    println!("{said}");
    None
}

/// Stated addresses all over a file's code.
fn addresses(path: &str) -> Vec<u64> {
    let bytes = fs::read(path).expect("a module");
    let file = ElfFile::parse(&bytes).expect("an ELF file");
    let code = file.section(".text").expect("code");
    let step = code.size() / ADDRESSES;
    (0..ADDRESSES)
        .map(|i| code.stated_address() + i * step + i % 13)
        .collect()
}

/// What gdb says: by the line of the address (distance and name), and the addresses of names.
#[derive(Default)]
struct Said {
    at: BTreeMap<usize, (u64, String)>,
    is: BTreeMap<String, u64>,
}

fn gdb(program: &Path, scratch: &Scratch, lines: &[String], names: &BTreeSet<&str>) -> Said {
    fs::write(scratch.join("addresses"), lines.concat()).expect("written");
    let names: Vec<&str> = names.iter().copied().collect();
    fs::write(scratch.join("names"), names.join("\n")).expect("written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/boost_support/names.py");
    let mut command = Command::new("gdb");
    command
        .args(["-nx", "-batch"])
        .args(["-ex", "set startup-with-shell off"])
        .args(["-ex", "set debuginfod enabled off"])
        .args(["-ex", "catch syscall exit_group", "-ex", "run"])
        .args(["-ex", &format!("source {}", script.display())])
        .args(["-ex", "kill", "--args"])
        .arg(program)
        .args(["-c", ":"])
        .env("ADDRESSES", scratch.join("addresses"))
        .env("NAMES", scratch.join("names"));
    let output = text(&run(&mut command));
    let mut said = Said::default();
    for line in output.lines() {
        let mut words = line.splitn(4, ' ');
        match [words.next(), words.next(), words.next(), words.next()] {
            [Some("at"), Some(line), Some(distance), Some(name)] => {
                let distance = distance.parse().expect("a number");
                let line = line.parse().expect("a number");
                said.at.insert(line, (distance, name.to_owned()));
            }
            [Some("is"), Some(name), Some(address), None] => {
                said.is
                    .insert(name.to_owned(), address.parse().expect("a number"));
            }
            _ => {}
        }
    }
    said
}

/// Addresses everywhere in bash and its libraries have names in both, and names have addresses; a function's begin is the
/// same, also where one of its other names is told.
#[test]
#[ignore = "needs root"]
fn gdb_names_as_much_as_in_stock() {
    if !installed("gdb") {
        return;
    }
    let scratch = Scratch::new();
    for level in ["1", "3"] {
        let Some(merged) = merged(&scratch, level) else {
            return;
        };
        let origin = Origin::of(&fs::read(&merged).expect("merged")).expect("a note");
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for module in &origin.modules {
            for stated in addresses(&module.path) {
                old.push(format!("{}\t{stated}\n", module.path));
                let image = module.base + stated;
                new.push(format!("{}\t{image}\n", merged.display()));
            }
        }
        let before = gdb(&stock(), &scratch, &old, &BTreeSet::new());
        let names = before.at.values().map(|(_, name)| name.as_str());
        let names = names.filter(|n| !n.contains(['\'', ' '])).collect();
        let after = gdb(&merged, &scratch, &new, &names);
        let same = before
            .at
            .iter()
            .filter(|(line, (distance, _))| after.at.get(line).is_some_and(|n| n.0 == *distance));
        let (same, all) = (same.count(), before.at.len());
        let found = names.iter().filter(|n| after.is.contains_key(**n)).count();
        println!(
            "level {level}: {same} of {all} addresses, {found} of {} names",
            names.len()
        );
        assert!(all > 200 && names.len() > 100, "{all}, {}", names.len());
        assert!(same as f64 >= SHARE * all as f64, "{same} of {all}");
        assert!(found as f64 >= SHARE * names.len() as f64, "{found}");
    }
}

/// A backtrace from a system call through all of the merged file names the same functions.
#[test]
#[ignore = "needs root"]
fn gdb_walks_as_far_as_in_stock() {
    if !installed("gdb") {
        return;
    }
    let scratch = Scratch::new();
    let Some(merged) = merged(&scratch, "3") else {
        return;
    };
    let backtrace = |program: &Path| -> Vec<String> {
        let mut command = Command::new("gdb");
        command
            .args(["-nx", "-batch", "-ex", "set debuginfod enabled off"])
            .args(["-ex", "catch syscall write", "-ex", "run"])
            .args(["-ex", "bt", "-ex", "kill", "--args"])
            .arg(program)
            .args(["-c", DEPTH]);
        let output = text(&run(&mut command));
        let frames = output.lines().filter(|l| l.starts_with('#'));
        let name = |frame: &str| {
            let words = frame.split_once(" in ").map_or(frame, |(_, rest)| rest);
            let words = words.trim_start_matches(|c: char| c == '#' || c.is_ascii_digit());
            words.split_whitespace().next().unwrap_or("").to_owned()
        };
        frames.map(name).collect()
    };
    let (old, new) = (backtrace(&stock()), backtrace(&merged));
    println!("{old:?}\n{new:?}");
    assert!(old.len() > 10 && old.contains(&"main".to_owned()));
    // Of a function with several names debug information may tell another one.
    let unnamed = |names: &[String]| -> Vec<bool> { names.iter().map(|n| n == "??").collect() };
    assert_eq!(unnamed(&old), unnamed(&new));
    let from = |names: &[String]| names.iter().position(|n| n.contains("execute_command"));
    let bash = from(&old).expect("a frame of bash");
    assert_eq!(old[bash..], new[bash..]);
}

/// Of the samples in the program and its libraries, the share that `perf script` names.
#[test]
#[ignore = "needs root"]
fn perf_names_as_much_as_in_stock() {
    if !installed("perf") {
        return;
    }
    let scratch = Scratch::new();
    let named = |program: &Path| {
        let data = scratch.file("perf.data");
        let mut command = Command::new("perf");
        command.args([
            "record",
            "-q",
            "-e",
            "cpu-clock:u",
            "-F",
            "2000",
            "-o",
            &data,
            "--",
        ]);
        run(command.arg(program).args(["-c", LOOP]));
        let mut command = Command::new("perf");
        let script = text(&run(command.args(["script", "-i", &data, "-F", "ip,sym"])));
        let all: Vec<&str> = script.lines().filter(|l| !l.trim().is_empty()).collect();
        let named = all.iter().filter(|l| !l.contains("[unknown]")).count();
        assert!(all.len() > 100, "{} samples", all.len());
        named as f64 / all.len() as f64
    };
    for level in ["1", "3"] {
        let Some(merged) = merged(&scratch, level) else {
            return;
        };
        // A thousand samples tell a share to some percent: one of five pairs is to do.
        let enough = (0..5).any(|_| {
            let (old, new) = (named(&stock()), named(&merged));
            println!("level {level}: {new:.4} of the samples have a name, {old:.4} in stock");
            new >= SHARE * old
        });
        assert!(enough);
    }
}

/// Of all frames of all samples on a processor, the share that dwell names; and of all stacks, that of those that reach
/// their beginning.
#[test]
#[ignore = "needs root"]
fn dwell_names_as_much_as_in_stock() {
    let scratch = Scratch::new();
    let named = |program: &Path| {
        let recording = scratch.join("r.dwell");
        let _ = fs::remove_dir_all(&recording).or_else(|_| fs::remove_file(&recording));
        let mut command = bare_dwell();
        command
            .args(["record", "-q", "-F", "999", "-o"])
            .arg(&recording);
        run(command.arg("--").arg(program).args(["-c", LOOP]));
        let mut command = bare_dwell();
        let output = run(command.args(["export", "--to", "folded"]).arg(&recording));
        let (mut frames, mut unnamed, mut time, mut whole) = (0, 0, 0, 0);
        for line in text(&output).lines() {
            let (stack, ns) = line.rsplit_once(' ').expect("a stack and its time");
            let ns: u64 = ns.parse().expect("ns");
            let all: Vec<&str> = stack.split(';').skip(2).collect();
            frames += ns * all.len() as u64;
            unnamed += ns * all.iter().filter(|f| f.contains("+0x")).count() as u64;
            time += ns;
            whole += if stack.contains("[cut short") { 0 } else { ns };
        }
        assert!(time > 50_000_000, "{time} ns");
        let share = |part: u64, all: u64| part as f64 / all as f64;
        (share(frames - unnamed, frames), share(whole, time))
    };
    for level in ["1", "3"] {
        let Some(merged) = merged(&scratch, level) else {
            return;
        };
        let enough = (0..5).any(|_| {
            let (old, new) = (named(&stock()), named(&merged));
            println!(
                "level {level}: {new:?} of frames named and of stacks whole, {old:?} in stock"
            );
            new.0 >= SHARE * old.0 && new.1 >= SHARE * old.1
        });
        assert!(enough);
    }
}
