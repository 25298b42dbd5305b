//! Puts a boosted program in the stock one's place, watches what it depends on, and takes it back.
//!
//! Two files change their names with each other, in one step: the program's path and a hidden name beside it (or, for
//! one service, the boosted one is mounted, or the kernel is told to start it: [`Way`]). What is at the path is at every
//! instant a whole program, and an upgrade may rename another over it at any time. What was done is in a journal before
//! it is done, so anybody can take it back ([`restore`]), however its owner ended.
//!
//! Nothing here knows how a boosted program is made.

mod bind;
mod binfmt;
mod config;
mod divert;
mod exchange;
mod instance;
mod journal;
mod stamp;
mod switch;
mod watch;
mod way;

pub use config::{
    Config, ConfigError, Mode, ROLLED_BACK, Redirect, RolledBack, add, configs, note, put_back,
    rolled_back, set_aside,
};
pub use exchange::{is_unpacked, stock_path};
pub use instance::{Instance, Taken};
pub use journal::{Dirs, Gain, Journal, Record};
pub use stamp::{Identity, Stamp};
pub use switch::{Restored, SwitchError, activate, changed, is_on, restore};
pub use watch::Watch;
pub use way::Way;
