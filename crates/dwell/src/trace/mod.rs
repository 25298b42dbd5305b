//! `dwell trace`.

/// Provider files to headers, for programs that define probes of their own.
#[cfg_attr(not(test), allow(dead_code))] // called when the command takes `-h` and `-G`
pub mod header;
