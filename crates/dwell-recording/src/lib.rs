//! The recording on disk: tables, append, read, upgrade.
#![forbid(unsafe_code)]

pub mod meta;
pub mod rows;
pub mod tables;
