//! `dwell trace`: D programs. Called as `dtrace`, the command takes dtrace's options and ends as it does.
mod aggregations;
mod arguments;
pub mod header;
mod names;
mod output;
mod placement;
mod run;
mod source;
mod target;

pub use arguments::{TraceArgs, apart};

use anyhow::Context;
use dwell_debuginfo::{Known, Process};
use dwell_script::codegen::Limits;
use dwell_script::{Compiled, Input, Macros, Options, compile_all};
use dwell_trace::{Session, Settings, TraceError};
use output::Output;
use source::Source;
use std::process::ExitCode;
use target::Target;

/// Exit codes as dtrace has them.
const FAILED: u8 = 1;

/// Runs what was given; `program` is in front of messages.
pub fn trace(args: &TraceArgs, program: &str) -> anyhow::Result<ExitCode> {
    if args.header || args.object {
        return make(args);
    }
    let options = args.script_options()?;
    let sources = source::read(args, program)?;
    anyhow::ensure!(!sources.is_empty(), "no probes specified: use -n or -s");
    let mut target = Target::find(args)?;
    let process = target.pid.and_then(|pid| Process::read(pid).ok());
    let known = Known::new(process.as_ref());
    let inputs = inputs(&sources, args, &target, &options);
    let refuse = |(part, error): (usize, dwell_script::Error)| {
        eprintln!("{program}: {}: {error}", sources[part].failed);
        eprint!("{}", error.excerpt());
        Ok(ExitCode::from(FAILED))
    };
    let compiled = match compile_all(&inputs, &known) {
        Ok(compiled) => compiled,
        Err(error) => return refuse(error),
    };
    if args.verbose {
        eprint!("{}", compiled.script);
    }
    if args.compile_only {
        return Ok(ExitCode::SUCCESS);
    }
    let status = execute(&compiled, args, &mut target, (&sources, program));
    if let Err(error) = &status
        && let Some(TraceError::NoMatch {
            clause, nearest, ..
        }) = error.downcast_ref::<TraceError>()
    {
        let message = error.root_cause().to_string();
        return refuse(compiled.no_such_probe(&inputs, *clause, message, nearest.clone()));
    }
    Ok(ExitCode::from(status? as u8))
}

/// Writes what programs with probes of their own are built with: next to the provider file, as dtrace does.
fn make(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    for path in &args.scripts {
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let made = if args.header {
            header::make_header(&text).map(String::into_bytes)
        } else {
            header::make_object(&text)
        };
        let bytes = made.with_context(|| format!("in {name}"))?;
        let beside = path.with_extension(if args.header { "h" } else { "o" });
        let to = args.output.as_deref().unwrap_or(&beside);
        std::fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All sources as parts of one script: they share their variables, and the clauses run in the order in which they were
/// given.
fn inputs<'a>(
    sources: &'a [Source],
    args: &'a TraceArgs,
    target: &Target,
    options: &Options,
) -> Vec<Input<'a>> {
    let variables = variables(target);
    let input = |source: &'a Source| {
        let zeroth = [source.zeroth.as_str()];
        let others = args.arguments.iter().map(String::as_str);
        Input {
            source: &source.text,
            macros: Macros {
                arguments: zeroth.into_iter().chain(others).collect(),
                variables: variables.clone(),
            },
            specifier: source.specifier,
            options: options.clone(),
        }
    };
    sources.iter().map(input).collect()
}

/// `$target`, `$pid` and the like.
fn variables(target: &Target) -> Vec<(&'static str, i64)> {
    // SAFETY: none of these has arguments that matter or can fail but for a missing process, which we are not.
    let ours = unsafe {
        [
            ("pid", i64::from(libc::getpid())),
            ("ppid", i64::from(libc::getppid())),
            ("uid", i64::from(libc::getuid())),
            ("euid", i64::from(libc::geteuid())),
            ("gid", i64::from(libc::getgid())),
            ("egid", i64::from(libc::getegid())),
            ("pgid", i64::from(libc::getpgid(0))),
            ("sid", i64::from(libc::getsid(0))),
            ("projid", 0),
            ("taskid", i64::from(libc::getpid())),
        ]
    };
    let of_target = target.pid.map(|pid| ("target", i64::from(pid)));
    ours.into_iter().chain(of_target).collect()
}

fn execute(
    compiled: &Compiled,
    args: &TraceArgs,
    target: &mut Target,
    (sources, program): (&[Source], &str),
) -> anyhow::Result<i32> {
    let Compiled {
        script, options, ..
    } = compiled;
    let settings = Settings {
        engine: args.engine.unwrap_or_default().into(),
        may_match_nothing: options.flag("zdefs") || args.list,
        ..settings(options)
    };
    let mut session = Session::new(script, &settings, &mut Vec::new())
        .with_context(|| format!("failed to enable {}", names(sources)))?;
    if args.list {
        placement::list(&session, args.verbose);
        return Ok(0);
    }
    for line in placement::told(&session, args.verbose) {
        eprintln!("{program}: {line}");
    }
    if !options.flag("quiet") {
        tell_matches(&session, compiled, (sources, program));
    }
    let buffer = options.number("bufsize").unwrap_or(i64::MAX);
    if !session.fits(buffer.unsigned_abs()) {
        anyhow::bail!("could not enable tracing: Enabling exceeds size of buffer");
    }
    let output = Output::open(args.output.as_deref())?;
    let manner = run::Manner {
        program,
        switch_every: run::switch_every(options),
        tags: options.flag("droptags"),
    };
    let printing = printer_options(options, target);
    run::run(
        &mut session,
        &script.types,
        printing,
        target,
        output,
        &manner,
    )
}

/// Says of each source how many probes it enabled.
fn tell_matches(session: &Session<'_>, compiled: &Compiled, (sources, program): (&[Source], &str)) {
    let mut start = 0;
    for (source, end) in sources.iter().zip(&compiled.ends) {
        let clauses = session.probes().flat_map(|(_, _, clauses)| clauses);
        let matched = clauses
            .filter(|clause| (start..*end).contains(*clause))
            .count();
        let plural = if matched == 1 { "" } else { "s" };
        eprintln!("{program}: {} matched {matched} probe{plural}", source.name);
        start = *end;
    }
}

fn names(sources: &[Source]) -> String {
    let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    names.join(", ")
}

fn settings(options: &Options) -> Settings {
    let default = Settings::default();
    let size = |name: &str, otherwise: u64| {
        options
            .number(name)
            .map_or(otherwise, |n| n.clamp(1, 1 << 32) as u64)
    };
    let limits = Limits {
        strsize: size("strsize", default.limits.strsize.into()).min(8 << 10) as u32,
        dynvarsize: size("dynvarsize", default.limits.dynvarsize.into()).min(1 << 30) as u32,
        aggsize: size("aggsize", default.limits.aggsize),
        nspec: options
            .number("nspec")
            .map_or(default.limits.nspec, |n| n.max(0) as u32),
    };
    let buffer = size("bufsize", default.buffer.into()).clamp(4096, 1 << 30) as u32;
    Settings {
        limits,
        buffer: buffer.next_power_of_two(),
        ..default
    }
}

/// The printer's part of the options.
fn printer_options(options: &Options, target: &Target) -> dwell_script::output::Options {
    let mut printing = dwell_script::output::Options::default();
    for name in Options::names() {
        // To the printer as to dtrace, a flag that is a number is on.
        let number = options.number(name).map(|number| match number {
            0 if Options::is_flag(name) => "off".to_owned(),
            number => number.to_string(),
        });
        if let Some(value) = number.or_else(|| options.text(name).map(str::to_owned)) {
            // Those of other parts are not the printer's.
            let _ = printing.set(name, &value);
        }
    }
    printing.target = target.pid.unwrap_or(0);
    printing
}
