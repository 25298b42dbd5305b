//! What can be typed after `dwell boost`.
use super::daemon::{DaemonArgs, DirArgs, StatusArgs, SwitchArgs};
use super::trial::Probe;
use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// `dwell boost`.
#[derive(Args, Debug)]
pub struct BoostArgs {
    #[command(subcommand)]
    pub action: Action,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Action {
    /// Tell what would be merged, what is refused and why, and what it would gain: both are run.
    #[command(
        after_help = "The merged program is made in a temporary folder, tried out, timed and removed again.\n\nExamples:\n  dwell boost plan git\n  dwell boost plan --libs libpcre2-8.so.0 /usr/bin/git\n  dwell boost plan --json sqlite3 | jq '.measured.ratio'"
    )]
    Plan(PlanArgs),
    /// Make a merged program, try it out, and put it into a file.
    #[command(
        after_help = "The file appears when it is complete and has done what the stock program does; before that there is\nnone, or the one that was there. The stock program is not touched.\n\nExamples:\n  dwell boost build git -o ~/bin/git\n  dwell boost build sqlite3 -o /tmp/sqlite3 --test ':memory: select(1)'\n  dwell record -o bash.dwell -- bash work.sh; dwell boost build bash -o fast --level 1 --profile bash.dwell"
    )]
    Build(BuildArgs),
    /// Run a program boosted; it is made when it is first run, and again when one of its files has changed.
    #[command(
        after_help = "What cannot be boosted runs as it is; -v tells why. So does everything under LD_PRELOAD, LD_AUDIT and\nLD_LIBRARY_PATH, which choose other libraries than those that were merged.\nMerged programs are kept in $XDG_CACHE_HOME/dwell/boost (~/.cache/dwell/boost).\n\nExamples:\n  dwell boost run -- git status\n  dwell boost run -v -- python3 -c 'print(1)'"
    )]
    Run(RunArgs),
    /// Keep programs boosted in their own places, watch them, and take it back when something is wrong.
    #[command(
        after_help = "Each NAME.toml in the configuration folder is a program:\n  elf_path = \"/usr/bin/git\"      the program (the only key that must be there)\n  mode = \"static\"                what becomes of the C library: static or static-nolibc\n  libs = [\"libz.so.1\"]           merge only these\n  level = 1                       0 merges, 1 also makes calls direct, 2 one address per boot, 3 the loader inside,\n                                  4 hot functions together, by profile_path\n  fixed_addresses = true          allow levels 2 and 3 for a program that takes connections\n  test = [\"--version\", \"--help\"] arguments to try it with, stock against boosted\n  watch_paths = [\"/etc/x\"]       more files whose change makes it anew\n  profile_path = \"/x.dwell\"      put together what is hot in this recording (from level 1 on)\n  redirect = \"exchange\"           how the boosted file takes the program's place: exchange of names; divert, the same\n                                  with dpkg told; binfmt, the kernel starts it, in containers, too (mode static,\n                                  level 3 or 4); bind, a mount for the processes of one service:\n  unit = \"x.service\"             that service\n\nThe stock program is beside it meanwhile, as .NAME.dwell-stock (not with bind and binfmt). It has its path again when the daemon ends or is\nkilled, when the program or one of its libraries changes, and when a boosted process crashes: then the\nconfiguration is renamed to NAME.toml.rolled-back, with the reason in it.\n\nExamples:\n  dwell boost daemon\n  dwell boost daemon --unit > /etc/systemd/system/dwell-boost.service"
    )]
    Daemon(DaemonArgs),
    /// Have the daemon boost a program; adds a configuration where there is none.
    #[command(
        after_help = "Exit code 1 when it stays stock; the reason is printed.\n\nExamples:\n  dwell boost activate git\n  dwell boost activate --all"
    )]
    Activate(SwitchArgs),
    /// Take a program back, with a daemon or without; it stays stock until it is activated again.
    #[command(
        after_help = "The configuration is renamed to NAME.toml.rolled-back.\n\nExamples:\n  dwell boost rollback git\n  dwell boost rollback --all"
    )]
    Rollback(SwitchArgs),
    /// Restore what a killed daemon left, when its watchdog was killed, too; configurations stay as they are.
    Restore(DirArgs),
    /// Tell what is boosted, what it gains, and what was rolled back and why.
    #[command(
        after_help = "Examples:\n  dwell boost status\n  dwell boost status --json | jq '.programs[] | select(.state == \"rolled-back\")'"
    )]
    Status(StatusArgs),
}

/// How programs are boosted.
#[derive(Args, Debug, Clone)]
pub struct How {
    /// What becomes of the C library.
    #[arg(long, value_enum, default_value_t = Mode::StaticNolibc)]
    pub mode: Mode,
    /// How far to go: 0 merges, 1 also makes calls between merged files direct, 2 gives it one address per
    /// boot, 3 puts the loader into the file, with the processor's answers, 4 puts hot functions together (--profile).
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub level: u8,
    /// Merge only these libraries, by the names under which they are needed (libz.so.1). Default: all that can be.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub libs: Vec<String>,
    /// A recording of the program at work (dwell record): functions that are hot in it are put together. From
    /// level 1 on.
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Arguments to try it with, stock against boosted, separated by spaces; may be given several times.
    /// Default: --version and --help.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub test: Vec<String>,
}

/// What becomes of the C library.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is merged, too.
    Static,
    /// It stays a library.
    StaticNolibc,
}

impl How {
    /// Refuses what does not go together; never makes something else instead.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.level < 4 || self.profile.is_some(),
            "--level 4 puts hot functions together, and a recording of the program at work says which they are: \
             give it by --profile X.dwell, or use --level 3"
        );
        anyhow::ensure!(
            self.level < 3 || self.mode == Mode::Static,
            "--level {} puts the loader into the file, and the C library belongs to it: use --mode static, or --level 2",
            self.level
        );
        anyhow::ensure!(
            self.profile.is_none() || self.level >= 1,
            "hot functions are put together from level 1 on: use --level 1 with --profile"
        );
        Ok(())
    }

    /// What to try the merged program with.
    pub fn probes(&self) -> Vec<Probe> {
        if self.test.is_empty() {
            return vec![Probe::of("--version"), Probe::of("--help")];
        }
        self.test.iter().map(|text| Probe::of(text)).collect()
    }
}

/// `dwell boost plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// The program: a path, or a command's name.
    #[arg(value_name = "PROG")]
    pub program: OsString,
    #[command(flatten)]
    pub how: How,
    /// Print JSON with the same content.
    #[arg(long)]
    pub json: bool,
}

/// `dwell boost build`.
#[derive(Args, Debug)]
pub struct BuildArgs {
    /// The program: a path, or a command's name.
    #[arg(value_name = "PROG")]
    pub program: OsString,
    /// Where to put the merged program.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub how: How,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `dwell boost run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Say whether it runs boosted, and if not, why.
    #[arg(short, long)]
    pub verbose: bool,
    #[command(flatten)]
    pub how: How,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub cmd: Vec<OsString>,
}
