//! Makes the boosted file that is to take a program's place, and tries it out; nothing is switched yet.
use super::super::arguments::{How, Mode};
use super::super::subject::{LOADER_CACHE, Subject, find};
use super::super::trial::{self, Probe, Times, Verdict};
use super::super::{Tried, environment, make};
use super::rights::take_rights;
use anyhow::Context;
use dwell_booster::{FileState, StandIn, is_merged};
use dwell_elf::ElfFile;
use dwell_switch::{Config, Dirs, Gain, Identity, Record, Stamp, Way};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Pairs of runs of a measurement.
const PAIRS: usize = 25;
/// A boosted program that is slower than this many times the stock one, three times over, is not used.
const SLOWEST: f64 = 1.02;

/// What was made of a configuration.
#[derive(Debug)]
pub struct Staged {
    /// What it was made for.
    pub config: Config,
    /// Everything that it depends on, the program included: with another state the outcome may be another.
    pub inputs: Vec<Stamp>,
    pub outcome: Outcome,
}

/// How it went.
#[derive(Debug)]
pub enum Outcome {
    /// The file is where its way wants it made.
    Ready(Box<Record>),
    /// It works, but is no gain: how many times as long it takes, and its build id.
    Slower(f64, String),
    /// It cannot be made, or does not work.
    Refused(String),
}

/// Makes it.
pub fn stage(dirs: &Dirs, config: Config) -> Staged {
    let mut inputs = vec![
        Stamp::of(&config.elf_path),
        Stamp::of(Path::new(LOADER_CACHE)),
    ];
    inputs.push(Stamp::of(Path::new("/etc/ld.so.preload")));
    let watched = config.watch_paths.iter().chain(&config.profile_path);
    inputs.extend(watched.map(|p| Stamp::of(p)));
    let guard = dirs.new_guard(&config.name);
    let outcome = try_to_stage((dirs, &guard), &config, &mut inputs);
    if !matches!(outcome, Ok(Outcome::Ready(_))) {
        let _ = fs::remove_file(&guard);
    }
    Staged {
        config,
        inputs,
        outcome: outcome.unwrap_or_else(|why| Outcome::Refused(format!("{why:#}"))),
    }
}

/// Build id of what would be made of a configuration now; hexadecimal.
pub fn build_id_now(config: &Config) -> anyhow::Result<String> {
    let subject = Subject::read(config.elf_path.as_os_str(), &how(config)?)?;
    build_id(&dwell_booster::build(&subject.inputs, &subject.options)?.bytes)
}

fn build_id(bytes: &[u8]) -> anyhow::Result<String> {
    let elf = ElfFile::parse(bytes).context("reading the merged file")?;
    let id = elf.build_id().context("the merged file has no build id")?;
    Ok(id.iter().map(|b| format!("{b:02x}")).collect())
}

fn try_to_stage(
    (dirs, guard): (&Dirs, &Path),
    config: &Config,
    inputs: &mut Vec<Stamp>,
) -> anyhow::Result<Outcome> {
    let how = how(config)?;
    let way = Way::of(config, dirs);
    let path = find(config.elf_path.as_os_str())?;
    // What would fail in the end is told before anything is made.
    if let Some(why) = way.obstacle(&path) {
        anyhow::bail!(why);
    }
    if let Some(why) = environment::obstacle() {
        anyhow::bail!("{why}: what would be tried is not what others run");
    }
    let to = way.made_at(&path);
    clear(&path, &to)?;
    let stock = Identity::of(&path).context("the program is gone")?;
    for file in [guard, &to] {
        fs::create_dir_all(file.parent().context("a file is in a folder")?)?;
    }
    fs::write(guard, "")?;
    let mut subject = Subject::read(path.as_os_str(), &how)?;
    anyhow::ensure!(
        Identity::of(&path) == Some(stock),
        "it is just being replaced"
    );
    check_listener(config, &subject)?;
    match way {
        // Without a guard: starts of the program come to the stock file as soon as the entry is gone.
        Way::Binfmt { .. } => subject.options.registered = Some(states(&subject)?),
        _ => {
            subject.options.stand_in = Some(StandIn {
                guard: Some(c_string(guard)?),
                stock: c_string(&way.stock_at(&path))?,
            });
        }
    }
    let libraries = subject.inputs.files.iter().skip(1);
    let libraries: Vec<Stamp> = libraries
        .map(|(path, _)| Stamp::of(Path::new(path)))
        .collect();
    inputs.extend(libraries.iter().cloned());
    let tried = make(&subject, &to, &how.probes())?;
    let id = build_id(&tried.built.bytes)?;
    let times = measure(&path, &tried)?;
    if is_slower(&times) {
        return Ok(Outcome::Slower(times.ratio, id));
    }
    take_rights(&path, tried.file.path())?;
    let Tried { built, file, .. } = tried;
    file.commit(&to)
        .with_context(|| format!("writing {}", to.display()))?;
    Ok(Outcome::Ready(Box::new(Record {
        name: config.name.clone(),
        config: config.file.clone(),
        stock,
        boosted: Identity::of(&to).context("the merged file is gone")?,
        path,
        way,
        guard: guard.to_owned(),
        // Without the program, which is switched, and known by its identity.
        stamps: inputs[1..].to_vec(),
        build_id: id,
        libraries: built.merged,
        gain: Gain {
            stock_ns: times.stock_ns,
            boosted_ns: times.boosted_ns,
            ratio: times.ratio,
        },
        since: seconds_now(),
    })))
}

fn c_string(path: &Path) -> anyhow::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// By what the boosted file knows the files again that it is made of.
fn states(subject: &Subject) -> anyhow::Result<HashMap<String, FileState>> {
    let preload = Path::new("/etc/ld.so.preload");
    anyhow::ensure!(
        !preload.exists(),
        "{} exists, where with redirect = \"binfmt\" the stock program runs: remove it, if it is empty",
        preload.display()
    );
    let paths = subject.inputs.files.iter().map(|(path, _)| path);
    let state = |path: &String| {
        let state = Stamp::of(Path::new(path)).state();
        let state = state.with_context(|| format!("{path} is gone"))?;
        let (device, inode, size, seconds, ns) = state;
        let state = FileState {
            device,
            inode,
            size,
            changed: (seconds, ns),
        };
        Ok((path.clone(), state))
    };
    paths.map(state).collect()
}

fn how(config: &Config) -> anyhow::Result<How> {
    let how = How {
        mode: match config.mode {
            dwell_switch::Mode::Static => Mode::Static,
            dwell_switch::Mode::StaticNolibc => Mode::StaticNolibc,
        },
        level: config.level,
        libs: config.libs.clone(),
        profile: config.profile_path.clone(),
        test: config.test.clone(),
    };
    how.check()?;
    Ok(how)
}

/// Level 2 and up give all processes of a program the same addresses: who takes connections does not get them unasked.
fn check_listener(config: &Config, subject: &Subject) -> anyhow::Result<()> {
    if config.level < 2 || config.fixed_addresses {
        return Ok(());
    }
    if let Some(who) = dwell_booster::listener(&subject.inputs) {
        anyhow::bail!(
            "it may take connections from others ({who} calls listen), and at level {} its addresses are the same in \
             every process until the next boot: use level = 1, or allow it with fixed_addresses = true",
            config.level
        );
    }
    Ok(())
}

/// Removes what a build that was killed left at the hidden name; never a stock program.
fn clear(path: &Path, hidden: &Path) -> anyhow::Result<()> {
    let ours = |path: &Path| fs::read(path).is_ok_and(|bytes| is_merged(&bytes));
    let there = fs::symlink_metadata(hidden).is_ok();
    match (ours(path), there) {
        (true, true) if !ours(hidden) => {
            fs::rename(hidden, path).with_context(|| format!("restoring {}", path.display()))
        }
        (true, _) => anyhow::bail!(
            "{} is a boosted file whose stock program is lost: reinstall its package",
            path.display()
        ),
        (false, true) if ours(hidden) => Ok(fs::remove_file(hidden)?),
        (false, true) => anyhow::bail!(
            "{} is there, but is not dwell's: remove it, or rename it",
            hidden.display()
        ),
        (false, false) => Ok(()),
    }
}

/// Both ways of looking at it must say so.
fn is_slower(times: &Times) -> bool {
    times.ratio > SLOWEST && times.fastest_ratio > SLOWEST
}

/// Others' work disturbs: only what is slower again and again is.
fn measure(stock: &Path, tried: &Tried) -> anyhow::Result<Times> {
    let ends = |(_, verdict): &&(Probe, Verdict)| *verdict != Verdict::Endless;
    let (probe, _) = tried
        .verdicts
        .iter()
        .find(ends)
        .context("nothing was tried")?;
    let mut best = trial::measure(stock, (stock, tried.file.path()), probe, PAIRS)?;
    for _ in 0..2 {
        if !is_slower(&best) {
            break;
        }
        let again = trial::measure(stock, (stock, tried.file.path()), probe, PAIRS)?;
        if !is_slower(&again) || again.ratio < best.ratio {
            best = again;
        }
    }
    Ok(best)
}

pub fn seconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}

/// This instant, as people and their tools write it: `2026-11-23 03:13:07 UTC`.
pub fn now() -> String {
    chrono::Utc::now()
        .format("%Y-%m-%d %H:%M:%S UTC")
        .to_string()
}

/// Files beside the inputs whose change matters: the program where links lead.
pub fn real_path(config: &Config) -> PathBuf {
    fs::canonicalize(&config.elf_path).unwrap_or_else(|_| config.elf_path.clone())
}
