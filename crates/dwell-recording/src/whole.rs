//! Files that are written and read whole.
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Writes a file by way of `unfinished`, in the same folder: a reader sees all of `bytes` or the file that was there before.
///
/// Nothing is forced to the disk: a killed process loses nothing by that, and a machine that loses
/// power loses what its kernel had not written yet.
pub fn write_whole(unfinished: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let written = fs::write(unfinished, bytes).and_then(|()| fs::rename(unfinished, path));
    written.inspect_err(|_| {
        // Half a file on a full disk only makes it fuller.
        let _ = fs::remove_file(unfinished);
    })
}

/// Reads a file of at most `limit` bytes whole.
pub fn read_whole(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(limit)).unwrap_or(0));
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("larger than {limit} bytes"),
        ));
    }
    Ok(bytes)
}
