//! The `dwell` command: parse, compose, print, exit.

mod agent;
mod bench;
mod boost;
mod cli;
mod counting;
mod delivery;
mod diff;
mod doctor;
mod export;
mod findings;
mod following;
mod functions;
mod import;
mod left_out;
mod locks;
mod memory;
mod naming;
mod notify;
mod record;
mod report;
mod signals;
mod spinning;
mod terminal;
mod top;
mod trace;
mod truncated;
mod view;
mod whatif;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(error) = truncated::read_as_zeros() {
        eprintln!("dwell: a file that is cut while it is read would end dwell: {error}");
    }
    if called_as_dtrace() {
        return dtrace();
    }
    match run(Cli::parse_from(arguments())) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dwell: {}", message(&error));
            let collect = error
                .chain()
                .find_map(|e| e.downcast_ref::<dwell_collector::CollectError>());
            collect
                .and_then(|e| e.exit_code())
                .map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

/// Those of the command; `dwell trace` has dtrace's, which may be written in one word.
fn arguments() -> Vec<std::ffi::OsString> {
    let arguments: Vec<_> = std::env::args_os().collect();
    match arguments.get(1).is_some_and(|name| name == "trace") {
        true => trace::apart(arguments.into_iter()),
        false => arguments,
    }
}

/// Whether the command was called by dtrace's name, as a link to it is.
fn called_as_dtrace() -> bool {
    let name = std::env::args_os().next();
    name.is_some_and(|name| std::path::Path::new(&name).file_name() == Some("dtrace".as_ref()))
}

/// The command as dtrace: its options, its messages, its exit codes.
fn dtrace() -> ExitCode {
    let cli = cli::Dtrace::parse_from(trace::apart(std::env::args_os()));
    trace::trace(&cli.trace, "dtrace").unwrap_or_else(|error| {
        eprintln!("dtrace: {}", message(&error));
        ExitCode::FAILURE
    })
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        None if cli.run.cmd.is_empty()
            && cli.run.pid.is_empty()
            && !cli.run.all
            && cli.run.cgroup.is_none() =>
        {
            Cli::command().print_help()?;
            Ok(ExitCode::from(2))
        }
        None => record::run_and_report(&cli.run, cli.json),
        Some(Command::Record(args)) => record::record(&args),
        Some(Command::Report(args)) => report::report(&args),
        Some(Command::View(args)) => view::view(&args),
        Some(Command::Locks(args)) => locks::locks(&args),
        Some(Command::Whatif(args)) => whatif::whatif(&args),
        Some(Command::Memory(args)) => memory::memory(&args),
        Some(Command::Findings(args)) => findings::findings(&args),
        Some(Command::Diff(args)) => diff::diff(&args),
        Some(Command::Export(args)) => export::export(&args),
        Some(Command::Import(args)) => import::import(&args),
        Some(Command::Send(args)) => delivery::send(&args),
        Some(Command::Agent(args)) => agent::agent(&args),
        Some(Command::Top(args)) => top::top(&args),
        Some(Command::Functions(args)) => functions::functions(&args),
        Some(Command::Trace(args)) => trace::trace(&args, "dwell"),
        Some(Command::Boost(args)) => boost::boost(&args),
        Some(Command::Doctor(args)) => doctor::doctor(&args),
        Some(Command::Bench(args)) => bench_command(&args),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "dwell", &mut script);
            std::io::stdout().write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Man { to: None }) => {
            clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Man { to: Some(folder) }) => {
            clap_mangen::generate_to(Cli::command(), &folder)
                .with_context(|| format!("writing to {}", folder.display()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn bench_command(args: &cli::BenchArgs) -> anyhow::Result<ExitCode> {
    if let Some(cli::BenchWhat::Boost(args)) = &args.what {
        let report = bench::boost::run(args.rounds, &args.only, &mut |line| eprintln!("{line}"))?;
        return print_report(&report, args.json.as_deref());
    }
    if let Some(cli::BenchWhat::Whatif(args)) = &args.what {
        if args.published {
            let report = bench::whatif::Published::now();
            return print_report(&report, args.json.as_deref());
        }
        let report = bench::whatif::run(args, &mut |line| eprintln!("{line}"))?;
        return print_report(&report, args.json.as_deref());
    }
    if args.probes {
        let report = bench::probes::run(args.rounds, &mut |line| eprintln!("{line}"))?;
        return print_report(&report, args.json.as_deref());
    }
    if args.scripts {
        let report = bench::scripts::run(args.rounds, &mut |line| eprintln!("{line}"))?;
        return print_report(&report, args.json.as_deref());
    }
    let mut options = bench::Options {
        rounds: args.rounds,
        seconds: args.seconds,
        programs: args.programs.clone(),
        ..bench::Options::default()
    };
    if args.peers {
        options.tools = bench::Tool::ALL.to_vec();
    }
    if !args.workload.is_empty() {
        let named: anyhow::Result<Vec<_>> =
            args.workload.iter().map(|name| workload(name)).collect();
        options.workloads = named?;
    }
    let report = bench::run(&options, &mut |line| eprintln!("{line}"))?;
    print_report(&report, args.json.as_deref())
}

fn print_report<R: std::fmt::Display + serde::Serialize>(
    report: &R,
    json: Option<&std::path::Path>,
) -> anyhow::Result<ExitCode> {
    writeln!(std::io::stdout(), "{report}")?;
    if let Some(file) = json {
        std::fs::write(file, serde_json::to_string_pretty(report)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn workload(name: &str) -> anyhow::Result<bench::WorkloadName> {
    let all = bench::WorkloadName::ALL;
    all.into_iter().find(|w| w.name() == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|w| w.name()).collect();
        anyhow::anyhow!("no workload {name:?}; there are {}", names.join(", "))
    })
}

/// An error with its causes, but for those its text already tells.
fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The reader went away (`dwell report | head`): that is a success.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error
        .chain()
        .find_map(|e| e.downcast_ref::<std::io::Error>());
    io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
