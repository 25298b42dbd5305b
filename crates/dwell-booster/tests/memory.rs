//! A merged program needs no more memory for itself than the stock one: what a waiting process has written to, by the
//! kernel's account of it.
mod common;

use common::{
    WAITING, at_level, at_one_address, compare_waiting, while_it_waits, with_libc, with_loader,
};
use dwell_booster::Options;
use std::path::Path;

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
    compare_waiting(&WAITING, &ways, private_dirty, |it| {
        println!("{}: {} of {}", it.what, it.found, it.stock);
        assert!(
            it.found <= it.stock,
            "{}: {} of {}",
            it.what,
            it.found,
            it.stock
        );
    });
}
