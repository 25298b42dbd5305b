//! `dwell view`: the page of a recording, served to this machine's browser.
use crate::cli::Input;
use crate::report;
use anyhow::{Context, anyhow};
use clap::Args;
use dwell_report::{Analysis, page};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use tiny_http::{Header, Request, Response, Server};

/// What `--help` says at its end.
pub const EXAMPLES: &str = "\
Only this machine is served, until Ctrl-C. The page needs no network: dwell report --html writes it into a file that can be
sent to somebody. docs/page.md tells what each view shows.

Examples:
  dwell view api.dwell
  dwell view --no-browser --port 8000 api.dwell      over ssh -L 8000:localhost:8000
  dwell report --html api.html api.dwell";

/// `dwell view`.
#[derive(Args, Debug)]
pub struct ViewArgs {
    #[command(flatten)]
    pub input: Input,
    /// The port to serve on. Default: a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Print the address, open no browser.
    #[arg(long)]
    pub no_browser: bool,
}

/// Serves the page.
pub fn view(args: &ViewArgs) -> anyhow::Result<ExitCode> {
    let html = html(&report::find(&args.input)?)?;
    let server = Server::http(("127.0.0.1", args.port))
        .map_err(|error| anyhow!("serving on port {}: {error}", args.port))?;
    let port = server.server_addr().to_ip().context("a port")?.port();
    let address = format!("http://localhost:{port}/");
    println!("{address}");
    if args.no_browser || !open_browser(&address) {
        eprintln!("dwell: open this address in a browser; Ctrl-C ends it");
    }
    for request in server.incoming_requests() {
        // Whoever asked and is gone is not told.
        let _ = answer(request, port, &html);
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of the recording at `path`.
pub fn html(path: &Path) -> anyhow::Result<Vec<u8>> {
    let tables = report::load(path)?;
    let mut html = Vec::new();
    page::write(&Analysis::of(&tables), &mut html)?;
    Ok(html)
}

fn answer(request: Request, port: u16, html: &[u8]) -> std::io::Result<()> {
    let header = |name: &str, value: &str| Header::from_bytes(name, value).expect("plain ASCII");
    if !is_for_us(&request, port) {
        return request.respond(Response::empty(403));
    }
    match request.url() {
        "/" => request.respond(
            Response::from_data(html)
                .with_header(header("Content-Type", "text/html; charset=utf-8"))
                .with_header(header("Cache-Control", "no-store"))
                .with_header(header("X-Content-Type-Options", "nosniff")),
        ),
        _ => request.respond(Response::empty(404)),
    }
}

/// A page of somebody else's whose name was made to lead here asks under that name.
fn is_for_us(request: &Request, port: u16) -> bool {
    let named = request.headers().iter().find(|h| h.field.equiv("Host"));
    let ours = [format!("localhost:{port}"), format!("127.0.0.1:{port}")];
    named.is_some_and(|host| ours.iter().any(|ours| host.value.as_str() == ours))
}

/// Whether there is something that opens one.
fn open_browser(address: &str) -> bool {
    let seen = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let quiet = || {
        Command::new("xdg-open")
            .arg(address)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    };
    seen && quiet().is_ok()
}
