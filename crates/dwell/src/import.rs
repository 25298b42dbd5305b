//! `dwell import`: other profilers' files into recordings.
use crate::naming;
use anyhow::Context;
use clap::{Args, ValueEnum};
use dwell_import::{FileSource, Format, Options, Source, Unit};
use dwell_recording::Overwrite;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
docs/import.md says what becomes of what.

Examples:
  perf record --call-graph dwarf -- ./server --selftest && dwell import perf.data -o old.dwell
  perf record -g -a -e cpu-clock -e sched:sched_switch -e sched:sched_wakeup sleep 5
  dwell import perf.data && dwell report perf.dwell
  offcputime-bpfcc -df 5 > waits.txt && dwell import waits.txt --unit us --off-cpu
  curl -s localhost:6060/debug/pprof/profile > cpu.pb.gz && dwell import cpu.pb.gz
  stackcollapse-perf.pl out.perf | dwell import - -o out.dwell";

/// More than this of standard input is not kept in memory.
const MAX_INPUT: u64 = 1 << 30;

/// `dwell import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The file; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where to write the recording (a folder, which must not be a recording yet). Default: the file's name with .dwell
    /// for its ending, in this folder.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// What the file is. Default: what it looks like.
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<From>,
    /// What the numbers of folded stacks count; a sample is shown as 1 ms.
    #[arg(long, value_enum, default_value_t = UnitChoice::Samples)]
    unit: UnitChoice,
    /// The folded stacks are of threads that waited, not ran.
    #[arg(long)]
    off_cpu: bool,
}

/// See `ImportArgs::from`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// Of `perf record`.
    Perf,
    /// Lines `a;b;c N`.
    Folded,
    /// profile.proto, gzipped or not.
    Pprof,
}

/// See `ImportArgs::unit`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum UnitChoice {
    Samples,
    Ns,
    Us,
    Ms,
}

/// Imports the file.
pub fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let to = match &args.output {
        Some(path) => path.clone(),
        None => default_output(&args.file),
    };
    let existed = to.exists();
    let options = options(args);
    let what = args.file.display();
    let mut symbolizer = naming::symbolizer();
    let mut run = |source: &dyn Source| {
        dwell_import::import(source, &options, &mut symbolizer, &to, Overwrite::Refuse)
    };
    let imported = if args.file == Path::new("-") {
        let mut bytes = Vec::new();
        let mut input = std::io::stdin().lock().take(MAX_INPUT + 1);
        input
            .read_to_end(&mut bytes)
            .context("reading standard input")?;
        anyhow::ensure!(
            bytes.len() as u64 <= MAX_INPUT,
            "more than 1 GiB on standard input: write it to a file first"
        );
        run(&bytes.as_slice())
    } else {
        let file = File::open(&args.file).with_context(|| format!("opening {what}"))?;
        let source = FileSource::new(file).with_context(|| format!("opening {what}"))?;
        run(&source)
    };
    if imported.is_err() && !existed {
        // Half a recording would be in the way of the next attempt.
        let _ = std::fs::remove_dir_all(&to);
    }
    let imported = imported.with_context(|| format!("importing {what}"))?;
    for note in &imported.notes {
        eprintln!("dwell: note: {note}");
    }
    println!(
        "{}: {} stacks of {} threads, from {}",
        to.display(),
        imported.samples,
        imported.threads,
        imported.format.name()
    );
    Ok(ExitCode::SUCCESS)
}

fn options(args: &ImportArgs) -> Options {
    let modified = std::fs::metadata(&args.file).and_then(|m| m.modified());
    let modified = modified
        .ok()
        .and_then(|m| m.duration_since(UNIX_EPOCH).ok());
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let stdin = args.file == Path::new("-");
    Options {
        format: args.from.map(|from| match from {
            From::Perf => Format::Perf,
            From::Folded => Format::Folded,
            From::Pprof => Format::Pprof,
        }),
        unit: match args.unit {
            UnitChoice::Samples => Unit::Samples,
            UnitChoice::Ns => Unit::Nanoseconds,
            UnitChoice::Us => Unit::Microseconds,
            UnitChoice::Ms => Unit::Milliseconds,
        },
        off_cpu: args.off_cpu,
        name: if stdin {
            "standard input".into()
        } else {
            args.file.to_string_lossy().into_owned()
        },
        command_line: std::env::args_os()
            .map(|a| a.to_string_lossy().into_owned())
            .collect(),
        modified_ns: modified.map_or(0, |m| m.as_nanos() as u64),
        perf_cache: home.map(|home| home.join(".debug")),
    }
}

/// `cpu.pb.gz` → `cpu.dwell`, `perf.data` → `perf.dwell`.
fn default_output(file: &Path) -> PathBuf {
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
    let name = name.filter(|n| n != "-").unwrap_or_else(|| "import".into());
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    let stem = if stem.is_empty() { "import" } else { stem };
    PathBuf::from(format!("{stem}.dwell"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_named_after_the_file() {
        let name = |file: &str| default_output(Path::new(file)).display().to_string();
        assert_eq!(name("/x/perf.data"), "perf.dwell");
        assert_eq!(name("cpu.pb.gz"), "cpu.dwell");
        assert_eq!(name("stacks"), "stacks.dwell");
        assert_eq!(name(".gz"), "import.dwell");
        assert_eq!(name("-"), "import.dwell");
    }
}
