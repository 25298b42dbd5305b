//! `dwell boost`: a program merged with its libraries, tried out before it is used.
mod arguments;
mod cache;
mod calls;
mod daemon;
mod environment;
mod hot;
mod output;
mod plan;
mod profile;
mod run;
mod subject;
mod trial;

pub use arguments::BoostArgs;

use anyhow::Context;
use arguments::{Action, BuildArgs, How, Mode};
use dwell_booster::{Built, Choices, build, question};
use output::{HUGE_PIECE, PIECE, Pending};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use subject::Subject;
use trial::{Probe, Verdict};

/// Runs one of the subcommands.
pub fn boost(args: &BoostArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Plan(args) => plan::plan(args),
        Action::Build(args) => build_command(args),
        Action::Run(args) => run::run(args),
        Action::Daemon(args) => daemon::daemon(args),
        Action::Activate(args) => daemon::activate(args),
        Action::Rollback(args) => daemon::rollback(args),
        Action::Restore(args) => daemon::restore(args),
        Action::Status(args) => daemon::status(args),
    }
}

/// A merged file that behaved as the stock program does, not yet under its own name.
pub struct Tried {
    pub built: Built,
    pub file: Pending,
    /// What was tried, and how it went.
    pub verdicts: Vec<(Probe, Verdict)>,
}

/// Merges, writes beside `to` and tries it out.
pub fn make(subject: &Subject, to: &Path, probes: &[Probe]) -> anyhow::Result<Tried> {
    let mut options = subject.options.clone();
    options.choices = choices(subject, to)?;
    let built = build(&subject.inputs, &options)?;
    if let Some(hot) = built.hot.as_ref().filter(|h| h.time_ns == 0) {
        anyhow::bail!(
            "the profile has no time of {} and what is merged with it{}: record the program as it is now",
            subject.path.display(),
            hot.other_builds
                .iter()
                .map(|p| format!("; {p} was another build"))
                .collect::<String>()
        );
    }
    let piece = if built.by_huge_pages {
        HUGE_PIECE
    } else {
        PIECE
    };
    let file = Pending::write(to, &built.bytes, piece)?;
    let verdicts = trial::compare(&subject.path, file.path(), probes)?;
    Ok(Tried {
        built,
        file,
        verdicts,
    })
}

/// Asks which functions are chosen at start on this machine, by a program that is written beside `to` and run.
fn choices(subject: &Subject, to: &Path) -> anyhow::Result<Option<Choices>> {
    let Some(question) = question(&subject.inputs, &subject.options)? else {
        return Ok(None);
    };
    let file = Pending::write(to, &question.bytes, PIECE)?;
    // Without variables: GLIBC_TUNABLES may change what is chosen.
    let mut command = Command::new(file.path());
    command.env_clear().stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = trial::start(&mut command).and_then(|child| child.wait_with_output());
    let output = output.with_context(|| format!("running {}", file.path().display()))?;
    let choices = question.choices(&output.stdout);
    let choices = choices.with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!(
            "its C library did not tell which functions it chooses ({}): {said}",
            output.status
        )
    })?;
    Ok(Some(choices))
}

/// Merges a program into a file, with the C library or not, tried out with the arguments; for measuring.
pub fn merged(
    stock: &Path,
    (libc, level): (bool, u8),
    profile: Option<&Path>,
    to: &Path,
    probe: &str,
) -> anyhow::Result<()> {
    let how = How {
        mode: if libc {
            Mode::Static
        } else {
            Mode::StaticNolibc
        },
        level,
        libs: Vec::new(),
        profile: profile.map(Path::to_owned),
        test: vec![probe.to_owned()],
    };
    let subject = Subject::read(stock.as_os_str(), &how)?;
    let tried = make(&subject, to, &how.probes())?;
    let written = tried.file.commit(to);
    written.with_context(|| format!("writing {}", to.display()))
}

fn build_command(args: &BuildArgs) -> anyhow::Result<ExitCode> {
    args.how.check()?;
    let subject = Subject::read(&args.program, &args.how)?;
    subject.check_output(&args.output)?;
    let tried = make(&subject, &args.output, &args.how.probes())?;
    let Tried { built, file, .. } = tried;
    file.commit(&args.output)
        .with_context(|| format!("writing {}", args.output.display()))?;
    let mut to = std::io::stdout();
    if args.json {
        let answer = serde_json::json!({
            "program": subject.path,
            "output": args.output,
            "bytes": built.bytes.len(),
            "merged": built.merged,
            "kept": built.kept,
            "relocations": { "symbolic": built.symbolic, "relative": built.relative },
            "exports": built.exports,
            "call_frames": built.call_frames,
            "direct": built.direct.as_ref().map(calls::calls_json),
            "bound": built.bound,
            "remembered": built.remembered.map(|(of, all)| serde_json::json!({ "of": all, "answered": of })),
            "hot": built.hot.as_ref().map(hot::hot_json),
            "tried": plan::verdicts_json(&tried.verdicts),
        });
        writeln!(to, "{}", serde_json::to_string_pretty(&answer)?)?;
    } else {
        let name = subject.path.file_name().unwrap_or(OsStr::new("program"));
        writeln!(
            to,
            "{}: {} with {}, {} KiB; it does what the stock program does with {}",
            args.output.display(),
            name.display(),
            built.merged.join(", "),
            built.bytes.len() / 1024,
            plan::tried_with(&tried.verdicts),
        )?;
        if let Some(direct) = &built.direct {
            writeln!(to, "{}", calls::calls_text(direct))?;
        }
        if let Some((of, all)) = built.remembered {
            writeln!(
                to,
                "the loader is in it; of {all} places that ask the processor {of} have the answer"
            )?;
        }
        if args.how.level >= 2 {
            writeln!(
                to,
                "its addresses are the same in every process, until it is built anew"
            )?;
        }
        if built.bound > 0 {
            let bound = built.bound;
            writeln!(
                to,
                "{bound} functions that libc chooses for the processor (IFUNC) are bound; each start compares"
            )?;
        }
        if let Some(hot) = &built.hot {
            writeln!(to, "hot: {}", hot::hot_text(hot))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
