//! Recordings to stores and servers: what `dwell record` does at its end, and `dwell send` with one that is there.
use crate::cli::Input;
use crate::report;
use anyhow::bail;
use clap::Args;
use dwell_delivery::{
    Backoff, Client, DeliveryError, Destination, Minds, Parcel, Push, Service, Store,
};
use dwell_recording::Recording;
use std::path::Path;
use std::process::ExitCode;

/// How often a destination is tried while somebody waits.
const TRIES: u32 = 3;

/// What the help of `dwell send` shows at its end.
pub const EXAMPLES: &str = "\
docs/continuous.md says what lies where in a store, how to query it, and which variables hold keys and passwords.

Examples:
  dwell send api.dwell --store file:///srv/profiles
  dwell send api.dwell --store s3://profiles/prod --service api
  dwell send api.dwell --push http://pyroscope:4040/ingest";

/// Where recordings go.
#[derive(Args, Debug, Clone)]
pub struct DeliveryArgs {
    /// Keep the tables in a store of many recordings: file:///FOLDER or s3://BUCKET/PREFIX, partitioned by service, host
    /// and time.
    #[arg(long, value_name = "URL")]
    pub store: Vec<Store>,
    /// Send the profile to a server: http://HOST:4040/ingest (Pyroscope) or http://HOST:4318/v1development/profiles
    /// (OpenTelemetry).
    #[arg(long, value_name = "URL")]
    pub push: Vec<Push>,
    /// The service that it is kept under. Default: the recording's name.
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
}

impl DeliveryArgs {
    /// All of them.
    pub fn destinations(&self) -> Vec<Destination> {
        let stores = self.store.iter().cloned().map(Destination::Store);
        let servers = self.push.iter().cloned().map(Destination::Push);
        stores.chain(servers).collect()
    }
}

/// `dwell send`.
#[derive(Args, Debug)]
pub struct SendArgs {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    delivery: DeliveryArgs,
}

/// Delivers a recording that is there.
pub fn send(args: &SendArgs) -> anyhow::Result<ExitCode> {
    if args.delivery.destinations().is_empty() {
        bail!("where to? name a store with --store or a server with --push");
    }
    let path = report::find(&args.input)?;
    deliver(&path, &args.delivery, false)?;
    Ok(ExitCode::SUCCESS)
}

/// Delivers a recording to all of them. Those that fail do not keep it from the others.
pub fn deliver(path: &Path, args: &DeliveryArgs, quiet: bool) -> anyhow::Result<()> {
    let destinations = args.destinations();
    if destinations.is_empty() {
        return Ok(());
    }
    let client = Client::default();
    let own = || path.file_stem().unwrap_or_default().to_string_lossy();
    let service = Service {
        name: args.service.clone().unwrap_or_else(|| own().into_owned()),
        is_all: args.service.is_some(),
    };
    let mut parcel = Parcel::new(Recording::open(path)?, service);
    let mut failed = Vec::new();
    for to in destinations {
        match patiently(&to, &mut parcel, &client) {
            Ok(()) if quiet => {}
            Ok(()) => eprintln!("dwell: delivered {} to {to}", parcel.origin.recording()),
            Err(error) => failed.push(error),
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
    bail!(
        "{}\n{path} stays here: `dwell send {path}` with the same destination tries again",
        failed.join("\n"),
        path = path.display()
    )
}

/// A server that is just restarted is there a moment later.
fn patiently(to: &Destination, parcel: &mut Parcel, client: &Client) -> Result<(), DeliveryError> {
    let mut backoff = Backoff::default();
    let mut left = TRIES;
    loop {
        left -= 1;
        match to.deliver(parcel, client) {
            Err(error) if error.minds() != Minds::Yes && left > 0 => {
                std::thread::sleep(backoff.failed(error.retry_after()));
            }
            done => return done,
        }
    }
}
