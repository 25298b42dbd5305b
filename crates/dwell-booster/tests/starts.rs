//! What a start costs, by the kernel's own account: page faults, and ranges of memory that are protected one by one.
mod common;

use common::{
    WAITING, at_one_address, compare_waiting, fields_from_state, while_it_waits, with_libc,
    with_loader,
};
use dwell_booster::Options;
use std::path::Path;

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
    let ways: [(&str, Options); 3] = [
        ("level 1", with_libc()),
        ("level 2", at_one_address(true)),
        ("level 3", with_loader()),
    ];
    // bash, git and ls: programs of several libraries.
    compare_waiting(&WAITING[..3], &ways, faults, |it| {
        let protected = written_and_protected(it.file, it.args);
        let (what, found, stock) = (it.what, it.found, it.stock);
        println!("{what}: {found} faults of {stock}, protected {protected:?} KiB");
        assert!(found < stock, "{what}: {found} of {stock}");
        assert!(!protected.is_empty(), "{what}");
        // Where addresses are final the loader has next to nothing left to write.
        let is_final = it.options.fixed.is_some();
        assert!(
            !is_final || protected.iter().all(|&kib| kib > 0),
            "{what}: {protected:?}"
        );
    });
}
