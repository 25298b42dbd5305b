//! Records that wait for `commit` or `discard`.

use std::collections::HashMap;

use crate::schema::RecordHeader;

/// The records of all speculations that are neither committed nor discarded.
#[derive(Debug, Default)]
pub struct Speculations {
    open: HashMap<u32, Speculation>,
    /// Records that found no room and were not reported yet.
    drops: u64,
}

/// One speculation.
#[derive(Debug, Default)]
struct Speculation {
    records: Vec<(RecordHeader, Box<[u8]>)>,
    /// Their bytes, headers included.
    size: u64,
}

impl Speculations {
    /// Keeps a record for its speculation, or counts it as dropped if that would hold more than `limit` bytes.
    pub fn add(&mut self, header: RecordHeader, data: &[u8], limit: u64) {
        let speculation = self.open.entry(header.speculation).or_default();
        let size = speculation.size + (size_of::<RecordHeader>() + data.len()) as u64;
        if size > limit {
            self.drops += 1;
            return;
        }
        speculation.size = size;
        speculation.records.push((header, data.into()));
    }

    /// The records of a speculation, which ends with that.
    pub fn take(&mut self, id: u32) -> Vec<(RecordHeader, Box<[u8]>)> {
        self.open.remove(&id).unwrap_or_default().records
    }

    /// Records dropped since the last call.
    pub fn take_drops(&mut self) -> u64 {
        std::mem::take(&mut self.drops)
    }
}
