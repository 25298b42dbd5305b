//! `dwell boost run`: the boosted program, or the stock one where that is not the same.
use super::arguments::RunArgs;
use super::{cache, environment, subject};
use anyhow::Context;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Becomes the program; comes back only when it cannot.
pub fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    args.how.check()?;
    let (name, rest) = args.cmd.split_first().context("name a command after --")?;
    let stock = subject::find(name)?;
    let said = |what: &str| {
        if args.verbose {
            eprintln!("dwell: {}: {what}", stock.display());
        }
    };
    let found = match environment::obstacle() {
        Some(why) => Err(anyhow::anyhow!(why)),
        None => cache::boosted(&stock, &args.how),
    };
    let why = match found {
        Ok(boosted) => {
            said(&format!("runs boosted, as {}", boosted.display()));
            let Err(error) = exec(&boosted, name, rest);
            anyhow::Error::from(error).context(format!("starting {}", boosted.display()))
        }
        Err(why) => why,
    };
    said(&format!("runs as it is: {why:#}"));
    let Err(error) = exec(&stock, name, rest);
    Err(error).with_context(|| format!("starting {}", stock.display()))
}

fn exec(file: &Path, name: &OsStr, args: &[impl AsRef<OsStr>]) -> std::io::Result<Infallible> {
    Err(Command::new(file).arg0(name).args(args).exec())
}
