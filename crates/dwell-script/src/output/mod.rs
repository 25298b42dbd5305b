//! Records and aggregations to the text that dtrace prints.
//!
//! A [`Printer`] is fed with records in the order of time. It writes to a [`Sink`] and asks [`Names`] and
//! [`Aggregations`] for what records only refer to; nothing else is touched.

mod actions;
mod bytes;
mod c_format;
mod data;
mod flow;
pub mod format;
mod histogram;
pub mod messages;
mod names;
mod options;
mod print;
mod printa;
mod printer;
mod printf;
mod speculations;
mod stacks;
mod table;
#[cfg(test)]
mod tests;
mod trace;

use std::io;

use thiserror::Error;

pub use names::{LocalTime, Names, Place};
pub use options::{OptionError, Options};
pub use printer::{Outcome, Printer};

use crate::schema::{AggregationId, AggregationSchema, ClauseSchema, Row};
use crate::types::Types;

/// What the code generator says of a script's records and aggregations.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'s> {
    /// The clauses, by number.
    pub clauses: &'s [ClauseSchema],
    /// The aggregations, by number.
    pub aggregations: &'s [AggregationSchema],
    /// The types that fields of [`Typed`](crate::schema::FieldKind::Typed) name.
    pub types: &'s Types,
}

/// Where the text goes.
pub trait Sink: io::Write {
    /// `freopen`: what is written from now on goes to the end of this file; `None` is where it went at first.
    fn reopen(&mut self, file: Option<&[u8]>) -> io::Result<()>;
    /// `system`: runs a command by the shell and waits for it. What was written before has been flushed.
    fn run(&mut self, command: &[u8]) -> io::Result<()>;
}

/// What was aggregated up to now.
pub trait Aggregations {
    /// The rows, one for each key, added up over all processors, in any order.
    fn rows(&mut self, aggregation: AggregationId) -> Vec<Row>;
    /// Sets all values to what they [start with](crate::aggregate::identity); the keys stay.
    fn clear(&mut self, aggregation: AggregationId);
    /// Forgets these keys.
    fn remove(&mut self, aggregation: AggregationId, keys: &[Box<[u8]>]);
}

/// All that a printer works with.
pub struct World<'w> {
    /// Where the text goes.
    pub out: &'w mut dyn Sink,
    /// What numbers stand for.
    pub names: &'w mut dyn Names,
    /// What was aggregated.
    pub aggregations: &'w mut dyn Aggregations,
}

/// Why a record could not be printed. After any but [`Io`](OutputError::Io), the next record can be.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The text could not be written.
    #[error("cannot write the output: {0}")]
    Io(#[from] io::Error),
    /// A clause that the script does not have.
    #[error("a record of clause {0}, which the script does not have")]
    Clause(u32),
    /// An aggregation that the script does not have.
    #[error("a record of aggregation {0}, which the script does not have")]
    Aggregation(u32),
    /// A record or a key ends before one of its fields.
    #[error("a record of {length} bytes has a field up to byte {end}")]
    Short {
        /// One past the field's last byte.
        end: u64,
        /// The bytes there are.
        length: usize,
    },
    /// A number of a size that no number has.
    #[error("a number of {size} bytes")]
    Size {
        /// Its bytes.
        size: usize,
    },
    /// A format wants another argument than there is.
    #[error("conversion %{0} has no argument that it can print")]
    Argument(Box<str>),
    /// A row with another number of values than its function keeps.
    #[error("a row of {found} values where the function keeps {wanted}")]
    Values {
        /// How many there should be.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// A format of the script that is none.
    #[error(transparent)]
    Format(#[from] format::FormatError),
}
