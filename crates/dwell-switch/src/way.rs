//! The ways in which a start of the program comes to the boosted file.
use crate::bind;
use crate::binfmt;
use crate::config::{Config, Redirect};
use crate::exchange::stock_path;
use crate::journal::Dirs;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One of them, with all that is needed to go it and to come back.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Program and boosted file change their names.
    Exchange,
    /// The same, and dpkg is told that the package's file has the other name.
    Divert,
    /// Processes of one systemd unit see the boosted file in the program's place; all others see the stock one.
    Bind {
        /// The unit.
        unit: String,
        /// The boosted file.
        file: PathBuf,
        /// Where the unit's processes see the folder that the stock program is in.
        stock_folder: PathBuf,
    },
    /// The kernel starts the boosted file instead, whatever namespaces the process is in.
    Binfmt {
        /// The boosted file.
        file: PathBuf,
    },
}

/// Where most programs are.
const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

impl Way {
    /// The way that is configured.
    pub fn of(config: &Config, dirs: &Dirs) -> Self {
        match &config.redirect {
            Redirect::Exchange => Way::Exchange,
            Redirect::Divert => Way::Divert,
            Redirect::Bind(unit) => Way::Bind {
                unit: unit.clone(),
                file: dirs.state.join("bound").join(&config.name),
                stock_folder: dirs.run.join("stock").join(&config.name),
            },
            Redirect::Binfmt => Way::Binfmt {
                file: dirs.state.join("binfmt").join(&config.name),
            },
        }
    }

    /// Why it cannot be taken on this machine for the program at `path`.
    pub fn obstacle(&self, path: &Path) -> Option<String> {
        match self {
            Way::Exchange | Way::Divert => None,
            Way::Bind { .. } => bind::obstacle().map(str::to_owned),
            Way::Binfmt { .. } => binfmt::obstacle().or_else(|| {
                let other = binfmt::same_beginning(path, &FOLDERS)?;
                Some(format!(
                    "{} begins with the same bytes, by which binfmt_misc knows programs: use redirect = \"exchange\"",
                    other.display()
                ))
            }),
        }
    }

    /// Its name in configurations.
    pub fn name(&self) -> &'static str {
        match self {
            Way::Exchange => "exchange",
            Way::Divert => "divert",
            Way::Bind { .. } => "bind",
            Way::Binfmt { .. } => "binfmt",
        }
    }

    /// Where the boosted file is to be made for the program at `path`.
    pub fn made_at(&self, path: &Path) -> PathBuf {
        match self {
            Way::Exchange | Way::Divert => stock_path(path),
            Way::Bind { file, .. } | Way::Binfmt { file } => file.clone(),
        }
    }

    /// Where a process that runs the boosted file finds the stock program.
    pub fn stock_at(&self, path: &Path) -> PathBuf {
        match self {
            Way::Exchange | Way::Divert => stock_path(path),
            Way::Binfmt { .. } => path.to_owned(),
            Way::Bind { stock_folder, .. } => {
                stock_folder.join(path.file_name().unwrap_or_default())
            }
        }
    }
}
