//! Debug files from debuginfod servers, kept in the same cache as elfutils keeps them.
use std::collections::HashSet;
use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use ureq::tls::TlsConfig;

use crate::certificates;
use crate::debug_files::hex;
use crate::elf::Elf;
use crate::files;
use crate::notes::Notes;

/// How long a server's "not found" is believed.
const MISS_AGE: Duration = Duration::from_secs(600);
/// With less time left than this, asking is pointless.
const LEAST_TIME: Duration = Duration::from_millis(50);

/// Which debuginfod servers to ask, and how much of their time to take.
#[derive(Clone, Debug)]
pub struct Debuginfod {
    /// Base addresses, asked in this order.
    pub urls: Vec<String>,
    /// Directory of downloaded files, `BUILDID/debuginfo` below it.
    pub cache: PathBuf,
    /// Longest wait for one file.
    pub timeout: Duration,
    /// Longest wait for all files together.
    pub budget: Duration,
    /// Largest file that is downloaded, bytes.
    pub max_size: u64,
}

impl Debuginfod {
    /// From `DEBUGINFOD_URLS` (none: nothing is asked), `DEBUGINFOD_CACHE_PATH`,
    /// `DEBUGINFOD_TIMEOUT` (seconds) and `DEBUGINFOD_MAXSIZE` (bytes), with a budget of 10 s.
    pub fn from_env() -> Option<Self> {
        let urls = web_addresses(&env::var("DEBUGINFOD_URLS").ok()?);
        let number = |name| {
            env::var(name)
                .ok()?
                .trim()
                .parse::<u64>()
                .ok()
                .filter(|&n| n > 0)
        };
        (!urls.is_empty()).then_some(())?;
        Some(Self {
            urls,
            cache: cache_directory()?,
            timeout: Duration::from_secs(number("DEBUGINFOD_TIMEOUT").unwrap_or(90)),
            budget: Duration::from_secs(10),
            max_size: number("DEBUGINFOD_MAXSIZE").unwrap_or(2 << 30),
        })
    }
}

/// The web addresses in a list separated by spaces, which may hold other words as well.
fn web_addresses(list: &str) -> Vec<String> {
    list.split_ascii_whitespace()
        .filter(|url| url.starts_with("http://") || url.starts_with("https://"))
        .map(|url| url.trim_end_matches('/').to_owned())
        .collect()
}

fn cache_directory() -> Option<PathBuf> {
    let path = |name| {
        env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    path("DEBUGINFOD_CACHE_PATH")
        .or_else(|| path("XDG_CACHE_HOME").map(|d| d.join("debuginfod_client")))
        .or_else(|| path("HOME").map(|d| d.join(".cache/debuginfod_client")))
}

/// Why a server gave no file.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("not found")]
    NotFound,
    #[error("{0}")]
    Request(Box<ureq::Error>),
    #[error(
        "writing to {path} failed: {source}; set DEBUGINFOD_CACHE_PATH to a directory with room"
    )]
    Cache { path: PathBuf, source: io::Error },
    #[error("the answer breaks off: {0}")]
    Body(io::Error),
    #[error("the answer is larger than {0} bytes (DEBUGINFOD_MAXSIZE)")]
    TooLarge(u64),
    #[error("the answer has another build id than the one asked for")]
    WrongBuild,
}

/// Asks servers within the budget, and remembers what they do not have.
pub(crate) struct Client {
    config: Debuginfod,
    spent: Duration,
    missing: HashSet<Vec<u8>>,
}

impl Client {
    pub(crate) fn new(config: Debuginfod) -> Self {
        Self {
            config,
            spent: Duration::ZERO,
            missing: HashSet::new(),
        }
    }

    /// Path of the debug file with this build id, from the cache or from a server.
    pub(crate) fn find(&mut self, build_id: &[u8], notes: &mut Notes) -> Option<PathBuf> {
        if self.missing.contains(build_id) {
            return None;
        }
        let path = self.config.cache.join(hex(build_id)).join("debuginfo");
        let found = match cached(&path, build_id) {
            Cached::File => return Some(path),
            Cached::Miss => false,
            Cached::Unknown => self.ask_all(build_id, &path, notes),
        };
        if !found {
            self.missing.insert(build_id.to_vec());
        }
        found.then_some(path)
    }

    fn ask_all(&mut self, build_id: &[u8], path: &Path, notes: &mut Notes) -> bool {
        let mut nowhere = true;
        for url in self.config.urls.clone() {
            let left = self.config.budget.saturating_sub(self.spent);
            if left < LEAST_TIME {
                notes.add(format!(
                    "debuginfod: the {} s allowed for downloads are used up; some modules have no source lines this time",
                    self.config.budget.as_secs_f32()
                ));
                return false;
            }
            let started = Instant::now();
            let answer = self.ask(&url, build_id, path, left.min(self.config.timeout));
            self.spent += started.elapsed();
            match answer {
                Ok(()) => return true,
                Err(FetchError::NotFound) => {}
                Err(error) => {
                    nowhere = false;
                    notes.add(format!("debuginfod: {url}: {error}"));
                }
            }
        }
        if nowhere {
            remember_miss(path);
        }
        false
    }

    /// Downloads beside `path`, verifies, and renames, so that what stands at `path` is whole.
    fn ask(&self, url: &str, id: &[u8], path: &Path, wait: Duration) -> Result<(), FetchError> {
        let cache_error = |source| FetchError::Cache {
            path: path.to_owned(),
            source,
        };
        let mut body = request(&format!("{url}/buildid/{}/debuginfo", hex(id)), wait)?;
        fs::create_dir_all(files::directory(path)).map_err(cache_error)?;
        let part = path.with_extension(std::process::id().to_string());
        let result = download(&mut body, &part, self.config.max_size)
            .and_then(|()| {
                is_build(&part, id)
                    .then_some(())
                    .ok_or(FetchError::WrongBuild)
            })
            .and_then(|()| fs::rename(&part, path).map_err(cache_error));
        if result.is_err() {
            let _ = fs::remove_file(&part);
        }
        result
    }
}

fn request(url: &str, wait: Duration) -> Result<impl Read + 'static, FetchError> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(wait))
        .tls_config(TlsConfig::builder().root_certs(certificates()).build())
        .build();
    match config.new_agent().get(url).call() {
        Ok(response) => Ok(response
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader()),
        Err(ureq::Error::StatusCode(404 | 410)) => Err(FetchError::NotFound),
        Err(error) => Err(FetchError::Request(Box::new(error))),
    }
}

fn download(body: &mut impl Read, part: &Path, max: u64) -> Result<(), FetchError> {
    let cache_error = |source| FetchError::Cache {
        path: part.to_owned(),
        source,
    };
    let mut file = fs::OpenOptions::new();
    let mut file = file
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(part)
        .map_err(cache_error)?;
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        let length = body.read(&mut buffer).map_err(FetchError::Body)?;
        if length == 0 {
            break;
        }
        total += length as u64;
        if total > max {
            return Err(FetchError::TooLarge(max));
        }
        io::Write::write_all(&mut file, &buffer[..length]).map_err(cache_error)?;
    }
    file.set_permissions(fs::Permissions::from_mode(0o400))
        .map_err(cache_error)
}

/// What the cache says about a file.
enum Cached {
    File,
    Miss,
    Unknown,
}

fn cached(path: &Path, build_id: &[u8]) -> Cached {
    let Ok(meta) = fs::metadata(path) else {
        return Cached::Unknown;
    };
    if meta.len() > 0 {
        return if is_build(path, build_id) {
            Cached::File
        } else {
            Cached::Unknown
        };
    }
    let age = meta
        .modified()
        .ok()
        .and_then(|t| SystemTime::now().duration_since(t).ok());
    if age.is_some_and(|age| age < MISS_AGE) {
        Cached::Miss
    } else {
        Cached::Unknown
    }
}

/// An empty file stands for "no server has it", as elfutils understands it too. Failing to
/// leave it costs only another question next time.
fn remember_miss(path: &Path) {
    let _ = fs::create_dir_all(files::directory(path));
    let _ = fs::remove_file(path);
    let _ = File::options()
        .write(true)
        .create_new(true)
        .mode(0o000)
        .open(path);
}

fn is_build(path: &Path, build_id: &[u8]) -> bool {
    let map = files::open_regular(path).and_then(|file| files::map(&file));
    map.is_ok_and(|map| Elf::parse(&map).is_some_and(|elf| elf.build_id() == Some(build_id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_asked() {
        let list = "https://a.example/  ima:enforcing file:///x http://b.example:8002";
        assert_eq!(
            web_addresses(list),
            ["https://a.example", "http://b.example:8002"]
        );
    }
}
