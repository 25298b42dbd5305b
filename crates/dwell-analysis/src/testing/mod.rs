//! Recordings made by hand: row by row, drawn as text, or a large made-up one.
mod builder;
mod drawing;
mod fixture;
mod history;

pub use builder::TablesBuilder;
pub use drawing::{drawn, drawn_waits};
pub use fixture::{Scale, fixture};
pub use history::{Rng, Stay, renewal_samples};

/// One millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;
