//! The arithmetic of aggregations: which bucket a value falls into, how the parts of several processors are added
//! up, what is printed of them and in which order.
//!
//! What runs where a probe fires must do the same arithmetic; the functions here are its definition.

mod compare;
mod linear;
mod log_linear;
mod parts;
mod powers;
mod statistics;

pub use compare::{Sorting, compare_keys, compare_values};
pub use linear::Linear;
pub use log_linear::LogLinear;
pub use parts::{add, add_rows, identity, length, record};
pub use powers::{POWERS, powers_index, powers_label};
pub use statistics::{average, normalized, standard_deviation};
