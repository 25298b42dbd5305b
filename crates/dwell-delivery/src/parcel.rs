//! What is delivered.
use crate::layout::Origin;
use dwell_recording::{Recording, RecordingError, Tables};
use dwell_report::Analysis;

/// A service, as its users know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Whether all that was recorded is that service. Else every process is one of its own, where processes are told
    /// apart.
    pub is_all: bool,
}

/// A recording on its way.
pub struct Parcel {
    /// The recording.
    pub recording: Recording,
    /// Where it comes from.
    pub origin: Origin,
    pub(crate) service: Service,
    tables: Option<Tables>,
}

impl Parcel {
    /// A recording of a service.
    pub fn new(recording: Recording, service: Service) -> Self {
        Parcel {
            origin: Origin::of(recording.meta(), &service.name),
            service,
            recording,
            tables: None,
        }
    }

    /// The analysis of it. What is read for one destination serves the others.
    pub(crate) fn analysis(&mut self) -> Result<Analysis<'_>, RecordingError> {
        let tables = match self.tables.take() {
            Some(tables) => tables,
            None => self.recording.load()?,
        };
        Ok(Analysis::of(self.tables.insert(tables)))
    }
}
