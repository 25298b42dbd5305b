//! `dwell doctor`: what this machine allows.
use crate::cli::DoctorArgs;
use dwell_collector::doctor::{Check, Verdict, examine};
use std::process::ExitCode;

/// Prints every check with its remedy; fails when recording is not possible.
pub fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let checks = examine();
    if args.json {
        let list: Vec<_> = checks.iter().map(to_json).collect();
        println!("{}", serde_json::to_string_pretty(&list)?);
    } else {
        checks.iter().for_each(print);
    }
    let fatal = checks.iter().any(|c| c.verdict == Verdict::Missing);
    if !args.json {
        println!(
            "\n{}",
            if fatal {
                "Recording is not possible as it is; reading recordings is."
            } else {
                "Recording works here."
            }
        );
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

fn print(check: &Check) {
    let mark = match check.verdict {
        Verdict::Good => "ok     ",
        Verdict::Reduced => "reduced",
        Verdict::Missing => "MISSING",
    };
    println!("{mark}  {:<28} {}", check.what, check.detail);
    if !check.remedy.is_empty() {
        println!("{:9}{:<28} -> {}", "", "", check.remedy);
    }
}
