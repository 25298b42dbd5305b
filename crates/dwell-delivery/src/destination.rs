//! Where recordings go.
use crate::client::Client;
use crate::error::DeliveryError;
use crate::parcel::Parcel;
use crate::push::Push;
use crate::store::Store;
use std::fmt;

/// A store or a server.
#[derive(Clone, Debug)]
pub enum Destination {
    /// Keeps the recording's tables.
    Store(Store),
    /// Takes the profile.
    Push(Push),
}

impl Destination {
    /// Delivers a recording; once more does no harm.
    pub fn deliver(&self, parcel: &mut Parcel, client: &Client) -> Result<(), DeliveryError> {
        match self {
            Destination::Store(store) => store.keep(parcel, client),
            Destination::Push(push) => push.send(parcel, client),
        }
    }
}

/// Its address, without a password.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Store(store) => store.fmt(f),
            Destination::Push(push) => push.fmt(f),
        }
    }
}
