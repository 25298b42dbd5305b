//! The ways in which a start of the program comes to the boosted file.
use crate::bind;
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
}

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
        }
    }

    /// Why it cannot be taken on this machine.
    pub fn obstacle(&self) -> Option<&'static str> {
        match self {
            Way::Exchange | Way::Divert => None,
            Way::Bind { .. } => bind::obstacle(),
        }
    }

    /// Its name in configurations.
    pub fn name(&self) -> &'static str {
        match self {
            Way::Exchange => "exchange",
            Way::Divert => "divert",
            Way::Bind { .. } => "bind",
        }
    }

    /// Where the boosted file is to be made for the program at `path`.
    pub fn made_at(&self, path: &Path) -> PathBuf {
        match self {
            Way::Exchange | Way::Divert => stock_path(path),
            Way::Bind { file, .. } => file.clone(),
        }
    }

    /// Where a process that runs the boosted file finds the stock program.
    pub fn stock_at(&self, path: &Path) -> PathBuf {
        match self {
            Way::Exchange | Way::Divert => stock_path(path),
            Way::Bind { stock_folder, .. } => {
                stock_folder.join(path.file_name().unwrap_or_default())
            }
        }
    }
}
