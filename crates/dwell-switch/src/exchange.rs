//! Two files change their names, and back.
//!
//! Whatever happens in between, the path has a whole program, and a version that somebody else put there survives:
//! after each exchange it is looked at what came out, and what is neither ours nor the old one goes back.
use crate::divert;
use crate::journal::Record;
use crate::stamp::Identity;
use crate::switch::{Restored, SwitchError, remove, sync, system};
use crate::way::Way;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where the stock program is while it is boosted: beside it, since programs look for files near themselves.
pub fn stock_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.dwell-stock"))
}

/// Whether a package manager is unpacking the program (dpkg's and rpm's names), or may be: nothing is switched then.
pub fn is_unpacked(way: &Way, path: &Path) -> bool {
    match way {
        Way::Divert => divert::dpkg_runs() || has_new(path) || has_new(&stock_path(path)),
        Way::Exchange | Way::Bind { .. } | Way::Binfmt { .. } => has_new(path),
    }
}

fn has_new(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = [".dpkg-tmp", ".dpkg-new"].map(|end| path.with_file_name(format!("{name}{end}")));
    beside.iter().any(|b| fs::symlink_metadata(b).is_ok())
}

/// Puts the boosted program, which is at [`stock_path`], in the stock one's place.
pub(crate) fn put(record: &Record) -> Result<(), SwitchError> {
    let (path, stock) = (&record.path, &stock_path(&record.path));
    if record.way == Way::Divert {
        let told = divert::set(path, stock);
        told.map_err(|error| system("diverting", path, error))?;
    }
    exchange(path, stock)?;
    let came = (Identity::of(path), Identity::of(stock));
    if came != (Some(record.boosted), Some(record.stock)) {
        return Err(SwitchError::Replaced(path.clone()));
    }
    sync(path)
}

/// Takes a program back, whatever of it was done.
pub(crate) fn take_back(record: &Record) -> Result<Restored, SwitchError> {
    for _ in 0..100 {
        match step(record)? {
            Step::Again => {}
            Step::Wait => return Ok(Restored::UpgradeUnderWay),
            Step::Done => return Ok(Restored::Done),
        }
    }
    Err(SwitchError::Restless(record.path.clone()))
}

enum Step {
    Again,
    /// The package manager first.
    Wait,
    Done,
}

/// Does what is next, by what has the two names.
fn step(record: &Record) -> Result<Step, SwitchError> {
    let (path, stock) = (&record.path, &stock_path(&record.path));
    let (at_path, at_stock) = (Identity::of(path), Identity::of(stock));
    let (boosted, old) = (Some(record.boosted), Some(record.stock));
    let diverted = record.way == Way::Divert;
    if at_path == boosted && diverted && divert::dpkg_runs() {
        // It would go on writing to the hidden name.
        return Ok(Step::Wait);
    }
    if at_path == boosted && at_stock.is_some() {
        exchange(path, stock)?;
    } else if at_path == boosted && diverted && !divert::has_package(path) {
        // Its package was removed, and the stock program with it.
        remove(path)?;
    } else if at_path == boosted {
        return Err(SwitchError::StockGone {
            path: path.clone(),
            stock: stock.clone(),
        });
    } else if at_stock == boosted {
        remove(stock)?;
    } else if at_stock == old && is_unpacked(&record.way, path) {
        return Ok(Step::Wait);
    } else if at_stock == old {
        // Somebody replaced or removed the boosted program.
        remove(stock)?;
    } else if at_stock.is_some() && at_path == old {
        // A new version came between two looks and was exchanged for the old one.
        exchange(path, stock)?;
    } else if diverted {
        return undivert(record, stock);
    } else {
        return Ok(Step::Done);
    }
    Ok(Step::Again)
}

/// A dpkg that runs may have either list in memory: when it has ended it is looked at where the program is.
fn undivert(record: &Record, stock: &Path) -> Result<Step, SwitchError> {
    if divert::dpkg_runs() {
        return Ok(Step::Wait);
    }
    let taken_back = divert::unset(&record.path, stock);
    taken_back.map_err(|error| system("taking back the diversion of", &record.path, error))?;
    match divert::dpkg_runs() {
        true => Ok(Step::Wait),
        false => Ok(Step::Done),
    }
}

fn exchange(one: &Path, other: &Path) -> Result<(), SwitchError> {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (Ok(from), Ok(to)) = (name(one), name(other)) else {
        return Ok(());
    };
    // SAFETY: both paths end with a zero.
    let result = unsafe {
        libc::renameat2(
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // One of them went away: who called looks again.
        Some(libc::ENOENT) => Ok(()),
        Some(libc::EINVAL | libc::ENOSYS) => Err(SwitchError::NoExchange(one.to_owned())),
        _ => Err(system("switching", one, error)),
    }
}
