//! The folder of a recording: names of its files, and writes that are whole or not there.
use crate::buffers::TABLES;
use crate::error::RecordingError;
use crate::whole::write_whole;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file that says what the recording is, and up to which segment it holds.
pub const META: &str = "meta.json";
/// Space kept for the last words of a recording on a full disk.
pub const RESERVE: &str = ".reserve";
/// A file begun and not yet in its place.
const UNFINISHED: &str = ".unfinished";

/// Name of a segment's file. Numbers past 9999 get longer; order by number, not by name.
pub fn segment_name(table: &str, segment: u32) -> String {
    format!("{table}-{segment:04}.parquet")
}

/// The table and number that a file name stands for.
fn parse_segment_name(name: &str) -> Option<(&'static str, u32)> {
    let (table, number) = name.strip_suffix(".parquet")?.rsplit_once('-')?;
    let table = TABLES.into_iter().find(|known| *known == table)?;
    let number = number.parse().ok()?;
    (segment_name(table, number) == name).then_some((table, number))
}

fn is_ours(name: &str) -> bool {
    name == META || name == RESERVE || name == UNFINISHED || parse_segment_name(name).is_some()
}

/// What a folder holds, as far as recordings are concerned.
#[derive(Debug, Default)]
pub struct Listing {
    /// Numbers of the segments of each table, in order.
    pub segments: BTreeMap<&'static str, Vec<u32>>,
    /// Names of files that a recording may have, segments included.
    pub ours: Vec<String>,
    /// One name that no recording has.
    pub foreign: Option<String>,
}

/// Lists a folder.
pub fn list(path: &Path) -> Result<Listing, RecordingError> {
    let failed = |source| RecordingError::io("read", path, source);
    let mut listing = Listing::default();
    for entry in fs::read_dir(path).map_err(failed)? {
        let name = entry
            .map_err(failed)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if let Some((table, number)) = parse_segment_name(&name) {
            listing.segments.entry(table).or_default().push(number);
        }
        if is_ours(&name) {
            listing.ours.push(name);
        } else {
            listing.foreign = Some(name);
        }
    }
    listing
        .segments
        .values_mut()
        .for_each(|numbers| numbers.sort_unstable());
    Ok(listing)
}

/// Puts `bytes` in place under `name`, see [`write_whole`].
pub fn write_into(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), RecordingError> {
    let path = folder.join(name);
    write_whole(&folder.join(UNFINISHED), &path, bytes)
        .map_err(|source| RecordingError::write(&path, source))
}

/// Removes a file; one that is not there is removed already.
pub fn remove(path: &Path) -> Result<(), RecordingError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(RecordingError::io("remove", path, source))
        }
        _ => Ok(()),
    }
}

/// The path of a segment's file.
pub fn segment_path(folder: &Path, table: &str, segment: u32) -> PathBuf {
    folder.join(segment_name(table, segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_are_read_back_and_nothing_else_is() {
        for number in [0, 7, 9999, 10_000, u32::MAX] {
            assert_eq!(
                parse_segment_name(&segment_name("site_times", number)),
                Some(("site_times", number))
            );
        }
        for name in [
            "samples.parquet",
            "samples-1.parquet",
            "samples-00001.parquet",
            "other-0001.parquet",
            "samples--001.parquet",
            "samples-+001.parquet",
            "samples-99999999999.parquet",
            ".samples-0001.parquet",
        ] {
            assert_eq!(parse_segment_name(name), None, "{name}");
        }
    }
}
