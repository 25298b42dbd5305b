//! `dwell export`: other tools' formats.
use crate::cli::{ExportArgs, Format};
use crate::report;
use anyhow::Context;
use dwell_report::{
    Analysis, firefox, folded, otlp, perf_script, perfetto, pprof, speedscope, svg,
};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

/// Writes the recording in the wanted format.
pub fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let path = report::find(&args.input)?;
    let tables = report::load(&path)?;
    let analysis = Analysis::of(&tables);
    match &args.output {
        Some(file) => {
            let create = || format!("creating {}", file.display());
            let mut to = BufWriter::new(File::create(file).with_context(create)?);
            write(args, &analysis, &mut to)?;
            to.flush()
                .with_context(|| format!("writing {}", file.display()))?;
        }
        None if is_binary(args.to) && io::stdout().is_terminal() => {
            anyhow::bail!("this format is binary: name a file with -o");
        }
        None => {
            let mut to = BufWriter::new(io::stdout().lock());
            write(args, &analysis, &mut to)?;
            to.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_binary(format: Format) -> bool {
    match format {
        Format::Pprof | Format::Firefox | Format::Perfetto | Format::Otlp => true,
        Format::Folded | Format::Svg | Format::Speedscope | Format::PerfScript => false,
    }
}

fn write(args: &ExportArgs, analysis: &Analysis<'_>, to: &mut impl Write) -> io::Result<()> {
    match args.to {
        Format::Folded => {
            let options = folded::Options {
                per_thread: args.per_thread,
                fold_idle: args.fold_idle,
                ..folded::Options::default()
            };
            folded::write(analysis, &options, to)
        }
        Format::Svg => svg::write(
            analysis,
            &svg::Options {
                per_thread: args.per_thread,
                ..svg::Options::default()
            },
            to,
        ),
        Format::Pprof => pprof::write(analysis, to),
        Format::Firefox => firefox::write(analysis, to),
        Format::Speedscope => speedscope::write(analysis, to),
        Format::Perfetto => perfetto::write(analysis, to),
        Format::Otlp => otlp::write(analysis, to),
        Format::PerfScript => perf_script::write(analysis, to),
    }
}
