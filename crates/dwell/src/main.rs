//! The `dwell` command: parse, compose, print, exit.
fn main() {}
