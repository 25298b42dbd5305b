//! Recordings to where many are kept.
//!
//! A [`Destination`] is a store of Parquet files (a folder or a bucket of S3; [`layout`] says what lies where) or a
//! server that takes profiles (Pyroscope, a collector of OpenTelemetry). A [`Parcel`] is what is delivered. The
//! [`Spool`] keeps recordings until they are delivered, within a size; [`Backoff`] says when to try again.
#![forbid(unsafe_code)]

mod backoff;
mod client;
mod destination;
mod error;
mod parcel;
mod push;
mod store;

pub mod layout;
pub mod spool;

pub use backoff::Backoff;
pub use client::Client;
pub use destination::Destination;
pub use error::{DeliveryError, Minds};
pub use parcel::{Parcel, Service};
pub use push::Push;
pub use spool::Spool;
pub use store::Store;
