//! Every export holds exactly the recording's thread time.
use dwell_analysis::testing::{MS, Scale, drawn, fixture};
use dwell_report::{Analysis, folded, pprof};
use prost::Message;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::Command;

fn fold(analysis: &Analysis<'_>, options: &folded::Options) -> BTreeMap<String, u64> {
    let mut out = Vec::new();
    folded::write(analysis, options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let split = |line: &str| {
        let (stack, time) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), time.parse().unwrap())
    };
    let lines: BTreeMap<String, u64> = text.lines().map(split).collect();
    assert_eq!(lines.len(), text.lines().count(), "a stack occurs twice");
    lines
}

fn small() -> Analysis<'static> {
    let tables = drawn(
        "thread | main    | main           | worker-1            | worker-2 | worker-2 | worker-2
         state  | running | lock futex     | io fsync            | fault    | running  | lost
         time   | 30      | 10+2           | 7                   | 4        | 5        | 1
         weight | 30      | 12             | 7                   | 4        | -        | -
         stack  | main    | main           | start_thread        | f        |          |
                | a<b; c> | outer :> inner | vfs_fsync_range_[k] |          |          | ",
    );
    Analysis::of(Box::leak(Box::new(tables)))
}

#[test]
fn folded_lines_name_process_group_functions_and_state() {
    let lines = fold(&small(), &folded::Options::default());
    let expected = [
        ("demo;main;main;a<b, c>", 30),
        ("demo;main;main;outer;inner;[blocked: lock futex]", 10),
        ("demo;main;main;outer;inner;[runnable]", 2),
        ("demo;worker-*;[lost]", 1),
        ("demo;worker-*;[not sampled]", 5),
        ("demo;worker-*;f;[blocked: fault]", 4),
        (
            "demo;worker-*;start_thread;vfs_fsync_range_[k];[blocked: io fsync]",
            7,
        ),
    ];
    let expected: BTreeMap<String, u64> = expected
        .map(|(stack, ms)| (stack.to_owned(), ms * MS))
        .into();
    assert_eq!(lines, expected);
}

#[test]
fn folded_totals_match_in_every_form() {
    let tables = fixture(Scale {
        seconds: 2,
        ..Scale::default()
    });
    let analysis = Analysis::of(&tables);
    let total_ns: u64 = tables.threads.iter().map(|t| t.until_ns - t.start_ns).sum();
    for per_thread in [false, true] {
        for fold_idle in [false, true] {
            let unit = folded::Unit::Nanoseconds;
            let ns = fold(
                &analysis,
                &folded::Options {
                    unit,
                    per_thread,
                    fold_idle,
                },
            );
            assert_eq!(ns.values().sum::<u64>(), total_ns);
            let unit = folded::Unit::Microseconds;
            let us = fold(
                &analysis,
                &folded::Options {
                    unit,
                    per_thread,
                    fold_idle,
                },
            );
            assert_eq!(us.values().sum::<u64>(), total_ns / 1000);
            assert_eq!(ns.keys().any(|k| k.starts_with("[idle pools: ")), fold_idle);
        }
    }
}

#[test]
fn folded_per_thread_gives_every_thread_its_lifetime() {
    let tables = fixture(Scale {
        seconds: 1,
        ..Scale::default()
    });
    let options = folded::Options {
        per_thread: true,
        ..folded::Options::default()
    };
    let lines = fold(&Analysis::of(&tables), &options);
    for thread in &tables.threads {
        let frame = format!("{} ({})", thread.name, thread.tid);
        let own = lines
            .iter()
            .filter(|(stack, _)| stack.split(';').nth(2) == Some(&frame));
        assert_eq!(
            own.map(|(_, ns)| ns).sum::<u64>(),
            thread.until_ns - thread.start_ns,
            "{frame}"
        );
    }
}

fn decoded(analysis: &Analysis<'_>) -> pprof::proto::Profile {
    let mut gzip = Vec::new();
    pprof::write(analysis, &mut gzip).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(gzip.as_slice())
        .read_to_end(&mut bytes)
        .unwrap();
    pprof::proto::Profile::decode(bytes.as_slice()).unwrap()
}

#[test]
fn pprof_samples_have_three_values_labels_and_inline_lines() {
    let profile = decoded(&small());
    let text = |number: i64| profile.string_table[number as usize].as_str();
    let types: Vec<&str> = profile.sample_type.iter().map(|t| text(t.r#type)).collect();
    assert_eq!(types, ["wall", "cpu", "off_cpu"]);
    let sums: Vec<i64> = (0..3)
        .map(|i| profile.sample.iter().map(|s| s.value[i]).sum())
        .collect();
    assert_eq!(sums, [59 * MS as i64, 35 * MS as i64, 23 * MS as i64]);
    let labels = |sample: &pprof::proto::Sample| -> BTreeMap<String, String> {
        let value = |l: &pprof::proto::Label| match l.str {
            0 => l.num.to_string(),
            number => text(number).to_owned(),
        };
        sample
            .label
            .iter()
            .map(|l| (text(l.key).to_owned(), value(l)))
            .collect()
    };
    let lock = profile
        .sample
        .iter()
        .find(|s| labels(s).get("reason").is_some_and(|r| r == "lock"));
    let lock = lock.unwrap();
    let labels = labels(lock);
    assert_eq!(labels["thread"], "main");
    assert_eq!(labels["tid"], "1000");
    assert_eq!(labels["state"], "blocked");
    assert_eq!(labels["syscall"], "futex");
    let innermost = &profile.location[lock.location_id[0] as usize - 1];
    let names: Vec<&str> = innermost
        .line
        .iter()
        .map(|line| text(profile.function[line.function_id as usize - 1].name))
        .collect();
    assert_eq!(names, ["inner", "outer"]);
    let mapping = &profile.mapping[innermost.mapping_id as usize - 1];
    assert_eq!(text(mapping.build_id), "00aa11bb22cc33dd");
    assert!(mapping.has_inline_frames && mapping.memory_limit > innermost.address);
}

#[test]
fn pprof_total_is_the_thread_time() {
    let tables = fixture(Scale {
        seconds: 2,
        ..Scale::default()
    });
    let profile = decoded(&Analysis::of(&tables));
    let wall: i64 = profile.sample.iter().map(|s| s.value[0]).sum();
    let total_ns: u64 = tables.threads.iter().map(|t| t.until_ns - t.start_ns).sum();
    assert_eq!(wall as u64, total_ns);
    let running: u64 = tables.threads.iter().map(|t| t.running_ns).sum();
    assert_eq!(
        profile.sample.iter().map(|s| s.value[1]).sum::<i64>() as u64,
        running
    );
}

/// Where Go installs itself unless told otherwise, after the search path.
fn go() -> Option<&'static str> {
    let works = |go: &&str| {
        Command::new(go)
            .arg("version")
            .output()
            .is_ok_and(|o| o.status.success())
    };
    ["go", "/usr/local/go/bin/go"].into_iter().find(works)
}

/// The total that `go tool pprof -top` prints, in seconds.
fn go_total(go: &str, file: &str, sample_index: &str) -> f64 {
    let output = Command::new(go)
        .args(["tool", "pprof", "-top", "-unit=ns", "-nodecount=5"])
        .arg(format!("-sample_index={sample_index}"))
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // `Showing nodes accounting for 1234ns, 56.78% of 2173ns total`
    let total = text
        .split(" of ")
        .nth(1)
        .and_then(|rest| rest.split("ns total").next());
    total
        .and_then(|n| n.trim().parse::<f64>().ok())
        .unwrap_or_else(|| panic!("no total in {text}"))
        / 1e9
}

#[test]
fn go_tool_pprof_reads_the_same_totals() {
    let Some(go) = go() else {
        eprintln!("skipped: no Go here");
        return;
    };
    let tables = fixture(Scale {
        seconds: 2,
        ..Scale::default()
    });
    let analysis = Analysis::of(&tables);
    let file = std::env::temp_dir().join(format!("dwell-report-{}.pb.gz", std::process::id()));
    pprof::write(&analysis, &mut std::fs::File::create(&file).unwrap()).unwrap();
    let times = analysis.summary.total.times;
    let expected = [
        ("wall", times.total()),
        ("cpu", times.running()),
        ("off_cpu", times.runnable() + times.blocked()),
    ];
    for (sample_index, ns) in expected {
        let read = go_total(go, file.to_str().unwrap(), sample_index);
        let error = (read / (ns as f64 / 1e9) - 1.0).abs();
        assert!(error < 1e-4, "{sample_index}: {read} s for {ns} ns");
    }
    std::fs::remove_file(file).unwrap();
}
