//! `dwell boost status`: what is switched on, from the files themselves; what the daemon says is why the rest is not.
use super::arguments::StatusArgs;
use super::programs::Told;
use super::staging::seconds_now;
use super::{TOLD, need_root};
use dwell_switch::{Dirs, Gain, Instance, Way, configs, is_on, rolled_back};
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Everything.
#[derive(Serialize)]
pub struct Answer {
    /// Process number of the daemon, if one is running.
    pub daemon: Option<u32>,
    pub programs: Vec<Program>,
    /// What is wrong with configurations.
    pub wrong: Vec<String>,
    /// Why crashes are not seen.
    pub crashes_not_seen: Option<String>,
}

/// What runs when the program is started.
#[derive(Serialize, PartialEq, Eq, Clone, Copy, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Boosted,
    /// The daemon makes it, or will.
    Making,
    Stock,
    RolledBack,
}

/// One program.
#[derive(Serialize)]
pub struct Program {
    pub name: String,
    pub path: PathBuf,
    pub state: State,
    /// Why it is not boosted, or what is known of its crashes.
    pub why: Vec<String>,
    /// How the boosted file is in its place, as configurations name it.
    pub redirect: Option<&'static str>,
    pub gain: Option<Gain>,
    /// Size of the boosted file: what the page cache holds at most beside the stock program's.
    pub bytes: Option<u64>,
    /// How many processes run the boosted file.
    pub processes: Option<usize>,
    /// Of files, what the process of it that has most has on huge pages, bytes; none when no process runs it.
    pub huge_bytes: Option<u64>,
    /// Since when it is boosted, s.
    pub age_s: Option<u64>,
    /// Merged libraries.
    pub libraries: Vec<String>,
}

/// Prints it.
pub fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    need_root()?;
    let answer = answer(&args.dirs.dirs()?)?;
    let mut to = std::io::stdout();
    if args.json {
        writeln!(to, "{}", serde_json::to_string_pretty(&answer)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    match answer.daemon {
        Some(pid) => writeln!(to, "daemon: process {pid}")?,
        None => writeln!(to, "daemon: none is running; all programs should be stock")?,
    }
    for program in &answer.programs {
        writeln!(to, "{}", program.line())?;
    }
    for wrong in &answer.wrong {
        writeln!(to, "wrong: {wrong}")?;
    }
    if let Some(why) = &answer.crashes_not_seen {
        writeln!(to, "crashes are not seen: {why}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds it out.
pub fn answer(dirs: &Dirs) -> anyhow::Result<Answer> {
    let daemon = Instance::take(dirs)?.err();
    let told = fs::read(dirs.run.join(TOLD)).ok();
    let told: Told = told
        .and_then(|t| serde_json::from_slice(&t).ok())
        .unwrap_or_default();
    // What a daemon before said is of no interest.
    let told = if daemon.as_ref().is_some_and(|d| d.pid == Some(told.pid)) {
        told
    } else {
        Told::default()
    };
    let mut programs = boosted(dirs)?;
    for program in &mut programs {
        let said = told.programs.get(&program.name);
        let said = said.filter(|(state, why)| state == "boosted" && !why.is_empty());
        program.why.extend(said.map(|(_, why)| why.clone()));
    }
    for config in configs(&dirs.config)?.into_iter().flatten() {
        if programs.iter().any(|p| p.name == config.name) {
            continue;
        }
        let (state, why) = match told.programs.get(&config.name) {
            Some((state, why)) if state == "stock" => (State::Stock, vec![why.clone()]),
            _ if daemon.is_none() => (State::Stock, vec!["no daemon is running".to_owned()]),
            _ => (State::Making, Vec::new()),
        };
        programs.push(Program::not_boosted(
            config.name,
            config.elf_path,
            state,
            why,
        ));
    }
    for aside in rolled_back(&dirs.config)? {
        let path = aside.config.map(|c| c.elf_path).unwrap_or_default();
        programs.push(Program::not_boosted(
            aside.name,
            path,
            State::RolledBack,
            aside.reasons,
        ));
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    let errors = configs(&dirs.config)?.into_iter().filter_map(Result::err);
    let mut wrong: Vec<String> = errors.map(|e| e.to_string()).collect();
    let told_too: Vec<String> = told
        .wrong
        .into_iter()
        .filter(|w| !wrong.contains(w))
        .collect();
    wrong.extend(told_too);
    Ok(Answer {
        daemon: daemon.map(|d| d.pid.unwrap_or_default()),
        programs,
        wrong,
        crashes_not_seen: told.crashes,
    })
}

fn boosted(dirs: &Dirs) -> anyhow::Result<Vec<Program>> {
    let records = dirs.journal().records()?;
    let on = records.into_iter().filter(is_on);
    Ok(on
        .map(|record| {
            let processes = processes(record.boosted.number());
            Program {
                state: State::Boosted,
                why: from_when(&record.way),
                redirect: Some(record.way.name()),
                gain: Some(record.gain),
                bytes: Some(record.boosted.size()),
                processes: Some(processes.len()),
                huge_bytes: processes.iter().filter_map(|p| on_huge_pages(p)).max(),
                age_s: Some(seconds_now().saturating_sub(record.since)),
                name: record.name,
                path: record.path,
                libraries: record.libraries,
            }
        })
        .collect())
}

/// A mount is there from a service's start on only.
fn from_when(way: &Way) -> Vec<String> {
    let text = match way {
        Way::Bind { unit, .. } => format!("for {unit} alone, from its next start on"),
        Way::Exchange | Way::Divert | Way::Binfmt { .. } => return Vec::new(),
    };
    vec![text]
}

/// Folders in /proc of the processes that run a file.
fn processes(file: (u64, u64)) -> Vec<PathBuf> {
    let runs = |process: &PathBuf| {
        let exe = fs::metadata(process.join("exe"));
        exe.is_ok_and(|m| (m.dev(), m.ino()) == file)
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = entries.filter(|e| e.file_name().to_string_lossy().parse::<u32>().is_ok());
    numbered.map(|e| e.path()).filter(runs).collect()
}

/// Bytes of files that a process has mapped by huge pages; none when it has ended.
fn on_huge_pages(process: &Path) -> Option<u64> {
    let text = fs::read_to_string(process.join("smaps_rollup")).ok()?;
    Some(huge_of_files(&text))
}

/// Of storage, and of file systems in memory.
fn huge_of_files(smaps: &str) -> u64 {
    let kib = |line: &str| {
        let (key, value) = line.split_once(':')?;
        let counts = ["FilePmdMapped", "ShmemPmdMapped"].contains(&key);
        counts.then(|| value.trim().strip_suffix(" kB")?.parse::<u64>().ok())?
    };
    smaps.lines().filter_map(kib).sum::<u64>() * 1024
}

impl Program {
    fn not_boosted(name: String, path: PathBuf, state: State, why: Vec<String>) -> Self {
        Program {
            name,
            path,
            state,
            why,
            redirect: None,
            gain: None,
            bytes: None,
            processes: None,
            huge_bytes: None,
            age_s: None,
            libraries: Vec::new(),
        }
    }

    /// For people.
    pub fn line(&self) -> String {
        let state = match self.state {
            State::Boosted => "boosted",
            State::Making => "being made",
            State::Stock => "stock",
            State::RolledBack => "rolled back",
        };
        let mut line = format!("{:<16} {state:<12} {}", self.name, self.path.display());
        if let Some(gain) = &self.gain {
            line += &format!(
                "\n{:<16} by {}, x{:.2} ({:.2} ms stock, {:.2} ms boosted), {} KiB, {} processes, for {} s",
                "",
                self.redirect.unwrap_or_default(),
                gain.ratio,
                gain.stock_ns as f64 / 1e6,
                gain.boosted_ns as f64 / 1e6,
                self.bytes.unwrap_or_default() / 1024,
                self.processes.unwrap_or_default(),
                self.age_s.unwrap_or_default()
            );
            if let Some(bytes) = self.huge_bytes {
                line += &format!(", {} KiB on huge pages", bytes / 1024);
            }
        }
        for why in &self.why {
            line += &format!("\n{:<16} {why}", "");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the kernel's own text of a process.
    #[test]
    fn huge_pages_of_files_are_counted() {
        let text = fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel tells");
        assert!(
            text.contains("FilePmdMapped:") && text.contains("ShmemPmdMapped:"),
            "{text}"
        );
        let sum = "Rss: 9000 kB\nShmemPmdMapped:     2048 kB\nFilePmdMapped:      4096 kB\nAnonHugePages: 2048 kB\n";
        assert_eq!(huge_of_files(sum), 6 << 20);
        assert_eq!(on_huge_pages(Path::new("/proc/none")), None);
    }
}
