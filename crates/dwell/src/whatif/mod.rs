//! `dwell whatif`: what a change to a program's threads and locks would do.
mod arguments;
pub mod calibration;
mod locks;

use crate::{report, terminal};
pub use arguments::{EXAMPLES, WhatIfArgs};
use dwell_recording::Tables;
use dwell_report::whatif::WhatIfAnswer;
use dwell_whatif::Machine;
use std::io::Write;
use std::process::ExitCode;

/// Prints the answer.
pub fn whatif(args: &WhatIfArgs) -> anyhow::Result<ExitCode> {
    let tables = report::load(&report::find(&args.input)?)?;
    let machine = machine(&tables)?;
    let question = args.question();
    let mut answer =
        WhatIfAnswer::build(&tables, machine, &question).map_err(anyhow::Error::msg)?;
    let here = calibration::processors();
    if here != answer.processors {
        answer.notes.push(format!(
            "recorded with {} processors, and what locks cost was measured here, with {here}",
            answer.processors
        ));
    }
    let mut to = std::io::stdout();
    let text = match args.json {
        true => dwell_report::json::render_whatif(&answer),
        false => {
            let style = terminal::style(&to);
            dwell_report::terminal::render_whatif(&answer, args.explain, &style)
        }
    };
    to.write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The machine that the recording was made on, with costs measured here.
pub fn machine(tables: &Tables) -> anyhow::Result<Machine> {
    let calibration = calibration::told(|text| eprintln!("dwell: {text}"))?;
    let processors = match tables.meta.machine.cpus {
        0 => calibration::processors(),
        cpus => cpus as usize,
    };
    Ok(calibration.machine(processors))
}
