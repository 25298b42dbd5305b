//! Boosted programs that were made before, and whether they are still what would be made now.
//!
//! A folder per program and way of boosting holds `made.json` and the merged file, in a folder named
//! after its content. `made.json` has the state of every file that was read, of the loader's cache and of
//! dwell itself: when one of them changes, all is made anew. It is written last.
use super::arguments::How;
use super::make;
use super::output::{PIECE, Pending};
use super::subject::{LOADER_CACHE, Subject};
use anyhow::Context;
use dwell_collector::user_cache;
use dwell_switch::Stamp;
use serde::{Deserialize, Serialize};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// What was made of a program.
#[derive(Serialize, Deserialize, Debug)]
struct Made {
    files: Vec<Stamp>,
    /// The boot that it was made in, where its addresses must be others after the next one.
    #[serde(default)]
    boot: Option<String>,
    /// The merged file, from the program's folder; none when there is a reason.
    boosted: Option<PathBuf>,
    /// Why there is none.
    refused: Option<String>,
}

const MADE: &str = "made.json";

/// The boosted program for a stock one, made now if need be; an error says why there is none.
pub fn boosted(stock: &Path, how: &How) -> anyhow::Result<PathBuf> {
    let folder = folder()?.join(key(stock, how));
    let made = match read(&folder).filter(|made| made.boot == boot(how)) {
        Some(made) => made,
        None => renew(&folder, stock, how)?,
    };
    match made.boosted {
        Some(file) => Ok(folder.join(file)),
        None => anyhow::bail!(made.refused.unwrap_or_default()),
    }
}

/// What was made, unless something changed since.
fn read(folder: &Path) -> Option<Made> {
    let text = fs::read(folder.join(MADE)).ok()?;
    let made: Made = serde_json::from_slice(&text).ok()?;
    let there = |file: &PathBuf| folder.join(file).is_file();
    let current = made.files.iter().all(Stamp::holds) && made.boosted.as_ref().is_none_or(there);
    current.then_some(made)
}

/// Makes it, and removes what was made before.
fn renew(folder: &Path, stock: &Path, how: &How) -> anyhow::Result<Made> {
    make_private(folder)?;
    // States are taken before files are read: a change in between shows next time.
    let own = std::env::current_exe().context("finding dwell's own file")?;
    let mut files = vec![
        Stamp::of(stock),
        Stamp::of(Path::new(LOADER_CACHE)),
        Stamp::of(&own),
    ];
    files.extend(how.profile.iter().map(|profile| Stamp::of(profile)));
    let before = std::time::SystemTime::now();
    let subject = Subject::read(stock.as_os_str(), how);
    if let Ok(subject) = &subject {
        let libraries = subject.inputs.files.iter().skip(1);
        files.extend(libraries.map(|(path, _)| Stamp::of(Path::new(path))));
        anyhow::ensure!(
            files.iter().all(|f| !changed_since(f, before)),
            "its files are just being changed"
        );
    }
    let outcome = subject.and_then(|subject| store(folder, &subject, how));
    let made = match outcome {
        Ok(file) => Made {
            files,
            boot: boot(how),
            boosted: Some(file),
            refused: None,
        },
        Err(why) => Made {
            files,
            boot: boot(how),
            boosted: None,
            refused: Some(format!("{why:#}")),
        },
    };
    let note = folder.join(MADE);
    let pending = Pending::write(&note, &serde_json::to_vec(&made)?, PIECE)?;
    pending.commit(&note).context("noting what was made")?;
    remove_others(folder, made.boosted.as_deref());
    Ok(made)
}

/// The kernel's name for this boot, where it matters.
fn boot(how: &How) -> Option<String> {
    let id = (how.level >= 2).then(|| fs::read_to_string("/proc/sys/kernel/random/boot_id"));
    id?.ok()
}

fn changed_since(stamp: &Stamp, time: std::time::SystemTime) -> bool {
    let since = time
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    stamp
        .changed()
        .is_some_and(|c| c >= (since.as_secs() as i64, i64::from(since.subsec_nanos())))
}

/// Merges, tries, and stores under the content's name.
fn store(folder: &Path, subject: &Subject, how: &How) -> anyhow::Result<PathBuf> {
    let name = subject.path.file_name().context("a program has a name")?;
    let tried = make(subject, &folder.join(name), &how.probes())?;
    let mut hasher = DefaultHasher::new();
    tried.built.bytes.hash(&mut hasher);
    let content = PathBuf::from(format!("{:016x}", hasher.finish()));
    make_private(&folder.join(&content))?;
    let file = content.join(name);
    let to = folder.join(&file);
    tried
        .file
        .commit(&to)
        .with_context(|| format!("writing {}", to.display()))?;
    Ok(file)
}

/// What runs already keeps its file; names are all that goes.
fn remove_others(folder: &Path, boosted: Option<&Path>) {
    let keep = boosted
        .and_then(Path::parent)
        .map(|content| folder.join(content));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|e| e.path()) {
        if path.is_dir() && keep.as_ref() != Some(&path) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Name of the folder for a program and a way of boosting.
fn key(stock: &Path, how: &How) -> String {
    let mut hasher = DefaultHasher::new();
    let version = env!("CARGO_PKG_VERSION");
    (
        version,
        stock,
        how.mode as u8,
        how.level,
        &how.libs,
        &how.test,
        &how.profile,
    )
        .hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Where boosted programs are kept; the user's own folder, or none that is run from.
fn folder() -> anyhow::Result<PathBuf> {
    let folder = user_cache::user_cache("boost")
        .context("neither XDG_CACHE_HOME nor HOME says where to keep it")?;
    make_private(&folder)?;
    Ok(folder)
}

/// Makes a folder that only its owner can change; refuses one that others can, since its files are run.
fn make_private(folder: &Path) -> anyhow::Result<()> {
    user_cache::make_private(folder).with_context(|| {
        format!(
            "{} cannot be used; remove it, or name another place with XDG_CACHE_HOME",
            folder.display()
        )
    })
}
