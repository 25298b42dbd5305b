//! `dwell boost activate`, `rollback` and `restore`: the folder of configurations is what they and the daemon share.
use super::super::subject::find;
use super::arguments::{DirArgs, SwitchArgs};
use super::need_root;
use super::staging::now;
use super::status::{Answer, State, answer};
use super::watchdog::restore_all;
use anyhow::Context;
use dwell_switch::{Dirs, Instance, add, configs, note, put_back, rolled_back, set_aside};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// End of the reason of what somebody has taken back.
pub const BY_HAND: &str = "by hand (dwell boost rollback)";

/// Longest wait for the daemon.
const PATIENCE: Duration = Duration::from_secs(120);

/// Allows a program, adding a configuration if it has none, and waits for the daemon.
pub fn activate(args: &SwitchArgs) -> anyhow::Result<ExitCode> {
    need_root()?;
    let dirs = args.dirs.dirs()?;
    anyhow::ensure!(
        Instance::take(&dirs)?.is_err(),
        "no daemon is running, and a boosted program wants one that watches it: start `dwell boost daemon`, or \
         `dwell boost daemon --unit > /etc/systemd/system/dwell-boost.service; systemctl enable --now dwell-boost`"
    );
    let asides = rolled_back(&dirs.config)?;
    let mut names = Vec::new();
    match &args.program {
        None => {
            for aside in &asides {
                put_back(aside)?;
            }
            names.extend(configs(&dirs.config)?.into_iter().flatten().map(|c| c.name));
        }
        Some(program) => {
            let wanted = Wanted::of(program);
            if let Some(aside) = asides
                .iter()
                .find(|a| wanted.is(&a.name, a.config.as_ref().map(|c| &*c.elf_path)))
            {
                put_back(aside)?;
                names.push(aside.name.clone());
            } else if let Some(config) = configs(&dirs.config)?
                .into_iter()
                .flatten()
                .find(|c| wanted.is(&c.name, Some(&c.elf_path)))
            {
                names.push(config.name);
            } else {
                let path = find(program)?;
                let file = add(&dirs.config, &path).context("writing a configuration")?;
                names.push(
                    file.file_stem()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned(),
                );
            }
        }
    }
    anyhow::ensure!(
        !names.is_empty(),
        "{} has no configuration: name a program",
        dirs.config.display()
    );
    let answers = wait(&dirs, |answers| {
        let told = |name: &String| {
            let state = answers
                .programs
                .iter()
                .find(|p| p.name == *name)
                .map(|p| &p.state);
            matches!(
                state,
                Some(State::Boosted | State::Stock | State::RolledBack)
            )
        };
        names.iter().all(told)
    })?;
    let mut code = ExitCode::SUCCESS;
    for program in answers.programs.iter().filter(|p| names.contains(&p.name)) {
        println!("{}", program.line());
        if program.state != State::Boosted {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

/// Takes a program back, for good; also without a daemon.
pub fn rollback(args: &SwitchArgs) -> anyhow::Result<ExitCode> {
    need_root()?;
    let dirs = args.dirs.dirs()?;
    let wanted = args.program.as_deref().map(Wanted::of);
    let is = |name: &str, path: Option<&Path>| wanted.as_ref().is_none_or(|w| w.is(name, path));
    let mut names = Vec::new();
    for config in configs(&dirs.config)? {
        let (name, file) = match &config {
            Ok(config) => (config.name.clone(), &config.file),
            Err(error) => {
                let name = error.file.file_stem().unwrap_or_default();
                (name.to_string_lossy().into_owned(), &error.file)
            }
        };
        if is(&name, config.as_ref().ok().map(|c| &*c.elf_path)) {
            set_aside(file, &[format!("{}: {BY_HAND}", now())], None)?;
            names.push(name);
        }
    }
    // Nor does the daemon allow again what it set aside by itself, once it has found out whose fault a crash was.
    for aside in rolled_back(&dirs.config)? {
        let by_hand = aside.reasons.iter().any(|why| why.ends_with(BY_HAND));
        if !by_hand && is(&aside.name, aside.config.as_ref().map(|c| &*c.elf_path)) {
            note(&aside, &format!("{}: {BY_HAND}", now()))?;
        }
    }
    let records = dirs.journal().records()?;
    names.extend(
        records
            .iter()
            .filter(|r| is(&r.name, Some(&r.path)))
            .map(|r| r.name.clone()),
    );
    anyhow::ensure!(
        !names.is_empty() || wanted.is_none(),
        "{} is not boosted and has no configuration in {}",
        args.program.as_deref().unwrap_or_default().display(),
        dirs.config.display()
    );
    restored(&dirs, &names)
}

/// Restores everything that a dead daemon left, and leaves the configurations alone.
pub fn restore(args: &DirArgs) -> anyhow::Result<ExitCode> {
    need_root()?;
    let dirs = args.dirs()?;
    let names: Vec<String> = dirs
        .journal()
        .records()?
        .into_iter()
        .map(|r| r.name)
        .collect();
    match Instance::take(&dirs)? {
        Ok(instance) => {
            drop(instance);
            restored(&dirs, &names)
        }
        Err(_) => anyhow::bail!(
            "the daemon is running: `dwell boost rollback --all` takes everything back"
        ),
    }
}

/// Waits for the daemon to restore these programs, or does it, where none is running.
fn restored(dirs: &Dirs, names: &[String]) -> anyhow::Result<ExitCode> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Ok(_instance) = Instance::take(dirs)? {
            restore_all(&dirs.journal())?;
        }
        let left = dirs.journal().records()?;
        if !left.iter().any(|r| names.contains(&r.name)) {
            break;
        }
        anyhow::ensure!(
            Instant::now() < end,
            "{} is still there: its package is being unpacked, or the daemon hangs",
            left[0].path.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    for name in names {
        println!("{name}: stock");
    }
    Ok(ExitCode::SUCCESS)
}

fn wait(dirs: &Dirs, over: impl Fn(&Answer) -> bool) -> anyhow::Result<Answer> {
    let end = Instant::now() + PATIENCE;
    loop {
        let answers = answer(dirs)?;
        if over(&answers) {
            return Ok(answers);
        }
        anyhow::ensure!(answers.daemon.is_some(), "the daemon has ended");
        anyhow::ensure!(
            Instant::now() < end,
            "the daemon takes longer than {} s",
            PATIENCE.as_secs()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What was typed: a name, or a path with links followed.
struct Wanted {
    name: String,
    path: Option<PathBuf>,
}

impl Wanted {
    fn of(text: &OsStr) -> Self {
        Wanted {
            name: text.to_string_lossy().into_owned(),
            path: find(text).ok(),
        }
    }

    fn is(&self, name: &str, path: Option<&Path>) -> bool {
        let real = path.map(|p| p.canonicalize().unwrap_or_else(|_| p.to_owned()));
        self.name == name
            || (real.is_some() && real == self.path)
            || path == Some(Path::new(&self.name))
    }
}
