//! Reading what is damaged, hostile, from elsewhere or not there; the answer's shape; and what a user
//! without privilege gets.

use crate::robust_support::*;
use dwell_recording::Tables;
use serde_json::Value;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Recordings of several kinds, made once: a service with all kinds of waits, thousands of
/// processes, the whole system, threads that only sleep, and a command that does nothing.
fn recordings() -> &'static [PathBuf] {
    static MADE: OnceLock<Vec<PathBuf>> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Scratch::until_exit();
        let dir = folder.to_string_lossy().into_owned();
        let kinds: [(&str, Vec<String>); 5] = [
            (
                "mixed",
                [&program("mixed"), "--seconds", "2", "--dir", &dir]
                    .map(String::from)
                    .into(),
            ),
            (
                "storm",
                [&program("forkstorm"), "1"].map(String::from).into(),
            ),
            ("idle", [&program("sleepers"), "1"].map(String::from).into()),
            ("true", vec!["true".into()]),
            ("system", vec![]),
        ];
        let mut paths = Vec::new();
        for (name, words) in kinds {
            let path = folder.join(format!("{name}.dwell"));
            let mut command = dwell();
            command.args(["record", "-q", "-o"]).arg(&path);
            if words.is_empty() {
                command.args(["-a", "--duration", "1s"]);
            } else {
                command.arg("--").args(words);
            }
            run(&mut command).good();
            paths.push(path);
        }
        paths
    })
}

/// The one of a service with all kinds of waits.
fn mixed() -> &'static Path {
    &recordings()[0]
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("read").flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copy");
    }
}

/// Everything that reads a recording; `RECORDING` stands for it.
const READERS: [&[&str]; 5] = [
    &["report"],
    &["report", "--json"],
    &["export", "--to", "folded"],
    &["export", "--to", "svg"],
    &["export", "--to", "pprof"],
];

/// Runs a reader with at most 2 GiB of address space: a lie in a file must not cost memory.
fn read(reader: &[&str], recording: &Path) -> Ran {
    let mut command = dwell();
    command.args(reader).arg(recording);
    let limit = || {
        let limit = libc::rlimit {
            rlim_cur: 2 << 30,
            rlim_max: 2 << 30,
        };
        // SAFETY: a valid pointer to one rlimit.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
        Ok(())
    };
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(limit) };
    run(&mut command)
}

/// All readers refuse it, say why, and print nothing else.
#[track_caller]
fn refused(recording: &Path, cause: &str) {
    for reader in READERS {
        let ran = read(reader, recording).told(cause);
        assert!(
            ran.stdout.is_empty(),
            "{reader:?} prints in spite of {}",
            ran.stderr
        );
        // What it is, and what to do about it.
        assert!(
            ran.stderr.contains(';') || ran.stderr.contains("remedy"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn what_is_no_recording_is_told() {
    let folder = Scratch::new();
    fs::write(folder.join("file"), "text").expect("write");
    fs::create_dir(folder.join("empty")).expect("a folder");
    refused(&folder.join("nothing"), "nothing");
    refused(&folder.join("file"), "is not a recording");
    refused(&folder.join("empty"), "is not a recording");
    let ran = run_in(&folder, &["report"]).told("no recording here");
    assert!(
        ran.stderr.contains("dwell record"),
        "no remedy: {}",
        ran.stderr
    );
    run_in(&folder, &["export", "--to", "svg"]).told("no recording here");
}

#[test]
#[ignore = "needs root"]
fn a_damaged_meta_json_is_told() {
    let folder = Scratch::new();
    let path = folder.join("x.dwell");
    copy(mixed(), &path);
    let file = path.join("meta.json");
    let good = fs::read_to_string(&file).expect("read");
    let parsed: Value = serde_json::from_str(&good).expect("JSON");
    let with = |key: &str, value: Value| {
        let mut changed = parsed.clone();
        changed[key] = value;
        changed.to_string()
    };
    for damaged in [
        String::new(),
        good[..good.len() / 2].into(),
        "\u{0}".repeat(100),
        "[]".into(),
        "null".into(),
        "[".repeat(1_000_000),
        with("start_ns", "yesterday".into()),
        with("tables", Value::Null),
        with("format_version", 0.into()),
    ] {
        fs::write(&file, damaged).expect("write");
        refused(&path, "meta.json");
    }
    fs::write(&file, with("format_version", 999.into())).expect("write");
    refused(&path, "newer dwell");
    fs::remove_file(&file).expect("remove");
    refused(&path, "meta.json");
    fs::create_dir(&file).expect("a folder in the place of the file");
    refused(&path, "meta.json");
}

#[test]
#[ignore = "needs root"]
fn damaged_tables_are_told() {
    let folder = Scratch::new();
    let path = folder.join("x.dwell");
    copy(mixed(), &path);
    let names: Vec<String> = fs::read_dir(&path)
        .expect("read")
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".parquet"))
        .collect();
    let one_of = |table: &str| {
        let mut of_table: Vec<_> = names
            .iter()
            .filter(|n| n.starts_with(&format!("{table}-")))
            .collect();
        of_table.sort();
        of_table
            .last()
            .copied()
            .unwrap_or_else(|| panic!("no file of {table}"))
            .clone()
    };
    for table in [
        "processes",
        "threads",
        "frames",
        "stacks",
        "sites",
        "site_times",
        "samples",
        "slices",
    ] {
        let name = one_of(table);
        let file = path.join(&name);
        let good = fs::read(&file).expect("read");
        let mut middle = good.clone();
        let half = good.len() / 2;
        middle[half..half + 16].fill(0xff);
        let mut footer = good.clone();
        let length = footer.len();
        footer[length - 8..length - 4].fill(0xff);
        for (damage, bytes) in [
            ("empty", vec![]),
            ("cut", good[..half].to_vec()),
            ("garbage", vec![0x5a; 4096]),
            ("footer", footer),
        ] {
            fs::write(&file, bytes).expect("write");
            let ran = read(&["report"], &path).told(&name);
            assert!(ran.stdout.is_empty(), "{damage} {name}");
        }
        // Damage in the middle may hit what is not looked at; then the answer may differ.
        fs::write(&file, middle).expect("write");
        let ran = read(&["report"], &path);
        assert!(
            ran.code() == 0 || ran.stderr.contains(&name),
            "{}",
            ran.stderr
        );
        fs::remove_file(&file).expect("remove");
        read(&["report"], &path).told(table);
        fs::write(&file, good).expect("write");
    }
    read(&["report"], &path).good();
}

/// A table's file in the place of another's.
#[test]
#[ignore = "needs root"]
fn exchanged_tables_are_told() {
    let folder = Scratch::new();
    let path = folder.join("x.dwell");
    copy(mixed(), &path);
    let find = |table: &str| {
        let entries = fs::read_dir(&path).expect("read").flatten();
        let mut files: Vec<_> = entries.map(|e| e.path()).collect();
        files.sort();
        let of_table = |f: &&PathBuf| {
            f.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with(table))
        };
        files.iter().rfind(of_table).cloned().expect("a file")
    };
    fs::copy(find("stacks-"), find("threads-")).expect("copy");
    refused(&path, "threads-");
}

/// Single bytes changed at random, in any file: an answer or an error, never a panic, never a hang.
#[test]
#[ignore = "needs root"]
fn random_damage_ends_in_an_answer_or_an_error() {
    let folder = Scratch::new();
    let path = folder.join("x.dwell");
    let mut random = Random::new();
    copy(mixed(), &path);
    let files: Vec<PathBuf> = fs::read_dir(&path)
        .expect("read")
        .flatten()
        .map(|e| e.path())
        .collect();
    let (mut answers, mut errors) = (0, 0);
    for round in 0..60 {
        let file = &files[random.below(files.len() as u64) as usize];
        let good = fs::read(file).expect("read");
        let mut bad = good.clone();
        for _ in 0..=random.below(8) {
            let at = random.below(bad.len() as u64) as usize;
            bad[at] = random.below(256) as u8;
        }
        fs::write(file, bad).expect("write");
        let ran = read(READERS[round % READERS.len()], &path);
        let name = file.file_name().expect("a name").to_string_lossy();
        match ran.code() {
            0 => answers += 1,
            _ => {
                errors += 1;
                ran.told("");
            }
        }
        fs::write(file, good).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    eprintln!("{answers} answers, {errors} errors");
}

/// `dwell report | head -1`.
#[test]
#[ignore = "needs root"]
fn a_reader_that_goes_away_is_no_failure() {
    for args in READERS {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let mut command = dwell();
        command
            .args(args)
            .arg(mixed())
            .stdout(writer)
            .stderr(Stdio::piped());
        let ran = command.output().expect("runs");
        assert!(ran.status.success(), "{args:?}: {:?}", ran.status);
        assert!(
            ran.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    // A disk that is full is one.
    for args in READERS {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let mut command = dwell();
        command
            .args(args)
            .arg(mixed())
            .stdout(full)
            .stderr(Stdio::piped());
        let ran = command.output().expect("runs");
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("No space left"), "{args:?}: {stderr}");
    }
}

/// The newest recording of a folder is the default.
#[test]
#[ignore = "needs root"]
fn the_newest_recording_is_the_default() {
    let folder = Scratch::new();
    run_in(
        &folder,
        &["record", "-q", "-o", "b.dwell", "--", "sh", "-c", ":"],
    )
    .good();
    run_in(&folder, &["record", "-q", "-o", "a.dwell", "--", "true"]).good();
    let text = run_in(&folder, &["report"]).good().text();
    assert!(text.starts_with("dwell  true\n"), "{text}");
}

/// Characters of a line as a terminal counts them; everything here is one column wide.
fn columns(line: &str) -> usize {
    line.chars().count()
}

#[test]
#[ignore = "needs root"]
fn answers_fit_the_terminal() {
    for path in recordings() {
        for width in [80, 60, 120] {
            let mut command = dwell();
            command
                .arg("report")
                .arg(path)
                .env("COLUMNS", width.to_string());
            let text = run(&mut command).good().text();
            for line in text.lines() {
                assert!(
                    columns(line) <= width,
                    "{}: {} columns: {line}",
                    path.display(),
                    columns(line)
                );
                assert_eq!(line.trim_end(), line, "blanks at the end: {line:?}");
            }
            assert!(!text.contains('\x1b'), "colour in a file");
        }
        let usual = run(dwell().arg("report").arg(path)).good().text();
        assert!(
            usual.lines().all(|l| columns(l) <= 80),
            "80 columns when nobody says"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn colour_is_for_terminals_that_want_it() {
    for (name, value, colour) in [
        ("TERM", "xterm", true),
        ("NO_COLOR", "1", false),
        ("TERM", "dumb", false),
    ] {
        let mut command = dwell();
        command
            .arg("report")
            .arg(mixed())
            .env("TERM", "xterm")
            .env(name, value);
        let (terminal, mut child) = Terminal::start(&mut command);
        assert_eq!(end_of(&mut child), 0);
        until("the answer", || {
            terminal.screen().contains("How far to trust it")
        });
        assert_eq!(
            terminal.screen().contains("\x1b["),
            colour,
            "{name}={value}"
        );
    }
}

/// The text has three digits of what the JSON has in full.
#[track_caller]
fn assert_rounded(text: f64, exact: f64) {
    assert!(
        (text - exact).abs() <= exact / 180.0 + 0.5,
        "{text} for {exact}"
    );
}

#[test]
#[ignore = "needs root"]
fn text_and_json_say_the_same_and_add_up() {
    for path in recordings() {
        let text = run(dwell().arg("report").arg(path)).good().text();
        let json = run(dwell().args(["report", "--json"]).arg(path))
            .good()
            .text();
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let total = &json["total"];
        let ns = |value: &Value, key: &str| {
            value[key]
                .as_u64()
                .unwrap_or_else(|| panic!("{key} in {value}"))
        };
        // The JSON is that of the recording.
        let tables = load(path);
        let sum = |field: fn(&dwell_recording::rows::ThreadRow) -> u64| {
            tables.threads.iter().map(field).sum::<u64>()
        };
        assert_eq!(ns(total, "running_ns"), sum(|t| t.running_ns));
        assert_eq!(ns(total, "runnable_ns"), sum(|t| t.runnable_ns));
        assert_eq!(ns(total, "blocked_ns"), sum(|t| t.blocked_ns));
        assert_eq!(ns(total, "threads"), tables.threads.len() as u64);
        let states = ns(total, "running_ns")
            + ns(total, "runnable_ns")
            + ns(total, "stolen_ns")
            + ns(total, "blocked_ns")
            + ns(total, "lost_ns");
        assert_eq!(states, ns(total, "lifetime_ns"));
        let reasons = total["blocked_by_reason_ns"]
            .as_object()
            .expect("an object");
        let reasons: u64 = reasons.values().filter_map(Value::as_u64).sum();
        assert!(
            reasons.abs_diff(ns(total, "blocked_ns")) <= 1 + states / 10_000,
            "{total}"
        );
        // Processes add up to the total, groups to their process.
        let processes = json["processes"].as_array().expect("processes");
        let divisions = |list: &[Value]| {
            list.iter()
                .map(|p| ns(&p["division"], "lifetime_ns"))
                .sum::<u64>()
        };
        assert_eq!(divisions(processes), states);
        for process in processes {
            let groups = process["groups"].as_array().expect("groups");
            assert_eq!(divisions(groups), ns(&process["division"], "lifetime_ns"));
        }
        // And the text is the JSON, rounded.
        let words = |start: &str| {
            let line = text
                .lines()
                .find(|l| l.starts_with(start))
                .unwrap_or_else(|| panic!("{text}"));
            line.split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>()
        };
        let divides = words("How it divides");
        assert_rounded(nanoseconds(&divides[3], &divides[4]), states as f64);
        let second: Vec<&str> = text
            .lines()
            .nth(1)
            .expect("a line")
            .split_whitespace()
            .collect();
        assert_rounded(
            nanoseconds(second[0], second[1]),
            ns(&json["recording"], "window_ns") as f64,
        );
        assert!(
            text.contains(&format!("· {} process", processes_text(&json))),
            "{text}"
        );
    }
}

fn processes_text(json: &Value) -> String {
    // Numbers in the text have thin groups of three digits.
    let number = json["recording"]["processes"]
        .as_u64()
        .expect("a number")
        .to_string();
    let mut grouped = String::new();
    for (i, digit) in number.chars().enumerate() {
        if i > 0 && (number.len() - i).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// All thread time of a recording.
fn thread_time(tables: &Tables) -> u64 {
    let states = tables.threads.iter();
    states
        .map(dwell_recording::rows::ThreadRow::states_ns)
        .sum()
}

#[track_caller]
fn assert_same_total(what: &str, exported: u64, exact: u64) {
    assert!(
        exported.abs_diff(exact) <= exact / 10_000 + 1,
        "{what}: {exported} of {exact} ns"
    );
}

#[test]
#[ignore = "needs root"]
fn folded_stacks_hold_all_of_the_time() {
    for path in recordings() {
        let exact = thread_time(&load(path));
        for flags in [&[][..], &["--per-thread"], &["--fold-idle"]] {
            let mut command = dwell();
            command
                .args(["export", "--to", "folded"])
                .args(flags)
                .arg(path);
            let text = run(&mut command).good().text();
            let values = text.lines().map(|line| {
                let (stack, value) = line.rsplit_once(' ').expect("a value");
                assert!(!stack.is_empty() && !stack.contains(";;"), "{line}");
                value
                    .parse::<u64>()
                    .unwrap_or_else(|e| panic!("{line}: {e}"))
            });
            assert_same_total(
                &format!("folded {flags:?} of {}", path.display()),
                values.sum(),
                exact,
            );
        }
    }
}

/// Reads a file as XML and prints, for each of its graphs, the total it states and the width of its
/// widest row. There are two of them where idle pools can be folded away.
const XML: &str = "
import sys, xml.dom.minidom
document = xml.dom.minidom.parse(sys.argv[1])
graphs = [e for e in document.getElementsByTagName('svg') if e.getAttribute('id').startswith('frames')]
for graph in graphs:
    rows = {}
    for box in graph.getElementsByTagName('rect'):
        if box.getAttribute('fg:w'):
            y = box.getAttribute('y')
            rows[y] = rows.get(y, 0) + int(box.getAttribute('fg:w'))
    print(graph.getAttribute('total_samples'), max(rows.values()))
";

#[test]
#[ignore = "needs root"]
fn flame_graphs_are_xml_and_hold_all_of_the_time() {
    if !installed("python3") {
        return;
    }
    let folder = Scratch::new();
    for path in recordings() {
        let exact = thread_time(&load(path));
        let svg = folder.join("x.svg");
        run(dwell()
            .args(["export", "--to", "svg", "-o"])
            .arg(&svg)
            .arg(path))
        .good();
        let said = run(Command::new("python3").args(["-c", XML]).arg(&svg))
            .good()
            .text();
        let mut largest = 0;
        for graph in said.lines() {
            let (total, widest) = graph.split_once(' ').expect("two numbers");
            let total: u64 = total.parse().expect("a number");
            let widest: u64 = widest.parse().expect("a number");
            assert_same_total(&format!("widest row in {}", path.display()), widest, total);
            largest = largest.max(total);
        }
        assert_same_total(&format!("SVG of {}", path.display()), largest, exact);
    }
}

#[test]
#[ignore = "needs root"]
fn pprof_reads_all_of_the_time() {
    if !installed("go") {
        return;
    }
    let folder = Scratch::new();
    for path in recordings() {
        let tables = load(path);
        let profile = folder.join("x.pb.gz");
        run(dwell()
            .args(["export", "--to", "pprof", "-o"])
            .arg(&profile)
            .arg(path))
        .good();
        let mut command = Command::new("go");
        let raw = run(command.args(["tool", "pprof", "-raw"]).arg(&profile))
            .good()
            .text();
        // After `Samples:` a line with the units, then one with three values for each sample:
        // wall, cpu and off_cpu, before the colon and its stack.
        let lines = raw
            .lines()
            .skip_while(|l| !l.starts_with("Samples:"))
            .skip(2);
        let lines = lines.take_while(|l| !l.starts_with("Locations"));
        let mut sums = [0; 3];
        for line in lines {
            let Some((values, _)) = line.split_once(':') else {
                continue;
            };
            let values: Vec<u64> = values
                .split_whitespace()
                .map_while(|v| v.parse().ok())
                .collect();
            if values.len() == 3 {
                sums.iter_mut()
                    .zip(values)
                    .for_each(|(sum, value)| *sum += value);
            }
        }
        let running: u64 = tables.threads.iter().map(|t| t.running_ns).sum();
        let exact = thread_time(&tables);
        assert_same_total("wall", sums[0], exact);
        assert_same_total("cpu", sums[1], running);
        assert_same_total("off_cpu", sums[2], exact - running);
        run(Command::new("go")
            .args(["tool", "pprof", "-top"])
            .arg(&profile))
        .good();
    }
}

/// The program where a user without privilege may run it.
fn for_everybody(folder: &Scratch) -> PathBuf {
    let binary = folder.join("dwell");
    fs::copy(env!("CARGO_BIN_EXE_dwell"), &binary).expect("copy");
    binary
}

#[test]
#[ignore = "needs root"]
fn without_privilege_it_says_what_is_missing_and_reads() {
    let folder = Scratch::new();
    let binary = for_everybody(&folder);
    let home = folder.join("home");
    fs::create_dir(&home).expect("a folder");
    std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).expect("chown");
    let nobody = |args: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(args).current_dir(&home).stdin(Stdio::null());
        run(as_nobody(&mut command))
    };
    let pid = std::process::id().to_string();
    for args in [
        &["--", "touch", "ran"][..],
        &["record", "--", "touch", "ran"],
        &["record", "-p", &pid],
        &["record", "-a", "--duration", "1s"],
        &["top", "-n", "1"],
    ] {
        let ran = nobody(args).told("dwell doctor");
        for name in ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"] {
            assert!(ran.stderr.contains(name), "{args:?}: {}", ran.stderr);
        }
        assert!(
            ran.stderr.matches("os error").count() <= 1,
            "said twice: {}",
            ran.stderr
        );
        assert_eq!(
            fs::read_dir(&home).expect("read").count(),
            0,
            "{args:?} left something"
        );
    }
    let ran = nobody(&["doctor"]);
    assert_eq!(ran.code(), 1);
    let text = ran.text();
    for name in ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"] {
        let line = text.lines().find(|l| l.contains(name)).expect("a line");
        assert!(line.starts_with("MISSING"), "{line}");
    }
    assert!(text.contains("setcap"), "no remedy: {text}");
    let ran = nobody(&["doctor", "--json"]);
    assert_eq!(ran.code(), 1);
    let json: Value = serde_json::from_str(&ran.text()).expect("JSON");
    let missing = |c: &&Value| {
        c["verdict"] == "missing" && c["remedy"].as_str().is_some_and(|r| !r.is_empty())
    };
    assert!(
        json.as_array()
            .expect("a list")
            .iter()
            .filter(missing)
            .count()
            >= 4,
        "{json}"
    );
    // What needs no privilege works.
    let recording = mixed().to_str().expect("UTF-8");
    let text = nobody(&["report", recording]).good().text();
    assert!(
        text.contains("How it divides") && text.contains("solve_equations"),
        "{text}"
    );
    for format in ["folded", "svg", "pprof"] {
        nobody(&["export", recording, "--to", format, "-o", "x"]).good();
    }
}

#[test]
#[ignore = "needs root"]
fn with_privilege_the_doctor_is_content() {
    let ran = run(dwell().arg("doctor")).good();
    let text = ran.text();
    assert!(text.contains("Recording works here."), "{text}");
    assert!(!text.contains("MISSING"), "{text}");
    let json = run(dwell().args(["doctor", "--json"])).good().text();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let checks = json.as_array().expect("a list");
    assert_eq!(
        checks.len(),
        text.lines()
            .filter(|l| l.starts_with("ok ") || l.starts_with("reduced"))
            .count()
    );
}
