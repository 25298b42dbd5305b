//! What can be typed after `dwell boost daemon`, `status`, `activate` and `rollback`.
use clap::Args;
use dwell_switch::Dirs;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where things are.
#[derive(Args, Debug, Clone)]
pub struct DirArgs {
    /// Folder of the configurations, one file NAME.toml per program.
    #[arg(long, value_name = "DIR", default_value = "/etc/dwell/boost.d")]
    pub config_dir: PathBuf,
    /// Folder of the journal: what is switched on.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/dwell/boost")]
    pub state_dir: PathBuf,
    /// Folder that a reboot empties: without it, boosted programs become the stock ones.
    #[arg(long, value_name = "DIR", default_value = "/run/dwell/boost")]
    pub run_dir: PathBuf,
}

impl DirArgs {
    /// The folders, absolute: boosted programs name the guard in theirs.
    pub fn dirs(&self) -> anyhow::Result<Dirs> {
        Ok(Dirs {
            config: std::path::absolute(&self.config_dir)?,
            state: std::path::absolute(&self.state_dir)?,
            run: std::path::absolute(&self.run_dir)?,
        })
    }
}

/// `dwell boost daemon`.
#[derive(Args, Debug)]
pub struct DaemonArgs {
    #[command(flatten)]
    pub dirs: DirArgs,
    /// Print a systemd unit for it and end.
    #[arg(long)]
    pub unit: bool,
    /// Wait for the end of standard input and restore everything: what the daemon starts beside itself.
    #[arg(long, hide = true)]
    pub watchdog: bool,
    /// Run a stock program where nothing that it does can matter, and tell by the end whether it crashes: what the daemon
    /// starts beside itself.
    #[arg(long, hide = true, value_name = "PROG")]
    pub replay: Option<PathBuf>,
    /// What it is called, and its arguments.
    #[arg(last = true, hide = true, requires = "replay")]
    pub replayed: Vec<OsString>,
}

/// `dwell boost activate` and `rollback`.
#[derive(Args, Debug)]
pub struct SwitchArgs {
    /// The program: a path, a command's name, or a configuration's name.
    #[arg(
        value_name = "PROG",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub program: Option<OsString>,
    /// All programs that have a configuration.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub dirs: DirArgs,
}

/// `dwell boost status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Print JSON with the same content.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub dirs: DirArgs,
}
