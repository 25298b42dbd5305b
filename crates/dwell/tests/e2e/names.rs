//! Names of frames, end to end: functions, inlined functions, files and lines against `addr2line`,
//! kernel symbols against kallsyms, code without a file, files that are gone, other namespaces.

use crate::stacks_support::*;
use dwell_recording::rows::FrameRow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

// ---- functions, inlined functions, files and lines ----

/// One function of an address, innermost first: name, file name without folder, line.
type Place = (String, Option<String>, Option<u32>);

/// What `addr2line` says of stated addresses of a file.
fn addr2line(file: &Path, addresses: &[u64]) -> Vec<Vec<Place>> {
    let mut command = Command::new("addr2line");
    command.args(["-a", "-f", "-i", "-C", "-e"]).arg(file);
    command.args(addresses.iter().map(|a| format!("{a:#x}")));
    let output = command
        .output()
        .expect("addr2line (package binutils) is needed for this test");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut places: Vec<Vec<Place>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            places.push(Vec::new());
            continue;
        }
        let place = lines.next().unwrap_or_default();
        // FILE:LINE, perhaps with " (discriminator N)".
        let place = place.split(" (").next().unwrap_or(place);
        let (file, number) = place.rsplit_once(':').unwrap_or((place, "?"));
        let file = (file != "??").then(|| base_name(file));
        let number = number.parse().ok().filter(|n| *n != 0);
        places
            .last_mut()
            .expect("an address first")
            .push((line.into(), file, number));
    }
    places
}

fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).into()
}

/// Frames of a module with all their names, by address.
fn chains(recorded: &Recorded, module: &str) -> BTreeMap<u64, Vec<Place>> {
    let index = Index::of(&recorded.tables);
    let frames = recorded.tables.frames.iter();
    frames
        .filter(|f| f.module == module)
        .map(|f| {
            let chain = index.symbols(f.frame).iter().map(|s| {
                let file = s.file.as_deref().map(base_name);
                (s.function.clone(), file, s.line)
            });
            (f.address, chain.collect())
        })
        .collect()
}

/// Whether `addr2line` and we name the same function. It demangles with the arguments of templates
/// and hashes that we leave out, and knows only the linkage name of some.
fn same_name(ours: &str, theirs: &str) -> bool {
    let bare = |name: &str| {
        name.split(['(', '<', '.', ' '])
            .next()
            .unwrap_or(name)
            .to_owned()
    };
    ours == theirs || bare(ours) == bare(theirs) || ours.contains(&bare(theirs))
}

/// Whether elfutils tells the same files and lines: binutils mistakes the numbers of files in some tables of DWARF 5.
fn elfutils_agrees(file: &Path, address: u64, ours: &[Place]) -> bool {
    let mut command = Command::new("eu-addr2line");
    command.arg("-ie").arg(file).arg(format!("{address:#x}"));
    let output = command
        .output()
        .expect("eu-addr2line (package elfutils) is needed for this test");
    let text = String::from_utf8_lossy(&output.stdout);
    // FILE:LINE:COLUMN
    let place = |line: &str| {
        let mut parts = line.split(':');
        let file = parts.next().map(base_name);
        (file, parts.next().and_then(|n| n.parse().ok()))
    };
    let theirs = text.lines().map(place);
    theirs.eq(ours.iter().map(|(_, file, line)| (file.clone(), *line)))
}

/// Compares every frame of a program's own code with `addr2line` on its debug file.
fn check_lines(name: &str, recorded: &Recorded, rust: bool) {
    let module = program(name);
    let debug = programs().join(".debug").join(format!("{name}.debug"));
    let ours = chains(recorded, &module);
    let addresses: Vec<u64> = ours.keys().copied().collect();
    let theirs = addr2line(&debug, &addresses);
    let (mut same, mut total, mut inlined) = (0, 0, 0);
    for ((address, ours), theirs) in ours.iter().zip(&theirs) {
        // Code of the linker and of the C start-up files has no lines.
        if theirs.iter().all(|(_, file, _)| file.is_none()) {
            continue;
        }
        total += 1;
        inlined += usize::from(theirs.len() > 1);
        let same_names = ours.len() == theirs.len()
            && ours.iter().zip(theirs).enumerate().all(|(depth, (a, b))| {
                // It takes the name of the innermost function from the symbol table where that was inlined, which
                // knows no inlined ones.
                let outermost = &theirs[theirs.len() - 1].0;
                let from_symbol = theirs.len() > 1 && (b.0.ends_with(')') || b.0 == *outermost);
                rust || (depth == 0 && from_symbol) || same_name(&a.0, &b.0)
            });
        let mut lines = ours.iter().zip(theirs);
        let same_lines = lines.all(|(a, b)| a.1 == b.1 && (b.2.is_none() || a.2 == b.2));
        let equal = same_names && (same_lines || elfutils_agrees(&debug, *address, ours));
        if equal {
            same += 1;
        } else {
            eprintln!("    {name}+{address:#x}: {ours:?}, addr2line {theirs:?}");
        }
    }
    println!(
        "{name}: {same} of {total} frames as addr2line has them, {inlined} of them with inlined functions"
    );
    assert!(
        total >= 5,
        "{name}: only {total} frames with debug information"
    );
    assert!(same * 100 >= total * 98, "{name}: {same} of {total} frames");
}

#[test]
#[ignore = "needs root"]
fn functions_files_and_lines() {
    let scratch = Scratch::new();
    let dir = scratch.path().to_string_lossy().into_owned();
    let mut inlined = 0;
    for (name, args) in [
        ("mixed", &["--seconds", "3", "--dir", &dir][..]),
        ("waits", &["--duration", "2", "--dir", &dir]),
        ("chain", &["60"]),
        ("qsort", &["1"]),
        ("deep", &["exceptions", "1"]),
        ("realign", &["1"]),
    ] {
        let path = program(name);
        let recorded = launch(&[&[path.as_str()], args].concat());
        check_lines(name, &recorded, false);
        let rows = recorded.tables.symbols.iter();
        inlined += rows.filter(|s| s.inlined).count();
    }
    assert!(inlined > 0, "some functions are inlined");
}

/// Every wait function that `waits` says a thread waits in is in that thread's stacks, with its line.
#[test]
#[ignore = "needs root"]
fn wait_functions() {
    let scratch = Scratch::new();
    let truth = scratch.file("truth.json");
    let dir = scratch.path().to_string_lossy().into_owned();
    let path = program("waits");
    let recorded = launch(&[&path, "--duration", "3", "--dir", &dir, "--json", &truth]);
    let truth = std::fs::read_to_string(&truth).expect("the program's own answer");
    let truth: serde_json::Value = serde_json::from_str(&truth).expect("JSON");
    let index = Index::of(&recorded.tables);
    let mut named: HashMap<u32, BTreeSet<&str>> = HashMap::new();
    for sample in &recorded.tables.samples {
        let thread = recorded
            .tables
            .threads
            .iter()
            .find(|t| t.thread == sample.thread);
        let tid = thread.expect("the thread of a sample").tid;
        for &frame in &index.stack(sample.stack).frames {
            for symbol in index.symbols(frame) {
                if symbol.line.is_some() {
                    named.entry(tid).or_default().insert(&symbol.function);
                }
            }
        }
    }
    let (mut found, mut total) = (0, 0);
    for thread in truth["threads"].as_array().expect("threads") {
        let tid = thread["tid"].as_u64().expect("a tid") as u32;
        for site in thread["sites"].as_array().expect("sites") {
            let blocked = site["blocked_ns"]
                .as_u64()
                .or(site["wall_ns"].as_u64())
                .unwrap_or(0);
            // Ten periods: else it may by chance have no stack.
            if blocked < 100_000_000 {
                continue;
            }
            let function = site["function"].as_str().expect("a function");
            total += 1;
            match named.get(&tid).is_some_and(|n| n.contains(function)) {
                true => found += 1,
                false => eprintln!("    {}: {function} was not seen", thread["name"]),
            }
        }
    }
    println!("{found} of {total} wait functions are named, with their lines");
    assert!(total >= 10, "{truth}");
    assert_eq!(found, total);
}

// ---- demangling ----

#[test]
#[ignore = "needs root"]
fn cxx_and_rust_in_full() {
    let path = program("deep");
    let recorded = launch(&[&path, "recursion", "1"]);
    let index = Index::of(&recorded.tables);
    // The oracle: names of the linker through c++filt.
    let debug = programs().join(".debug/deep.debug");
    let symbols = Command::new("nm")
        .arg("-C")
        .arg(&debug)
        .output()
        .expect("nm");
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let known: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|l| l.splitn(3, ' ').nth(2))
        .collect();
    let mut seen = BTreeSet::new();
    for frame in recorded.tables.frames.iter().filter(|f| f.module == path) {
        if let [.., symbol] = index.symbols(frame.frame) {
            // A linker's stub is named by the function that it leads to, which to nm is undefined: `U NAME@VERSION`.
            let is_import = |name: &str| {
                let begin = format!("U {name}@");
                known.iter().any(|k| k.trim_start().starts_with(&begin))
            };
            let stub = symbol.function.strip_suffix("@plt");
            assert!(
                known.contains(symbol.function.as_str()) || stub.is_some_and(is_import),
                "{} is not in {known:?}",
                symbol.function
            );
            seen.insert(symbol.function.clone());
        }
    }
    assert!(seen.contains("descend(int)"), "{seen:?}");

    let path = program("tokio-mix");
    let recorded = launch(&[&path, "1"]);
    check_lines("tokio-mix", &recorded, true);
    let mangled: Vec<_> = recorded
        .tables
        .symbols
        .iter()
        .map(|s| s.function.as_str())
        .filter(|f| f.starts_with("_ZN") || f.starts_with("_R") || has_hash(f))
        .collect();
    assert!(mangled.is_empty(), "{mangled:?}");
    let full = |wanted: &str| recorded.tables.symbols.iter().any(|s| s.function == wanted);
    assert!(
        full("tokio_mix::compute_task::{{closure}}")
            || full("tokio_mix::compute_task::{closure#0}")
    );
}

/// Ends in `::h` and sixteen hex digits.
fn has_hash(name: &str) -> bool {
    name.rsplit_once("::h")
        .is_some_and(|(_, hash)| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

// ---- the kernel ----

#[test]
#[ignore = "needs root"]
fn kernel_symbols() {
    let scratch = Scratch::new();
    let dir = scratch.path().to_string_lossy().into_owned();
    let recorded = launch(&[&program("mixed"), "--seconds", "2", "--dir", &dir]);
    let kallsyms = Kallsyms::read();
    let index = Index::of(&recorded.tables);
    let (mut checked, mut functions) = (0, BTreeSet::new());
    for frame in recorded.tables.frames.iter().filter(|f| f.kind == "kernel") {
        let name = index.name(frame.frame);
        kallsyms.check(frame.address, &name);
        checked += 1;
        functions.insert(name);
    }
    println!("{checked} kernel frames, {} functions", functions.len());
    for wanted in ["do_syscall_64", "hrtimer_nanosleep", "futex_do_wait"] {
        assert!(
            checked > 50 && functions.contains(wanted),
            "no {wanted} in {functions:?}"
        );
    }
}

/// The kernel's functions, as it lists them after a recording.
struct Kallsyms {
    functions: BTreeMap<u64, Vec<String>>,
    /// End of the core kernel's code. Behind it are modules, and eBPF programs that come and go.
    end: u64,
}

impl Kallsyms {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/kallsyms").expect("kallsyms");
        let (mut functions, mut end): (BTreeMap<u64, Vec<String>>, _) = (BTreeMap::new(), None);
        for line in text.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            let [address, kind, name, ..] = words[..] else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).expect("an address");
            if name == "_etext" {
                end = Some(address);
            }
            if matches!(kind, "t" | "T" | "w" | "W") {
                functions.entry(address).or_default().push(name.to_owned());
            }
        }
        assert!(functions.len() > 1000, "kallsyms shows no addresses");
        let end = end.expect("_etext");
        Kallsyms { functions, end }
    }

    /// Checks the name of an address. An eBPF program that ran may be gone from the list: then the
    /// name is its own all the same, and not that of what happens to lie below.
    #[track_caller]
    fn check(&self, address: u64, name: &str) {
        let below = self.functions.range(..=address).next_back();
        let (start, names) = below.expect("a symbol below");
        let unloaded = address >= self.end && is_program(name);
        assert!(
            names.iter().any(|n| n == name) || unloaded,
            "{address:#x}: {name}, kallsyms {start:#x} {names:?}"
        );
        assert!(
            address < self.end || *start >= self.end || unloaded,
            "{address:#x}: {name} ends below"
        );
    }
}

/// `bpf_prog_` and a tag of 16 hex digits.
fn is_program(name: &str) -> bool {
    let tag = name.strip_prefix("bpf_prog_").and_then(|n| n.get(..16));
    tag.is_some_and(|tag| tag.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Clocks and interrupts meet our own programs at work too, which are gone when the names are looked
/// for: each such frame has the name that the kernel listed while they were there.
#[test]
#[ignore = "needs root"]
fn our_own_programs() {
    let waits = program("waits");
    let storm = ["--storm", "100000", "--duration", "4"];
    let options = ["-F", "9999", "--", waits.as_str()];
    let over = AtomicBool::new(false);
    let (recorded, lists) = std::thread::scope(|scope| {
        let lister = scope.spawn(|| {
            let mut lists = Vec::new();
            while !over.load(Ordering::Relaxed) {
                lists.push(Kallsyms::read());
                std::thread::sleep(Duration::from_millis(200));
            }
            lists
        });
        let recorded = record(&[&options[..], &storm].concat());
        over.store(true, Ordering::Relaxed);
        (recorded, lister.join().expect("the lists"))
    });
    let index = Index::of(&recorded.tables);
    let mut ours = BTreeSet::new();
    for frame in recorded.tables.frames.iter().filter(|f| f.kind == "kernel") {
        let (name, address) = (index.name(frame.frame), frame.address);
        // Others load programs too: each list is for itself.
        let listed = lists.iter().any(|list| {
            let below = list.functions.range(..=address).next_back();
            below.is_some_and(|(_, names)| names.contains(&name))
        });
        assert!(listed, "{address:#x}: {name}");
        ours.extend(is_program(&name).then_some(name));
    }
    println!("{ours:?}");
    assert!(!ours.is_empty(), "none was met at work");
}

// ---- code without a file ----

#[test]
#[ignore = "needs root"]
fn perf_map_of_a_jit() {
    let path = program("jit");
    let check = |recorded: &Recorded| {
        let index = Index::of(&recorded.tables);
        let mut names = BTreeSet::new();
        for frame in recorded.tables.frames.iter().filter(|f| f.kind == "jit") {
            assert_eq!(frame.module, "[anon]");
            names.insert(index.name(frame.frame));
        }
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(names, ["jitted_inner", "jitted_outer"]);
    };
    check(&launch(&[&path, "1"]));
    let running = Running::start(Command::new(&path).arg("20"));
    std::thread::sleep(Duration::from_millis(300));
    check(&attach(&[running.pid()], 1.0));
}

/// A Python with the perf trampoline: the first found that is 3.12 or newer.
fn python_with_trampoline() -> Option<String> {
    let named = std::env::var("DWELL_TEST_PYTHON").ok();
    let others = ["python3", "python3.12", "python3.13", "python3.14"].map(str::to_owned);
    let candidates = named.into_iter().chain(others);
    let mut candidates = candidates.chain(pythons_of_pyenv("3.12"));
    candidates.find(|p| python_finds(p, "getattr(sys, 'activate_stack_trampoline', None)"))
}

const PYTHON: &str = "
import time
def innermost(seconds):
    end = time.process_time() + seconds
    n = 0
    while time.process_time() < end: n += sum(range(100))
    time.sleep(seconds)
def middle(seconds): innermost(seconds)
def outermost(seconds):
    for i in range(10): middle(seconds)
outermost(0.1)
";

#[test]
#[ignore = "needs root"]
fn python_frames() {
    let Some(python) = python_with_trampoline() else {
        eprintln!("no python3 of 3.12 or newer (name one in DWELL_TEST_PYTHON): left out");
        return;
    };
    let scratch = Scratch::new();
    let script = scratch.file("work.py");
    std::fs::write(&script, PYTHON).expect("write the script");
    let recorded = launch(&[&python, "-X", "perf", &script]);
    let index = Index::of(&recorded.tables);
    let mut states: BTreeMap<String, u64> = BTreeMap::new();
    for sample in &recorded.tables.samples {
        let names = index.user_names(sample.stack);
        let bare: Vec<String> = names.iter().map(|n| python_function(n)).collect();
        // Those that are cut short count in check_complete, below.
        let complete = index.stack(sample.stack).end == "complete";
        if complete && bare.iter().any(|n| n == "innermost") {
            assert!(
                in_order(&bare, &["outermost", "middle", "innermost"]),
                "{names:?}"
            );
            assert!(names[0] == "_start", "{names:?}");
            // The trampoline has a function's name, and so has what it is the trampoline of.
            let once = bare.iter().filter(|n| *n == "innermost").count() == 1;
            assert!(once, "{names:?}");
            *states.entry(sample.state.clone()).or_default() += sample.weight_ns;
        }
    }
    println!("Python frames: {states:?}");
    for state in ["running", "blocked"] {
        let seconds = *states.get(state).unwrap_or(&0) as f64 / 1e9;
        assert!(
            seconds > 0.4,
            "{state}: {seconds} s in Python's innermost function"
        );
    }
    check_complete("python3 -X perf", &recorded);
}

/// `py::NAME:FILE` or the name alone.
fn python_function(name: &str) -> String {
    let name = name.strip_prefix("py::").unwrap_or(name);
    name.split([':', ' ']).next().unwrap_or(name).into()
}

// ---- files that are gone, or others by now ----

/// A program of ours that keeps its symbols, with the compiler of the machine.
fn unstripped(name: &str, scratch: &Scratch) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let out = scratch.file(name);
    let status = Command::new("cc")
        .args([
            "-O2",
            "-g",
            "-fomit-frame-pointer",
            "-Wl,--build-id",
            "-pthread",
            "-o",
            &out,
        ])
        .arg(source.join(format!("{name}.c")))
        .status();
    assert!(status.expect("start cc").success());
    out
}

/// What is known of `deleted` in a recording.
fn check_deleted(what: &str, recorded: &Recorded) {
    let index = Index::of(&recorded.tables);
    let (mut named, mut total) = (0, 0);
    for (stack, weight) in index.weights() {
        let row = index.stack(stack);
        let ours = |&f: &u32| base_name(&index.frame(f).module).starts_with("deleted-");
        if row.end != "complete" || !row.frames.iter().any(ours) {
            continue;
        }
        total += weight;
        let names = index.user_names(stack);
        let mut has_lines = row
            .frames
            .iter()
            .filter(|f| ours(f))
            .flat_map(|f| index.symbols(*f));
        if in_order(&names, &["_start", "main", "work_after_deletion"])
            && has_lines.any(|s| s.file.as_deref().is_some_and(|f| f.ends_with("deleted.c")))
        {
            named += weight;
        } else {
            eprintln!("    {what}: {names:?}");
        }
        // Never a name of the program that took its place (/bin/true).
        for frame in row.frames.iter().filter(|f| ours(f)) {
            let name = index.name(*frame);
            let known = [
                "_start",
                "main",
                "work_after_deletion",
                "work_",
                "rest_",
                "copy_file",
                "take_away",
                "clock_gettime@plt",
            ];
            let plausible = known.iter().any(|k| name.starts_with(k)) || name.contains('+');
            let by_source = index.symbols(*frame).iter().all(|s| s.file.is_some());
            assert!(plausible || by_source, "{what}: {name}");
        }
    }
    println!(
        "{what}: {:.3} of {:.3} s named",
        named as f64 / 1e9,
        total as f64 / 1e9
    );
    assert!(total > 700_000_000, "{what}: {total} ns");
    // What remains is the copying before the file is gone.
    assert!(named * 100 >= total * 90, "{what}: {named} of {total} ns");
}

#[test]
#[ignore = "needs root"]
fn deleted_and_replaced_binaries() {
    let scratch = Scratch::new();
    let path = unstripped("deleted", &scratch);
    let dir = scratch.path().to_string_lossy().into_owned();
    for mode in ["delete", "replace"] {
        let recorded = launch(&[&path, mode, "1.5", &dir]);
        check_deleted(mode, &recorded);
        let running = Running::start(Command::new(&path).args([mode, "20", &dir]));
        std::thread::sleep(Duration::from_millis(500));
        let recorded = attach(&[running.pid()], 1.2);
        check_deleted(&format!("{mode} (attached)"), &recorded);
    }
}

// ---- code that was copied from its file into memory ----

/// Share of a recording's time that has the functions of `copied` by name, and is of no code without a file.
fn check_copied(what: &str, recorded: &Recorded, module: &str) {
    let index = Index::of(&recorded.tables);
    let (mut named, mut total) = (0, 0);
    for (stack, weight) in index.weights() {
        let row = index.stack(stack);
        if row.frames.is_empty() {
            continue;
        }
        total += weight;
        let names = index.user_names(stack);
        let is_ours = |f: &u32| index.frame(*f).module == module;
        if in_order(&names, &["_start", "main", "work_in_copy"]) && row.frames.iter().any(is_ours) {
            named += weight;
        } else {
            eprintln!("    {what}: {weight} ns {names:?}, {}", row.end);
        }
    }
    assert!(total > 700_000_000, "{what}: {total} ns");
    // What remains is the start.
    assert!(named * 100 >= total * 95, "{what}: {named} of {total} ns");
}

#[test]
#[ignore = "needs root"]
fn code_in_memory_has_the_names_of_the_file_it_was_copied_from() {
    let scratch = Scratch::new();
    let path = unstripped("copied", &scratch);
    for (mode, module) in [("anonymous", path.as_str()), ("memfd", "/memfd:copied")] {
        let recorded = launch(&[&path, mode, "1.5"]);
        check_copied(mode, &recorded, module);
        let running = Running::start(Command::new(&path).args([mode, "20"]));
        std::thread::sleep(Duration::from_millis(500));
        let recorded = attach(&[running.pid()], 1.2);
        check_copied(&format!("{mode} (attached)"), &recorded, module);
    }
}

/// Nearly all of a recording's time is of stacks like this.
fn nearly_all(recorded: &Recorded, is_like_this: impl Fn(&[&FrameRow]) -> bool) {
    let index = Index::of(&recorded.tables);
    let (mut like_this, mut total) = (0, 0);
    for (stack, weight) in index.weights() {
        let frames = index.stack(stack).frames.iter();
        let frames: Vec<&FrameRow> = frames.map(|f| index.frame(*f)).collect();
        total += weight;
        like_this += if is_like_this(&frames) { weight } else { 0 };
    }
    assert!(like_this * 100 >= total * 95, "{like_this} of {total} ns");
}

/// A library is unmapped without a word, and code that is made at run time may come to lie there.
#[test]
#[ignore = "needs root"]
fn code_where_a_library_was_has_no_name_of_it() {
    let recorded = launch(&[&program("copied"), "stale", "1.5"]);
    nearly_all(&recorded, |frames| {
        frames.first().is_some_and(|f| f.module == "[anon]")
    });
}

/// The core of a Lisp, say: its offsets stand for addresses.
#[test]
#[ignore = "needs root"]
fn code_of_a_file_that_is_no_elf_has_that_files_name() {
    let scratch = Scratch::new();
    let dir = scratch.path().to_string_lossy().into_owned();
    let recorded = launch(&[&program("copied"), "plain", "1.5", &dir]);
    nearly_all(&recorded, |frames| {
        frames
            .iter()
            .any(|f| base_name(&f.module) == "copied.code" && (0x1010..0x1017).contains(&f.address))
    });
}

// ---- other namespaces ----

/// A folder that stays in sight when /tmp is another one.
fn room_for_namespaces() -> Scratch {
    Scratch::within(Path::new("/var/tmp"))
}

/// A shell in its own mount and PID namespaces that makes a program at a path that is another program
/// outside, and becomes it.
fn namespaced(scratch: &Scratch, source: &str, name: &str, args: &str) -> Vec<String> {
    let room = scratch.path().join("room");
    let _ = std::fs::create_dir(&room);
    // Outside, the same path is another program.
    std::fs::copy("/bin/true", room.join(name)).expect("a decoy");
    let room = room.display();
    let script = format!(
        "mount -t tmpfs none {room} && cp {source} {room}/{name} && mkdir {room}/tmp && \
         cp -r $(dirname {source})/.debug {room}/ 2>/dev/null; \
         mount --bind {room}/tmp /tmp && exec {room}/{name} {args}"
    );
    let words = [
        "unshare",
        "-m",
        "-p",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "sh",
        "-c",
        &script,
    ];
    words.map(str::to_owned).to_vec()
}

/// The pid, here, of the program inside the namespaces.
fn inner_pid(outer: u32, name: &str) -> u32 {
    let mut found = 0;
    until("the program in its namespaces", || {
        let children = format!("/proc/{outer}/task/{outer}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let child = children
            .split_whitespace()
            .next()
            .and_then(|p| p.parse().ok());
        found = child.unwrap_or(0);
        let comm = std::fs::read_to_string(format!("/proc/{found}/comm")).unwrap_or_default();
        comm.trim() == name
    });
    found
}

fn check_inside(what: &str, recorded: &Recorded, name: &str, wanted: &[&str], seconds: f64) {
    let index = Index::of(&recorded.tables);
    let process = recorded.tables.processes.iter().find(|p| p.name == name);
    let process = process.unwrap_or_else(|| panic!("{what}: no process {name}"));
    assert_eq!(process.ns_pid, 1, "{what}: the first in its namespace");
    assert!(process.pid > 1);
    let mut named = 0;
    for (stack, weight) in index.weights() {
        if in_order(&index.user_names(stack), wanted) {
            named += weight;
        }
    }
    println!("{what}: {:.3} s below {wanted:?}", named as f64 / 1e9);
    if named as f64 / 1e9 < seconds {
        for (stack, weight) in index.weights().into_iter().take(12) {
            eprintln!("    {weight} {:?}", index.user_names(stack));
        }
        panic!("{what}: only {named} ns below {wanted:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn other_mount_and_pid_namespaces() {
    let scratch = room_for_namespaces();
    // With its symbols in the file; and with the debug information beside it.
    let source = unstripped("qsort", &scratch);
    let stripped = program("qsort");
    let wanted = ["_start", "main", "sort_numbers", "compare_numbers"];
    for (what, source) in [
        ("symbols in the file", &source),
        ("debug file beside it", &stripped),
    ] {
        let command = namespaced(&scratch, source, "sorter", "20");
        let running = Running::start(Command::new(&command[0]).args(&command[1..]));
        let recorded = attach(&[inner_pid(running.pid(), "sorter")], 1.2);
        check_inside(
            &format!("attached, {what}"),
            &recorded,
            "sorter",
            &wanted,
            0.8,
        );
        drop(running);
        let command = namespaced(&scratch, source, "sorter", "1.5");
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        check_inside(
            &format!("launched, {what}"),
            &launch(&command),
            "sorter",
            &wanted,
            0.8,
        );
    }
}

#[test]
#[ignore = "needs root"]
fn perf_map_in_other_namespaces() {
    let scratch = room_for_namespaces();
    let jit = unstripped("jit", &scratch);
    let wanted = [
        "_start",
        "main",
        "call_jitted",
        "jitted_outer",
        "jitted_inner",
    ];
    let command = namespaced(&scratch, &jit, "jitter", "20");
    let running = Running::start(Command::new(&command[0]).args(&command[1..]));
    let pid = inner_pid(running.pid(), "jitter");
    std::thread::sleep(Duration::from_millis(200));
    let recorded = attach(&[pid], 1.2);
    check_inside("jit, attached", &recorded, "jitter", &wanted, 0.8);
    drop(running);
    let command = namespaced(&scratch, &jit, "jitter", "1.5");
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    check_inside("jit, launched", &launch(&command), "jitter", &wanted, 0.8);
}

/// Nothing of the tests stays mounted here.
#[test]
#[ignore = "needs root"]
fn no_mounts_are_left() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let prefix: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dwell-stacks-");
    assert!(!mounts.contains(&*prefix.to_string_lossy()), "{mounts}");
}
