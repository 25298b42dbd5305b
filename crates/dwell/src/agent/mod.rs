//! `dwell agent`: recordings one after the other, delivered to stores and servers.
//!
//! Every window is recorded by a process of its own (`dwell record`): what it needed it gives back, and should it fail,
//! the agent does not. A thread delivers what waits in the spool. What recording and delivering cost is measured, and
//! the agent pauses between windows so long that it stays below its share of a processor.
mod courier;
mod status;
mod window;

use crate::cli::parse_duration;
use crate::delivery::DeliveryArgs;
use crate::signals::{self, Signals};
use anyhow::{Context, bail};
use chrono::Utc;
use clap::Args;
use courier::Courier;
use dwell_delivery::{Backoff, Service, Spool};
use dwell_recording::Recording;
use status::Board;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use window::Window;

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
As a service: put the options into /etc/default/dwell-agent (DWELL_AGENT_OPTIONS=--store s3://profiles/prod, and the
keys), then systemctl enable --now dwell-agent. docs/continuous.md says more.

Examples:
  dwell agent --store file:///srv/profiles
  dwell agent --cgroup system.slice/api.service --service api --push http://pyroscope:4040/ingest
  dwell agent --status";

/// `dwell agent`.
#[derive(Args, Debug)]
pub struct AgentArgs {
    #[command(flatten)]
    delivery: DeliveryArgs,
    /// Record the processes of a cgroup (a folder, or a path below /sys/fs/cgroup). Default: the whole system.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Stacks per second of each thread's time.
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frequency: Option<u32>,
    /// Keep the ledger of memory as well.
    #[arg(long)]
    memory: bool,
    /// Length of a recording.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    window: Duration,
    /// Most that it may cost, in percent of one processor: if a recording cost more, the next one waits.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = parse_percent)]
    max_cpu: f64,
    /// Where recordings wait until they are delivered. Default: /var/lib/dwell/agent.
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "/var/lib/dwell/agent",
        hide_default_value = true
    )]
    spool: PathBuf,
    /// Most that may wait, as 500M or 2G; then the oldest are dropped, and counted.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    spool_size: u64,
    /// Print what the agent of this spool does, and end.
    #[arg(long)]
    status: bool,
    /// Print the unit for systemd, and end.
    #[arg(long)]
    unit: bool,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .parse()
        .map_err(|_| format!("{text:?} is no number"))?;
    if number > 0.0 && number.is_finite() {
        Ok(number)
    } else {
        Err("it must be more than 0".into())
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("unknown unit {unit:?}: write 500M or 2G")),
    };
    let number: Option<u64> = number.parse().ok();
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("{text:?} is no size: write 500M or 2G"))
}

/// The longest pause, in windows: however dear recording is, there is one now and then.
const MOST_PAUSES: u32 = 20;
/// How long the last recording may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Records until a signal ends it.
pub fn agent(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    if args.unit {
        print!("{}", unit()?);
        return Ok(ExitCode::SUCCESS);
    }
    if args.status {
        status::print(&args.spool)?;
        return Ok(ExitCode::SUCCESS);
    }
    let destinations = args.delivery.destinations();
    if destinations.is_empty() {
        bail!("where to? name a store with --store or a server with --push");
    }
    // Before threads are started: they inherit what is blocked.
    let signals = Signals::take()?;
    let spool = Arc::new(Spool::open(&args.spool, args.spool_size)?);
    let told = Board::new(&args.spool, &destinations);
    let courier = Courier::start(&spool, destinations, service(args), &told)?;
    let mut running = Running {
        args,
        signals,
        spool,
        told,
        courier: &courier,
        pause: Backoff::default(),
    };
    let result = running.run();
    crate::notify::tell("STOPPING=1");
    courier.finish();
    result.map(|()| ExitCode::SUCCESS)
}

/// What recordings are kept under: a cgroup's own name, or `system`.
fn service(args: &AgentArgs) -> Service {
    let cgroup = args.cgroup.as_ref().and_then(|path| path.file_stem());
    let named = args.delivery.service.clone();
    let named = named.or_else(|| Some(cgroup?.to_string_lossy().into_owned()));
    Service {
        is_all: named.is_some(),
        name: named.unwrap_or_else(|| "system".into()),
    }
}

struct Running<'a> {
    args: &'a AgentArgs,
    signals: Signals,
    spool: Arc<Spool>,
    told: Board,
    courier: &'a Courier,
    /// After recordings that failed.
    pause: Backoff,
}

impl Running<'_> {
    fn run(&mut self) -> anyhow::Result<()> {
        let mut works = false;
        loop {
            let began = Instant::now();
            let cpu = window::cpu_time();
            let name = Utc::now().format("%Y%m%dT%H%M%S%.3fZ").to_string();
            let path = self.spool.to_make(&name);
            let mut window = Window::start(self.args, &path).context("starting to record")?;
            if !works {
                self.wait_until_it_records(&mut window, &path)?;
            }
            let ended = self.wait_for(&mut window)?;
            let failed = window.failure();
            // Of one that failed there may be nothing.
            let recorded = Recording::open(&path).map(|r| r.meta().window());
            self.spool_it(&path)?;
            let cost = window::cpu_time().saturating_sub(cpu);
            self.told
                .recorded(recorded.unwrap_or_default(), cost, failed.as_deref());
            if ended {
                return Ok(());
            }
            let pause = match failed {
                // Whoever starts it should know at once.
                Some(why) if !works => bail!("{why}"),
                Some(why) => {
                    eprintln!("dwell: a recording failed: {why}");
                    self.pause.failed(None)
                }
                None => {
                    works = true;
                    self.pause = Backoff::default();
                    self.pause_after(began.elapsed(), cost)
                }
            };
            if self.is_over(pause) {
                return Ok(());
            }
        }
    }

    /// How long to pause so that this window and the pause together cost no more than they may.
    fn pause_after(&self, elapsed: Duration, cost: Duration) -> Duration {
        let wanted = cost.div_f64(self.args.max_cpu / 100.0);
        wanted
            .saturating_sub(elapsed)
            .min(self.args.window * MOST_PAUSES)
    }

    /// Tells systemd as soon as the first recording is being made.
    fn wait_until_it_records(&self, window: &mut Window, path: &Path) -> anyhow::Result<()> {
        while !path.join("meta.json").exists() {
            if window.has_ended()? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        crate::notify::tell("READY=1");
        Ok(())
    }

    /// Waits for the end of a window; whether a signal made it end.
    fn wait_for(&self, window: &mut Window) -> anyhow::Result<bool> {
        let mut over = None;
        while !window.has_ended()? {
            signals::wait(&[self.signals.raw_fd()], 1000);
            if self.signals.end() && over.is_none() {
                over = Some(Instant::now());
                window.interrupt();
            }
            if over.is_some_and(|since| since.elapsed() > PATIENCE) {
                window.kill();
            }
        }
        Ok(over.is_some())
    }

    /// Pauses; whether a signal says that it is time to end.
    fn is_over(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            if self.signals.end() {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            signals::wait(&[self.signals.raw_fd()], left.as_millis() as i32 + 1);
        }
    }

    fn spool_it(&self, path: &Path) -> anyhow::Result<()> {
        if path.exists()
            && let Err(error) = self.spool.take(path)
        {
            // The disk is full, most likely: the next one may find room.
            eprintln!("dwell: a recording is dropped: {error}");
            self.told.dropped(1);
            std::fs::remove_dir_all(path).context("removing it")?;
        }
        let dropped = self.spool.drop_oldest()?;
        if let (Some(oldest), Some(newest)) = (dropped.first(), dropped.last()) {
            eprintln!(
                "dwell: the spool is full: {} recordings from {} to {} are dropped",
                dropped.len(),
                oldest.name(),
                newest.name()
            );
            self.told.dropped(dropped.len());
        }
        self.courier.wake();
        Ok(())
    }
}

/// The unit for systemd that is packaged, for where this dwell is.
fn unit() -> anyhow::Result<String> {
    let own = std::env::current_exe().context("finding dwell's own file")?;
    let own = own.to_str().context("dwell's own path is not UTF-8")?;
    Ok(include_str!("../../dwell-agent.service").replace("/usr/bin/dwell", own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("500M"), Ok(500 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_size("17"), Ok(17));
        for wrong in ["", "G", "1.5G", "2 G", "9999999999999T", "5X"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
