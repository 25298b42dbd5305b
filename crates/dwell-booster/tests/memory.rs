//! A merged program needs no more memory for itself than the stock one: what a waiting process has written to, by the
//! kernel's account of it.
mod common;

use common::{
    Folder, at_level, at_one_address, merge_with, while_it_waits, with_libc, with_loader,
    write_back,
};
use dwell_booster::{Options, Refusal};
use std::fs;
use std::path::Path;

/// Programs, and arguments with which they wait: for input, or, like ls, for a reader of what they print.
const WAITING: [(&str, &[&str]); 5] = [
    ("/usr/bin/bash", &["--norc", "-c", "read x"]),
    ("/usr/bin/git", &["hash-object", "--stdin"]),
    ("/usr/bin/ls", &["-R", "/usr"]),
    ("/usr/bin/perl", &["-e", "<STDIN>"]),
    ("/usr/bin/python3.11", &["-sS", "-c", "input()"]),
];

/// Bytes of a waiting process that are its own and written to.
fn private_dirty(program: &Path, args: &[&str]) -> u64 {
    let smaps = while_it_waits(program, args, "smaps_rollup");
    let line = smaps.lines().find_map(|l| l.strip_prefix("Private_Dirty:"));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("a number") * 1024
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
