//! D, as users of dtrace(1) write it: from source to a checked form, to programs of the form in
//! `dwell-abi`, and back from records and aggregations to the text that dtrace prints.
//!
//! Knows nothing of kernels and processes: what a script may name is asked of its `World`.
#![forbid(unsafe_code)]

pub mod aggregate;
pub mod codegen;
pub mod option_values;
pub mod output;
pub mod schema;
pub mod span;
pub mod typed;
pub mod types;
