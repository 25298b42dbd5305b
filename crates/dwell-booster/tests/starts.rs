//! What a start costs, by the kernel's own account: page faults, and ranges of memory that are protected one by one.
mod common;

use common::{
    Folder, at_one_address, fields_from_state, merge_with, while_it_waits, with_libc, with_loader,
    write_back,
};
use dwell_booster::{Options, Refusal};
use std::fs;
use std::path::Path;

/// Programs of several libraries, and arguments with which they wait.
const WAITING: [(&str, &[&str]); 3] = [
    ("/usr/bin/bash", &["--norc", "-c", "read x"]),
    ("/usr/bin/git", &["hash-object", "--stdin"]),
    ("/usr/bin/ls", &["-R", "/usr"]),
];

/// Page faults that read nothing from the disk, until a program waits.
fn faults(program: &Path, args: &[&str]) -> u64 {
    let stat = while_it_waits(program, args, "stat");
    fields_from_state(&stat)[7].parse().expect("a number")
}

/// How much a waiting program has written to, KiB, in each range of its file that was made read-only.
fn written_and_protected(program: &Path, args: &[&str]) -> Vec<u64> {
    let smaps = while_it_waits(program, args, "smaps");
    let file = program.to_str().expect("UTF-8");
    let mut found = Vec::new();
    let mut protected = false;
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0].contains('-') {
            protected = words[1] == "r--p" && line.ends_with(file);
        } else if protected && words[0] == "Private_Dirty:" {
            found.push(words[1].parse().expect("a number"));
        }
    }
    found
}

#[test]
fn a_start_takes_fewer_page_faults_and_protects_only_what_was_written() {
    // Whether addresses are final, so that the loader has next to nothing left to write.
    let ways: [(&str, Options, bool); 3] = [
        ("level 1", with_libc(), false),
        ("level 2", at_one_address(true), true),
        ("level 3", with_loader(), true),
    ];
    let mut compared = 0;
    for (program, args) in WAITING.map(|(program, args)| (Path::new(program), args)) {
        if !program.exists() {
            continue;
        }
        let folder = Folder::new("starts");
        let name = program.file_name().expect("a name").to_string_lossy();
        let stock = folder.file(&format!("{name}.s____"));
        fs::copy(program, &stock).expect("copied");
        let of_stock = faults(&stock, args);
        for (way, options, is_final) in &ways {
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
            let found = faults(&of_same_length, args);
            let protected = written_and_protected(&of_same_length, args);
            println!("{name}, {way}: {found} faults of {of_stock}, protected {protected:?} KiB");
            assert!(found < of_stock, "{name}, {way}: {found} of {of_stock}");
            assert!(!protected.is_empty(), "{name}, {way}");
            assert!(
                !is_final || protected.iter().all(|&kib| kib > 0),
                "{name}, {way}: {protected:?}"
            );
            compared += 1;
        }
    }
    assert!(compared >= 3, "only {compared} could be compared");
}
