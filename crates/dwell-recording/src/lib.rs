//! The recording on disk: tables, append, read, upgrade.
//!
//! A recording is a folder with `meta.json` and, per table, Parquet files named
//! `TABLE-NNNN.parquet`, one for every segment in which the table got rows. [`Writer`] makes one,
//! [`Recording`] opens one. `docs/recording-format.md` is the description for readers in other
//! languages.
//!
//! This crate knows nothing of who fills the tables.
#![forbid(unsafe_code)]

mod buffers;
mod column;
mod compact;
mod decode;
mod encode;
mod encodings;
mod error;
mod folder;
mod joined;
mod manifest;
mod recording;
mod schema;
mod table;
mod upgrade;
mod whole;
mod word;
mod writer;

pub mod meta;
pub mod rows;
pub mod tables;

pub use buffers::Buffered;
pub use decode::decode_segment;
pub use error::RecordingError;
pub use joined::{Take, joined};
pub use meta::{FORMAT_VERSION, Meta};
pub use recording::{Limits, Recording};
pub use table::Table;
pub use tables::Tables;
pub use whole::{read_whole, write_whole};
pub use word::Word;
pub use writer::{Overwrite, Writer, lost_rows};
