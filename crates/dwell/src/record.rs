//! `dwell record`, and `dwell -- COMMAND`.
use crate::cli::{ClockChoice, RecordArgs, RecordCommand};
use crate::counting::Counting;
use crate::{delivery, left_out, naming, report, terminal};
use anyhow::{Context, bail};
use dwell_collector::{
    Clock, DEFAULT_PERIOD_NS, DEFAULT_SLICE_MIN_NS, Ended, Launched, Options, Recorder, Step,
    Target,
};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long the kernel works at what is told by stacks alone: every tick of the usual 250 a second is taken.
const MEMORY_PERIOD_NS: u64 = 4_000_000;

/// Records, then prints the answer. It goes to standard error where a command was started, so that
/// the command's own output stays clean.
pub fn run_and_report(args: &RecordArgs, json: bool) -> anyhow::Result<ExitCode> {
    let output = output_path(args);
    let done = make(args, &output, false)?;
    if json {
        report::print(&output, &mut std::io::stdout(), None, None)?;
    } else {
        let mut to = std::io::stderr();
        let style = terminal::style(&to);
        report::print(&output, &mut to, Some(style), None)?;
        writeln!(
            to,
            "\nrecording: {0}   flame graph: dwell export {0} --to svg -o {1}",
            output.display(),
            svg_name(&output)
        )?;
    }
    done.exit()
}

/// Records and says nothing. Where the recording is, and the exit code that is the command's.
pub fn record_quietly(args: &RecordArgs) -> anyhow::Result<(PathBuf, ExitCode)> {
    let output = output_path(args);
    let exit = make(args, &output, true)?.exit()?;
    Ok((output, exit))
}

/// Records and says where.
pub fn record(command: &RecordCommand) -> anyhow::Result<ExitCode> {
    let output = output_path(&command.record);
    let done = make(&command.record, &output, command.quiet)?;
    if !command.quiet && done.write_error.is_none() {
        let seconds = done.elapsed.as_secs_f64();
        eprintln!(
            "dwell: recorded {seconds:.1} s of {} threads in {1}; `dwell report {1}` prints the answer",
            done.threads,
            output.display()
        );
    }
    if done.write_error.is_none() {
        delivery::deliver(&output, &command.delivery, command.quiet)?;
    }
    done.exit()
}

struct Done {
    exit_code: Option<i32>,
    launched: Option<Launched>,
    elapsed: Duration,
    threads: usize,
    write_error: Option<anyhow::Error>,
}

impl Done {
    /// Our exit code is the command's (one that outlives its recording is waited for); a recording
    /// that lacks something is a failure.
    fn exit(self) -> anyhow::Result<ExitCode> {
        if let Some(error) = self.write_error {
            return Err(error.context("not all of the recording could be written"));
        }
        let outlives = || self.launched.as_ref()?.exit_code(true);
        Ok(ExitCode::from(
            self.exit_code.or_else(outlives).unwrap_or(0) as u8,
        ))
    }
}

fn make(args: &RecordArgs, output: &Path, quiet: bool) -> anyhow::Result<Done> {
    let options = options(args, output)?;
    let launches = matches!(options.target, Target::Command(_));
    let mut recorder = Recorder::start(options).context("cannot record")?;
    let mut counting = match args.locks {
        true => Some(Counting::start(&mut recorder, &args.pid)?),
        false => None,
    };
    if let Some(note) = left_out::children(&args.pid).filter(|_| !quiet) {
        eprintln!("dwell: note: {note}");
    }
    recorder.go()?;
    let mut display = ProgressLine::new(quiet || launches);
    let mut threads = 0;
    let ended = loop {
        let step = recorder.step()?;
        if let Some(counting) = &mut counting {
            counting.update(&mut recorder);
        }
        match step {
            Step::Progress(progress) => {
                threads = progress.threads;
                display.show(&format!(
                    "recording: {:.0} s, {threads} threads; Ctrl-C ends it",
                    progress.elapsed.as_secs_f64()
                ));
            }
            Step::Rows(_) => {}
            Step::Ended(ended) => break ended,
        }
    };
    display.clear();
    let lock_notes = counting
        .map(|c| c.finish(&mut recorder))
        .unwrap_or_default();
    let mut finished = recorder.finish()?;
    threads = threads.max(finished.threads());
    let elapsed = finished.writer.meta().window();
    if ended == Ended::Signal && !quiet && !launches {
        eprintln!("dwell: interrupted; finishing the recording");
    }
    let mut write_error = finished.write_error.take().map(anyhow::Error::from);
    match naming::name_frames(&mut finished) {
        Ok(notes) if !quiet => notes
            .iter()
            .chain(&finished.problems)
            .chain(&lock_notes)
            .for_each(|note| eprintln!("dwell: note: {note}")),
        Ok(_) => {}
        Err(error) => write_error = write_error.or(Some(error.into())),
    }
    if let Err(error) = finished.writer.finish() {
        write_error = write_error.or(Some(error.into()));
    }
    Ok(Done {
        exit_code: finished.exit_code,
        launched: finished.launched,
        elapsed,
        threads,
        write_error,
    })
}

fn options(args: &RecordArgs, output: &Path) -> anyhow::Result<Options> {
    let period_ns = match args.frequency {
        Some(frequency) => 1_000_000_000 / u64::from(frequency),
        None if args.memory => MEMORY_PERIOD_NS,
        None => DEFAULT_PERIOD_NS,
    };
    Ok(Options {
        target: target(args)?,
        output: Some(output.to_owned()),
        overwrite: true,
        period_ns,
        clock: if args.clock == ClockChoice::Tick {
            Clock::Tick
        } else {
            Clock::Timer
        },
        duration: args.duration,
        slice_min_ns: DEFAULT_SLICE_MIN_NS,
        ring_bytes: args.buffer * 1024,
        kernel_locks: args.locks,
        memory: args.memory,
        command_line: std::env::args_os()
            .map(|a| a.to_string_lossy().into_owned())
            .collect(),
    })
}

fn target(args: &RecordArgs) -> anyhow::Result<Target> {
    if !args.cmd.is_empty() {
        return Ok(Target::Command(args.cmd.clone()));
    }
    if !args.pid.is_empty() {
        return Ok(Target::Pids(args.pid.clone()));
    }
    if args.all {
        return Ok(Target::All);
    }
    let Some(path) = &args.cgroup else {
        bail!(
            "nothing to record: name a command after `--`, a process with -p, a cgroup with --cgroup, or -a for the whole system"
        );
    };
    let path = if path.is_absolute() && path.join("cgroup.procs").exists() {
        path.clone()
    } else {
        Path::new("/sys/fs/cgroup").join(path.strip_prefix("/").unwrap_or(path))
    };
    Ok(Target::Cgroup(path))
}

/// `stockfish.dwell`, `pid-4711.dwell`, `system.dwell`, after what is recorded.
fn output_path(args: &RecordArgs) -> PathBuf {
    if let Some(output) = &args.output {
        return output.clone();
    }
    let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
    let name = match (args.cmd.first(), args.pid.first(), &args.cgroup) {
        (Some(command), ..) => name(Path::new(command)),
        (_, Some(pid), _) => Some(format!("pid-{pid}")),
        (.., Some(cgroup)) => name(cgroup),
        _ => None,
    };
    PathBuf::from(format!("{}.dwell", name.as_deref().unwrap_or("system")))
}

fn svg_name(output: &Path) -> String {
    output
        .with_extension("svg")
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// One line on the terminal that is written over and over; nothing elsewhere.
struct ProgressLine {
    active: bool,
    shown: String,
}

impl ProgressLine {
    fn new(quiet: bool) -> Self {
        ProgressLine {
            active: !quiet && std::io::stderr().is_terminal(),
            shown: String::new(),
        }
    }

    fn show(&mut self, text: &str) {
        if self.active && self.shown != text {
            eprint!("\r\x1b[K{text}");
            self.shown = text.into();
        }
    }

    fn clear(&mut self) {
        if self.active && !self.shown.is_empty() {
            eprint!("\r\x1b[K");
        }
    }
}
