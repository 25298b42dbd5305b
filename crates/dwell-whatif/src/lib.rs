//! What a change would do: other numbers of threads, larger batches, another kind of lock, shards,
//! shorter holds, other numbers of processors.
//!
//! A [`Model`] has classes of threads, each with a program (run, take a lock, hold it, let it go, be
//! away), the locks, and the [`Machine`] they run on. [`predict`] runs it as a discrete-event simulation,
//! as it is and with a [`Change`], several times with different random numbers, and with what is known
//! only roughly drawn anew each time; so every answer is an [`Interval`].
//!
//! Replaying the recorded order of acquisitions would be wrong: another lock makes another order. Here
//! the order comes out of the simulation.
//!
//! Pure: no I/O, no clock; a seed gives the same answer on every machine.
//!
//! # What is modelled
//! - **Processors** with time slices; the ready thread that ran least goes on. A thread that holds a lock
//!   can be preempted, a spinner burns its slice. Processors that share a core slow each other down.
//! - **Locks** by kind, with the cost of taking a free one, of handing one over, sleeping and waking.
//!   Where a lock is not handed over in order, who runs can take it before who was woken.
//! - **Batches**: of `b` units per acquisition, every `b`th unit takes the lock.
//!
//! # What is not
//! The line of memory that the lock protects moving between processors, priorities, memory bandwidth,
//! cross-socket distances, and work that a change makes or saves in the program itself.
#![forbid(unsafe_code)]

pub mod closed;
mod fit;
mod interval;
mod machine;
mod model;
mod predict;
pub mod published;
mod random;
mod remedies;
mod sim;
mod times;

pub use interval::Interval;
pub use machine::{Costs, Kind, Machine};
pub use model::{Change, Class, Lock, Model, SpinShares, Uncertainty, Visit};
pub use predict::{Effort, Prediction, Terms, predict, predict_all};
pub use remedies::{Remedy, remedies};
pub use times::Times;
