//! `dwell doctor`: what this machine allows.
use crate::cli::DoctorArgs;
use dwell_collector::doctor::{Check, Verdict, examine};
use std::io::Write;
use std::process::ExitCode;

/// Prints every check with its remedy; fails when recording is not possible.
pub fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let checks = examine();
    let mut to = std::io::stdout();
    if args.json {
        let list: Vec<_> = checks.iter().map(to_json).collect();
        writeln!(to, "{}", serde_json::to_string_pretty(&list)?)?;
    } else {
        for check in &checks {
            print(check, &mut to)?;
        }
    }
    let fatal = checks.iter().any(|c| c.verdict == Verdict::Missing);
    if !args.json {
        let verdict = if fatal {
            "Recording is not possible as it is; reading recordings is."
        } else {
            "Recording works here."
        };
        writeln!(to, "\n{verdict}")?;
    }
    Ok(if fatal {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn to_json(check: &Check) -> serde_json::Value {
    serde_json::json!({ "check": check.what, "verdict": check.verdict.name(), "detail": check.detail, "remedy": check.remedy })
}

fn print(check: &Check, to: &mut impl Write) -> std::io::Result<()> {
    let mark = match check.verdict {
        Verdict::Good => "ok     ",
        Verdict::Reduced => "reduced",
        Verdict::Missing => "MISSING",
    };
    writeln!(to, "{mark}  {:<28} {}", check.what, check.detail)?;
    if !check.remedy.is_empty() {
        writeln!(to, "{:9}{:<28} -> {}", "", "", check.remedy)?;
    }
    Ok(())
}
