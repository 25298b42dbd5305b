//! A merged program needs no more memory for itself than the stock one: what a waiting process has written to, by the
//! kernel's account of it.
mod common;

use common::{Folder, at_level, at_one_address, merge_with, with_libc, with_loader};
use dwell_booster::{Options, Refusal};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Programs, and arguments with which they wait: for input, or, like ls, for a reader of what they print.
const WAITING: [(&str, &[&str]); 5] = [
    ("/usr/bin/bash", &["--norc", "-c", "read x"]),
    ("/usr/bin/git", &["hash-object", "--stdin"]),
    ("/usr/bin/ls", &["-R", "/usr"]),
    ("/usr/bin/perl", &["-e", "<STDIN>"]),
    ("/usr/bin/python3.11", &["-sS", "-c", "input()"]),
];

/// Perl and Python choose at random how their tables hash, and so how many pages the tables lie in.
const NOT_AT_RANDOM: [(&str, &str); 2] = [("PERL_HASH_SEED", "0"), ("PYTHONHASHSEED", "0")];

/// Bytes of a waiting process that are its own and written to. Without random addresses, and under a name as long as the
/// other's, the same program needs the same each time.
fn private_dirty(program: &Path, args: &[&str]) -> u64 {
    let mut child = Command::new("setarch")
        .arg("-R")
        .arg(program)
        .args(args)
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .envs(NOT_AT_RANDOM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("setarch runs");
    wait_until_it_waits(&child);
    let smaps = fs::read_to_string(format!("/proc/{}/smaps_rollup", child.id()));
    child.kill().expect("ours");
    child.wait().expect("ours");
    let smaps = smaps.expect("the kernel tells");
    let line = smaps.lines().find_map(|l| l.strip_prefix("Private_Dirty:"));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("a number") * 1024
}

/// Pages of a file that are not on the disk yet would count as the process' own.
fn write_back(file: &Path) {
    let file = fs::File::open(file).expect("there");
    file.sync_all().expect("written back");
}

fn wait_until_it_waits(child: &Child) {
    let end = Instant::now() + Duration::from_secs(20);
    let mut last = None;
    loop {
        std::thread::sleep(Duration::from_millis(100));
        assert!(Instant::now() < end, "it does not wait");
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        // Behind the name in brackets: the state, and 11 fields later the processor times.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        assert_ne!(fields[0], "Z", "it ended instead of waiting");
        let now = Some(fields[11].to_owned());
        if fields[0] == "S" && now == last {
            return;
        }
        last = now;
    }
}

#[test]
fn no_more_memory_than_stock() {
    let ways: [(&str, Options); 7] = [
        ("nolibc, level 0", at_level(false)),
        ("nolibc, level 1", at_level(true)),
        ("nolibc, level 2", at_one_address(false)),
        (
            "static, level 0",
            Options {
                direct: false,
                ..with_libc()
            },
        ),
        ("static, level 1", with_libc()),
        ("static, level 2", at_one_address(true)),
        ("static, level 3", with_loader()),
    ];
    let mut compared = 0;
    for (program, args) in WAITING.map(|(program, args)| (Path::new(program), args)) {
        if !program.exists() {
            continue;
        }
        let folder = Folder::new("memory");
        let name = program.file_name().expect("a name").to_string_lossy();
        let stock = folder.file(&format!("{name}.s____"));
        fs::copy(program, &stock).expect("copied");
        write_back(&stock);
        let wanted = private_dirty(&stock, args);
        for (way, options) in &ways {
            let merged = match merge_with(&folder, program, options) {
                Ok((merged, _)) => merged,
                Err(why @ Refusal::Unsupported { .. }) => {
                    println!("{name}: {why}");
                    continue;
                }
                Err(why) => panic!("{name}: {why}"),
            };
            let of_same_length = folder.file(&format!("{name}.boost_"));
            fs::rename(merged, &of_same_length).expect("renamed");
            write_back(&of_same_length);
            let found = private_dirty(&of_same_length, args);
            println!("{name}, {way}: {found} of {wanted}");
            assert!(found <= wanted, "{name}, {way}: {found} of {wanted}");
            compared += 1;
        }
    }
    assert!(compared >= 3, "only {compared} could be compared");
}
