//! `dwell view`: the page of a recording, served to this machine's browser.
use crate::cli::Input;
use crate::report;
use crate::whatif::{self, WhatIfArgs};
use anyhow::{Context, anyhow};
use clap::{Args, Parser};
use dwell_report::whatif::Question;
use dwell_report::{Analysis, page};
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
    let tables = report::load(&report::find(&args.input)?)?;
    let analysis = Analysis::of(&tables);
    let served = Served::of(&analysis)?;
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
        let _ = served.answer(request, port);
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of a recording.
pub fn html(analysis: &Analysis<'_>) -> anyhow::Result<Vec<u8>> {
    let remedies = whatif::answer(analysis, &Question::default());
    let mut html = Vec::new();
    page::write(
        analysis,
        remedies.as_ref().map_err(String::as_str),
        &mut html,
    )?;
    Ok(html)
}

struct Served<'a> {
    analysis: &'a Analysis<'a>,
    html: Vec<u8>,
}

impl<'a> Served<'a> {
    fn of(analysis: &'a Analysis<'a>) -> anyhow::Result<Served<'a>> {
        let html = html(analysis)?;
        Ok(Served { analysis, html })
    }

    fn answer(&self, request: Request, port: u16) -> std::io::Result<()> {
        if !is_for_us(&request, port) {
            return request.respond(Response::empty(403));
        }
        let (path, query) = match request.url().split_once('?') {
            Some((path, query)) => (path, query.to_owned()),
            None => (request.url(), String::new()),
        };
        let (status, kind, body) = match path {
            "/" => (200, "text/html", self.html.clone()),
            "/whatif" => match self.whatif(&query) {
                Ok(json) => (200, "application/json", json.into_bytes()),
                Err(why) => (400, "text/plain", why.into_bytes()),
            },
            _ => return request.respond(Response::empty(404)),
        };
        let header = |name: &str, value: &str| Header::from_bytes(name, value).expect("ASCII");
        request.respond(
            Response::from_data(body)
                .with_status_code(status)
                .with_header(header("Content-Type", &format!("{kind}; charset=utf-8")))
                .with_header(header("Cache-Control", "no-store"))
                .with_header(header("X-Content-Type-Options", "nosniff")),
        )
    }

    /// What a change would do: the options of `dwell whatif`, as the page asks for them.
    fn whatif(&self, query: &str) -> Result<String, String> {
        let options = form_urlencoded::parse(query.as_bytes());
        let options = options.map(|(name, value)| format!("--{name}={value}"));
        let asked = Asked::try_parse_from(options).map_err(|error| error.to_string())?;
        let answer = whatif::answer(self.analysis, &asked.whatif.question())?;
        Ok(dwell_report::json::render_whatif(&answer))
    }
}

/// What the page asks.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Asked {
    #[command(flatten)]
    whatif: WhatIfArgs,
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
