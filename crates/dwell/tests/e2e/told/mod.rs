//! What the rules say of the programs of `habits`.
use crate::common::*;
use dwell_findings::{Finding, Severity, rules};
use serde_json::Value;

/// What the rules say of a recorded program, and what it says itself.
pub struct Told {
    /// What the rules say.
    pub findings: Vec<Finding>,
    /// What the program says.
    pub truth: Value,
}

/// Records `habits` with what the rule of that habit needs.
pub fn habits(args: &[&str]) -> Told {
    let scratch = Scratch::new();
    let rule = rules::ALL.iter().find(|r| r.name == args[0]);
    let option = rule.expect("a rule for the habit").needs.option();
    let options = ["-F", "250", option];
    let options = if option.is_empty() {
        &options[..2]
    } else {
        &options[..]
    };
    let recorded = launch(&scratch, options, "habits", args);
    let output = dwell(&["findings", "--json", &recorded.path]).output();
    let answer: Value = serde_json::from_slice(&output.expect("dwell runs").stdout).expect("JSON");
    let told = Told {
        findings: serde_json::from_value(answer["findings"].clone()).expect("findings"),
        truth: serde_json::from_str(&recorded.stdout).expect("JSON"),
    };
    println!("{args:?}: {} {:#?}", told.truth, told.findings);
    told
}

impl Told {
    /// The one finding there is, of this rule and at least of this severity.
    #[track_caller]
    pub fn only(&self, rule: &str, severity: Severity) -> &Finding {
        let [finding] = self.findings.as_slice() else {
            panic!("one finding: {:?}", self.findings)
        };
        assert_eq!(finding.rule, rule);
        assert!(finding.severity >= severity, "{finding:?}");
        assert!(finding.effect.low <= finding.effect.high, "{finding:?}");
        assert!(!finding.stacks.is_empty(), "{finding:?}");
        finding
    }

    /// The finding of this rule, whatever else is found.
    #[track_caller]
    pub fn of(&self, rule: &str) -> &Finding {
        let mut found = self.findings.iter().filter(|f| f.rule == rule);
        let finding = found.next();
        finding.unwrap_or_else(|| panic!("{rule}: {:#?}", self.findings))
    }

    /// Processor time for a unit of work, ns.
    pub fn cpu_of_unit(&self) -> f64 {
        number(&self.truth, "cpu_ns") as f64 / number(&self.truth, "units") as f64
    }
}

/// A number that a finding tells.
#[track_caller]
pub fn evidence(finding: &Finding, label: &str) -> f64 {
    let found = finding.evidence.iter().find(|n| n.label == label);
    found
        .unwrap_or_else(|| panic!("{label}: {finding:?}"))
        .value
}

/// That a function is on one of its stacks.
#[track_caller]
pub fn has_function(finding: &Finding, function: &str) {
    let frames = finding.stacks.iter().flat_map(|s| &s.frames);
    assert!(
        frames.into_iter().any(|f| f.function == function),
        "{finding:?}"
    );
}
