//! `dwell whatif`: what a change to a program's threads and locks would do.
mod arguments;
pub mod calibration;
pub mod disturbance;
mod locks;
mod measuring;

use crate::{report, terminal};
pub use arguments::{EXAMPLES, WhatIfArgs};
use calibration::Calibration;
use dwell_recording::Tables;
use dwell_report::Analysis;
use dwell_report::whatif::{Question, WhatIfAnswer, found};
use dwell_whatif::Machine;
use std::io::Write;
use std::process::ExitCode;

/// Prints the answer.
pub fn whatif(args: &WhatIfArgs) -> anyhow::Result<ExitCode> {
    let tables = report::load(&report::find(&args.input)?)?;
    let analysis = Analysis::of(&tables);
    let answer = answer(&analysis, &args.question()).map_err(anyhow::Error::msg)?;
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

/// The answer. Fails with what to do about it.
pub fn answer(analysis: &Analysis<'_>, question: &Question) -> Result<WhatIfAnswer, String> {
    // What has no lock at all needs no machine that is measured for a second.
    let (lock, rate) = (question.lock.as_deref(), question.rate);
    found(analysis, Machine::ideal(1), lock, rate)?;
    let calibration = calibration::told(|text| eprintln!("dwell: {text}"));
    let machine = machine(&calibration, analysis.tables);
    let mut answer = WhatIfAnswer::build(analysis, machine, question)?;
    answer.costs = calibration.words();
    if !calibration.is_calm() {
        answer.notes.push(calibration.words());
    }
    let here = calibration::processors();
    if here != answer.processors {
        answer.notes.push(format!(
            "recorded with {} processors, and what locks cost was measured here, with {here}",
            answer.processors
        ));
    }
    Ok(answer)
}

/// The machine that the recording was made on, with costs measured here.
pub fn machine(calibration: &Calibration, tables: &Tables) -> Machine {
    let processors = match tables.meta.machine.cpus {
        0 => calibration::processors(),
        cpus => cpus as usize,
    };
    calibration.machine(processors)
}
