//! `meta.json` on disk: [`Meta`] and, beside it, which segments belong to the recording.
use crate::error::RecordingError;
use crate::folder::{self, META};
use crate::meta::Meta;
use crate::upgrade;
use crate::whole::read_whole;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Size of `meta.json` at most.
const MAX_META_BYTES: u64 = 16 << 20;

/// The segments of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSegments {
    /// Number of its first segment; files with lower numbers were merged into that one.
    pub first: u32,
    /// Number of its last segment.
    pub last: u32,
    /// Files from `first` to `last`. A table without rows in a segment has no file there.
    pub files: u64,
    /// Rows in these files.
    pub rows: u64,
}

impl TableSegments {
    /// Counts one more segment in.
    pub fn add(&mut self, segment: u32, rows: usize) {
        if self.files == 0 {
            self.first = segment;
        }
        self.last = segment;
        self.files += 1;
        self.rows += rows as u64;
    }
}

/// Everything in `meta.json`. It is written after the files it counts: a segment that it does not
/// know of was never closed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    #[serde(flatten)]
    pub meta: Meta,
    /// Segments closed so far, which is the number of the next one.
    pub segments: u32,
    /// Every table that has rows.
    pub tables: BTreeMap<String, TableSegments>,
}

impl Manifest {
    /// Writes `meta.json`.
    pub fn write(&self, path: &Path) -> Result<(), RecordingError> {
        let mut json = serde_json::to_vec_pretty(self).map_err(|error| RecordingError::Meta {
            path: path.join(META),
            reason: error.to_string(),
        })?;
        json.push(b'\n');
        folder::write_into(path, META, &json)
    }

    /// Reads `meta.json` and brings it to this format version; also the version it had.
    pub fn read(path: &Path) -> Result<(Self, u32), RecordingError> {
        if !path.is_dir() {
            let reason = if path.exists() {
                "it is not a folder"
            } else {
                "there is nothing of that name"
            };
            return Err(RecordingError::NotARecording {
                path: path.to_path_buf(),
                reason: reason.into(),
            });
        }
        let file = path.join(META);
        let json = read_whole(&file, MAX_META_BYTES).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => RecordingError::NotARecording {
                path: path.to_path_buf(),
                reason: "it has no meta.json".into(),
            },
            std::io::ErrorKind::InvalidData => RecordingError::Meta {
                path: file.clone(),
                reason: source.to_string(),
            },
            _ => RecordingError::io("read", &file, source),
        })?;
        let damaged = |reason: String| RecordingError::Meta {
            path: file.clone(),
            reason,
        };
        let mut value =
            serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?;
        let version = upgrade::upgrade_meta(&mut value, &file)?;
        let manifest: Self =
            serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
        Ok((manifest, version))
    }
}
