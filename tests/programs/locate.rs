//! Where the programs of this folder are, once built. Tests of several crates include this file.
#![allow(dead_code)] // each of them uses a part of it
use std::path::PathBuf;

/// The folder of the test programs (`make programs`).
pub fn programs() -> PathBuf {
    std::env::var_os("DWELL_TEST_PROGRAMS").map_or_else(
        || {
            // A test is in <target>/<profile>/deps/.
            let test = std::env::current_exe().expect("a path");
            let target = test.ancestors().nth(3).expect("a target folder");
            target.join("programs")
        },
        PathBuf::from,
    )
}

/// A test program; without it the test fails.
#[track_caller]
pub fn program(name: &str) -> String {
    let path = programs().join(name);
    assert!(
        path.exists(),
        "{} is missing: make programs",
        path.display()
    );
    path.into_os_string()
        .into_string()
        .expect("a path in UTF-8")
}
