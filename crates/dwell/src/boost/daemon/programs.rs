//! What the daemon knows of each program, and what comes next for it.
use super::commands::BY_HAND;
use super::replay::Blame;
use super::staging::{Outcome, Staged, now, real_path};
use super::watchdog::restore_all;
use super::worker::{Done, Job, Worker, inputs_of};
use dwell_collector::Crash;
use dwell_switch::{
    Config, Dirs, Identity, Journal, Record, Restored, RolledBack, Stamp, SwitchError, Watch, Way,
    activate, changed, configs, is_unpacked, note, put_back, restore, rolled_back, set_aside,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long nothing must have changed before a program is made anew: upgrades change many files.
const SETTLE: Duration = Duration::from_millis(300);

/// Most different crashes of a program that are known to be its own. One with more stays stock.
const MOST_CRASHES: usize = 16;

/// All programs.
pub struct Programs {
    dirs: Dirs,
    journal: Journal,
    known: BTreeMap<String, Program>,
    /// Replaced programs whose upgrade is under way: what is left of ours goes when that is over.
    leaving: Vec<Record>,
    /// Programs that the worker has: one is not given twice, since both would write the same file.
    given: BTreeSet<PathBuf>,
    /// Rolled-back ones, by name: in which state of their files it was looked at whether they would be another.
    looked_at: BTreeMap<String, Vec<Stamp>>,
    /// What is wrong with configurations.
    wrong: Vec<String>,
    /// Arguments with which the stock programs crash as well, by the configuration's name: a boosted process that does so
    /// is as it should be.
    crash_anyway: BTreeMap<String, Vec<Vec<String>>>,
}

struct Program {
    config: Config,
    phase: Phase,
}

enum Phase {
    /// To be made then.
    Due(Instant),
    Making,
    Active(Box<Record>),
    /// The stock program runs, for a reason, as long as these files are as they are.
    Stock(String, Vec<Stamp>),
}

/// What the daemon tells of itself, in its run folder.
#[derive(Serialize, Deserialize, Default, PartialEq, Debug)]
pub struct Told {
    pub pid: u32,
    /// By the configuration's name: `making`, `boosted` or `stock`, and why.
    pub programs: BTreeMap<String, (String, String)>,
    /// What is wrong with configurations.
    pub wrong: Vec<String>,
    /// Whether crashes are seen; if not, why.
    pub crashes: Option<String>,
}

impl Programs {
    /// Takes back what a daemon before left; switches nothing on yet.
    pub fn new(dirs: &Dirs) -> anyhow::Result<Self> {
        let journal = dirs.journal();
        if let Err(error) = restore_all(&journal) {
            eprintln!("dwell: {error:#}");
        }
        // Those of a daemon that was killed while it made something: with them nothing may run any more.
        let _ = fs::remove_dir_all(dirs.guards());
        Ok(Programs {
            dirs: dirs.clone(),
            leaving: journal.records()?,
            journal,
            known: BTreeMap::new(),
            given: BTreeSet::new(),
            looked_at: BTreeMap::new(),
            wrong: Vec::new(),
            crash_anyway: BTreeMap::new(),
        })
    }

    /// Looks at everything and does what is due; gives how long to wait at most.
    pub fn step(&mut self, worker: &Worker) -> anyhow::Result<Duration> {
        self.leave_changed();
        self.read_configs()?;
        self.look_at_rolled_back(worker)?;
        self.finish_leaving();
        self.begin_due(worker);
        let restless = !self.leaving.is_empty()
            || self
                .known
                .values()
                .any(|p| matches!(p.phase, Phase::Due(_)));
        // Reports of changes may be lost, or never be made (network file systems): it is looked at in any case.
        Ok(Duration::from_millis(if restless { 100 } else { 30_000 }))
    }

    /// Stock at once, where a file is not what it was.
    fn leave_changed(&mut self) {
        let names: Vec<String> = self.known.keys().cloned().collect();
        for name in names {
            let Some(program) = self.known.get_mut(&name) else {
                continue;
            };
            match &program.phase {
                Phase::Active(record) => {
                    if let Some(what) = changed(record) {
                        eprintln!(
                            "dwell: {name}: {} has changed: stock, and made anew",
                            what.display()
                        );
                        self.take_back(&name);
                    }
                }
                Phase::Stock(_, inputs) if inputs.iter().any(|s| !s.holds()) => {
                    program.phase = Phase::Due(Instant::now() + SETTLE);
                }
                _ => {}
            }
        }
    }

    /// Restores an active program; it is due again.
    fn take_back(&mut self, name: &str) {
        let Some(program) = self.known.get_mut(name) else {
            return;
        };
        let next = Phase::Due(Instant::now() + SETTLE);
        if let Phase::Active(record) = std::mem::replace(&mut program.phase, next) {
            match restore(&self.journal, &record) {
                Ok(Restored::Done) => {}
                Ok(Restored::UpgradeUnderWay) => self.leaving.push(*record),
                Err(error) => {
                    program.phase = Phase::Stock(error.to_string(), stamps_of(&program.config));
                    eprintln!("dwell: {name}: {error}");
                }
            }
        }
    }

    fn finish_leaving(&mut self) {
        let journal = &self.journal;
        self.leaving
            .retain(|record| match restore(journal, record) {
                Ok(Restored::Done) => false,
                Ok(Restored::UpgradeUnderWay) => true,
                Err(error) => {
                    eprintln!("dwell: {}: {error}", record.name);
                    !matches!(error, SwitchError::StockGone { .. })
                }
            });
    }

    fn read_configs(&mut self) -> anyhow::Result<()> {
        let mut found = BTreeMap::new();
        let mut wrong = Vec::new();
        let mut paths: BTreeMap<PathBuf, String> = BTreeMap::new();
        for config in configs(&self.dirs.config)? {
            match config {
                Ok(config) => {
                    let other = paths.insert(real_path(&config), config.name.clone());
                    match other {
                        Some(other) => {
                            let file = config.file.display();
                            wrong.push(format!(
                                "{file}: {} is what {other}.toml is about, too: remove one of them",
                                config.elf_path.display()
                            ));
                            paths.insert(real_path(&config), other);
                        }
                        None => drop(found.insert(config.name.clone(), config)),
                    }
                }
                Err(error) => wrong.push(error.to_string()),
            }
        }
        for error in wrong.iter().filter(|e| !self.wrong.contains(e)) {
            eprintln!("dwell: {error}");
        }
        self.wrong = wrong;
        let gone: Vec<String> = self
            .known
            .keys()
            .filter(|n| !found.contains_key(*n))
            .cloned()
            .collect();
        for name in gone {
            self.take_back(&name);
            self.known.remove(&name);
        }
        for (name, config) in found {
            if self.known.get(&name).is_some_and(|p| p.config == config) {
                continue;
            }
            self.take_back(&name);
            let phase = Phase::Due(Instant::now());
            self.known.insert(name, Program { config, phase });
        }
        Ok(())
    }

    fn look_at_rolled_back(&mut self, worker: &Worker) -> anyhow::Result<()> {
        for aside in rolled_back(&self.dirs.config)? {
            let inputs = inputs_of(&aside);
            if aside.build_id.is_some() && self.looked_at.get(&aside.name) != Some(&inputs) {
                self.looked_at.insert(aside.name.clone(), inputs);
                worker.give(Job::Identify(aside));
            }
        }
        Ok(())
    }

    fn begin_due(&mut self, worker: &Worker) {
        for program in self.known.values_mut() {
            let path = real_path(&program.config);
            let leaving = self.leaving.iter().any(|r| r.path == path);
            let due = matches!(program.phase, Phase::Due(at) if at <= Instant::now());
            let way = Way::of(&program.config, &self.dirs);
            if due && !leaving && !is_unpacked(&way, &path) && self.given.insert(path.clone()) {
                program.phase = Phase::Making;
                worker.give(Job::Stage(path, program.config.clone()));
            }
        }
    }

    /// Something was made: it is switched on, if it still is what would be made.
    pub fn done(&mut self, done: Done) {
        match done {
            Done::Staged(path, staged) => {
                self.given.remove(&path);
                self.staged(staged);
            }
            Done::Identified(aside, true) => {
                eprintln!(
                    "dwell: {}: another build now: it is tried again",
                    aside.name
                );
                if let Err(error) = put_back(&aside) {
                    eprintln!("dwell: {}: {error}", aside.file.display());
                }
            }
            Done::Identified(_, false) => {}
            Done::Replayed(name, crash, blame) => self.replayed(&name, crash, &blame),
        }
    }

    fn staged(&mut self, staged: Staged) {
        let Staged {
            config,
            inputs,
            outcome,
        } = staged;
        let name = config.name.clone();
        let program = self.known.get_mut(&name);
        let program = program.filter(|p| p.config == config && matches!(p.phase, Phase::Making));
        let Some(program) = program else {
            if let Outcome::Ready(record) = outcome {
                discard(&self.journal, &mut self.leaving, *record);
            }
            return;
        };
        program.phase = match outcome {
            Outcome::Ready(record) if changed_before(&record) => {
                discard(&self.journal, &mut self.leaving, *record);
                Phase::Due(Instant::now() + SETTLE)
            }
            Outcome::Ready(record) => match activate(&self.journal, &record) {
                Ok(()) => {
                    eprintln!("dwell: {name}: boosted, x{:.2}", record.gain.ratio);
                    Phase::Active(record)
                }
                Err(why) => {
                    discard(&self.journal, &mut self.leaving, *record);
                    Phase::Stock(why.to_string(), inputs)
                }
            },
            Outcome::Slower(ratio, id) => {
                let reason = format!("slower than stock in its own trial: x{ratio:.2}");
                eprintln!("dwell: {name}: {reason}");
                aside(&config.file, reason.clone(), &id);
                Phase::Stock(reason, inputs)
            }
            Outcome::Refused(why) => {
                eprintln!("dwell: {name}: stock: {why}");
                Phase::Stock(why, inputs)
            }
        };
    }

    /// A boosted process crashed: stock from now on.
    pub fn crashed(&mut self, crash: Crash, worker: &Worker) {
        let found = self.known.iter().find_map(|(name, p)| match &p.phase {
            Phase::Active(r) if file_of(r) == crash.file => {
                Some((name.clone(), p.config.clone(), (**r).clone()))
            }
            _ => None,
        });
        let Some((name, config, record)) = found else {
            return;
        };
        let known = self.crash_anyway.get(&name);
        if known.is_some_and(|known| known.contains(&crash.args)) {
            return;
        }
        self.take_back(&name);
        let reason = format!(
            "{} in process {}, started as: {}",
            signal_name(crash.signal),
            crash.pid,
            started_as(&crash.args),
        );
        eprintln!("dwell: {name}: rolled back: {reason}");
        aside(&config.file, reason, &record.build_id);
        self.known.remove(&name);
        if !config.replay {
            return;
        }
        if Identity::of(&record.path) == Some(record.stock) {
            worker.give(Job::Replay(name, record.path, crash));
        } else {
            let blame = Blame::Unknown("the stock program is being replaced".into());
            self.replayed(&name, crash, &blame);
        }
    }

    /// What was found out of a crash is noted with its reason; where the stock program crashes as well, it is boosted again.
    fn replayed(&mut self, name: &str, crash: Crash, blame: &Blame) {
        eprintln!("dwell: {name}: {}", blame.text());
        let asides = rolled_back(&self.dirs.config).unwrap_or_default();
        // What somebody has taken back meanwhile stays so.
        let by_hand = |a: &RolledBack| a.reasons.iter().any(|why| why.ends_with(BY_HAND));
        let found = asides.iter().find(|a| a.name == name && !by_hand(a));
        let Some(found) = found else {
            return;
        };
        let known = self.crash_anyway.entry(name.to_owned()).or_default();
        let done = if *blame == Blame::Stock && known.len() < MOST_CRASHES {
            known.push(crash.args);
            put_back(found).map(drop)
        } else {
            note(found, &blame.text())
        };
        if let Err(error) = done {
            eprintln!("dwell: {}: {error}", found.file.display());
        }
    }

    /// Restores everything; whether nothing is left.
    pub fn restore_all(&mut self) -> anyhow::Result<bool> {
        self.known.clear();
        restore_all(&self.journal)
    }

    /// Folders in which a change matters.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        let mut folders = BTreeSet::from([self.dirs.config.clone()]);
        let mut add = |path: &Path| folders.extend(Watch::folders_of(path));
        for program in self.known.values() {
            add(&program.config.elf_path);
            let stamps = match &program.phase {
                Phase::Active(record) => &record.stamps[..],
                Phase::Stock(_, inputs) => inputs,
                _ => &[],
            };
            stamps.iter().for_each(|s| add(s.path()));
        }
        self.looked_at
            .values()
            .flatten()
            .for_each(|s| add(s.path()));
        folders
    }

    /// Files of which crashes matter: inode and size.
    pub fn files(&self) -> HashSet<(u64, u64)> {
        let active = self.known.values().filter_map(|p| match &p.phase {
            Phase::Active(record) => Some(file_of(record)),
            _ => None,
        });
        active.collect()
    }

    /// With what the stock program crashes as well; empty for nothing.
    fn crashes_anyway(&self, name: &str) -> String {
        let known = self.crash_anyway.get(name);
        let known = known.into_iter().flatten().map(|args| started_as(args));
        let all: Vec<String> = known.collect();
        match all.is_empty() {
            true => String::new(),
            false => format!(
                "crashes, as the stock program does when it is replayed: {}",
                all.join("; ")
            ),
        }
    }

    /// What there is to tell.
    pub fn told(&self) -> Told {
        let tell = |p: &Program| match &p.phase {
            Phase::Due(_) | Phase::Making => ("making".to_owned(), String::new()),
            Phase::Active(_) => ("boosted".to_owned(), self.crashes_anyway(&p.config.name)),
            Phase::Stock(why, _) => ("stock".to_owned(), why.clone()),
        };
        Told {
            pid: std::process::id(),
            programs: self
                .known
                .iter()
                .map(|(n, p)| (n.clone(), tell(p)))
                .collect(),
            wrong: self.wrong.clone(),
            crashes: None,
        }
    }
}

/// Removes what was made and is not wanted, later if it has to wait for a package manager.
fn discard(journal: &Journal, leaving: &mut Vec<Record>, record: Record) {
    match restore(journal, &record) {
        Ok(Restored::Done) => {}
        Ok(Restored::UpgradeUnderWay) => leaving.push(record),
        Err(error) => eprintln!("dwell: {}: {error}", record.name),
    }
}

fn file_of(record: &Record) -> (u64, u64) {
    (record.boosted.number().1, record.boosted.size())
}

/// The boosted file that is switched on by this, if any is.
pub fn boosted_by(done: &Done) -> Option<(u64, u64)> {
    match done {
        Done::Staged(
            _,
            Staged {
                outcome: Outcome::Ready(record),
                ..
            },
        ) => Some(file_of(record)),
        _ => None,
    }
}

/// Whether something has changed since it was made, or is just changing, and before it is switched.
fn changed_before(record: &Record) -> bool {
    let path = &record.path;
    Identity::of(path) != Some(record.stock)
        || is_unpacked(&record.way, path)
        || record.stamps.iter().any(|s| !s.holds())
}

fn stamps_of(config: &Config) -> Vec<Stamp> {
    vec![Stamp::of(&config.elf_path)]
}

fn aside(file: &Path, reason: String, id: &str) {
    let when = format!("{}: {reason}", now());
    if let Err(error) = set_aside(file, &[when], Some(id)) {
        eprintln!("dwell: {}: cannot be set aside: {error}", file.display());
    }
}

/// Anybody may have started it with anything: what moves a terminal's cursor is left out.
fn started_as(args: &[String]) -> String {
    args.join(" ").replace(char::is_control, " ")
}

fn signal_name(signal: u32) -> &'static str {
    match signal as i32 {
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        _ => "SIGSEGV",
    }
}
