//! What an expert would say of a recording: rules that look for one bad habit each, with the numbers and stacks that
//! speak for it, the remedy, and what the remedy is worth.
//!
//! [`Recorded::of`] joins what rules read, [`findings`] runs them. A rule is a function of that alone, one file each in
//! [`rules`]; its page for people is a section of `docs/findings.md` with the rule's name. A rule says nothing on too
//! little evidence, and nothing about what was not recorded: [`blind`] tells which rules those are.
//!
//! Predictions are closed formulas over what was measured, never constants: [`queue`] has those of a lock.
#![forbid(unsafe_code)]

mod finding;
pub mod memory;
pub mod queue;
mod recorded;
pub mod rules;
#[cfg(test)]
mod testing;

pub use finding::{Confidence, Effect, Finding, Frame, Number, Saves, Severity, Stack, Unit};
pub use recorded::{LockUse, Recorded};
use serde::{Deserialize, Serialize};

/// What a rule reads beside times and stacks, which every recording has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Times,
    /// Counted lock operations: `dwell record --locks`.
    Locks,
    /// The ledger of memory: `dwell record --memory`.
    Memory,
}

impl Needs {
    /// The option of `dwell record` that provides it; empty where every recording has it.
    pub fn option(self) -> &'static str {
        match self {
            Needs::Times => "",
            Needs::Locks => "--locks",
            Needs::Memory => "--memory",
        }
    }

    fn are_met(self, recorded: &Recorded<'_, '_>) -> bool {
        match self {
            Needs::Times => true,
            Needs::Locks => !recorded.analysis.tables.meta.counted.is_empty(),
            Needs::Memory => recorded.analysis.tables.meta.memory.is_some(),
        }
    }
}

/// One bad habit.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Stable, in kebab-case: the name of its section in `docs/findings.md`.
    pub name: &'static str,
    /// What it reads.
    pub needs: Needs,
    /// Looks for it.
    pub find: fn(&Recorded<'_, '_>) -> Vec<Finding>,
}

/// A rule that could not look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blind {
    /// Which.
    pub rule: String,
    /// The option of `dwell record` that would let it.
    pub option: String,
}

/// What the rules find, the most severe first, then what is worth most.
pub fn findings(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let mut all: Vec<Finding> = rules::ALL
        .iter()
        .filter(|rule| rule.needs.are_met(recorded))
        .flat_map(|rule| (rule.find)(recorded))
        .collect();
    all.sort_by(|a, b| {
        let by_worth = b.effect.high.total_cmp(&a.effect.high);
        b.severity
            .cmp(&a.severity)
            .then(by_worth)
            .then_with(|| a.rule.cmp(&b.rule))
            .then_with(|| a.title.cmp(&b.title))
    });
    all
}

/// The rules that need what was not recorded.
pub fn blind(recorded: &Recorded<'_, '_>) -> Vec<Blind> {
    let blind = rules::ALL.iter().filter(|r| !r.needs.are_met(recorded));
    blind
        .map(|rule| Blind {
            rule: rule.name.to_owned(),
            option: rule.needs.option().to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::Analysis;
    use dwell_analysis::testing::drawn;

    #[test]
    fn every_rule_has_a_name_of_its_own_and_a_page() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
        let pages = std::fs::read_to_string(path).expect("docs/findings.md");
        let sections: Vec<&str> = pages
            .lines()
            .filter_map(|l| l.strip_prefix("## "))
            .collect();
        let mut names: Vec<&str> = rules::ALL.iter().map(|r| r.name).collect();
        for name in &names {
            assert!(
                sections.contains(name),
                "docs/findings.md has no section {name}"
            );
            let is_kebab = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(name.chars().all(is_kebab), "{name}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rules::ALL.len());
    }

    #[test]
    fn a_recording_of_nothing_has_no_findings() {
        let tables = dwell_recording::Tables::default();
        let analysis = Analysis::of(&tables);
        let recorded = Recorded::of(&analysis);
        assert_eq!(findings(&recorded), []);
    }

    #[test]
    fn what_computes_has_no_findings_and_rules_say_what_they_miss() {
        let tables = drawn(
            "state | running | running
             time  | 900     | 100
             stack | main    | main
                   | compute | print",
        );
        let analysis = Analysis::of(&tables);
        let recorded = Recorded::of(&analysis);
        assert_eq!(findings(&recorded), []);
        for blind in blind(&recorded) {
            assert!(["--locks", "--memory"].contains(&blind.option.as_str()));
        }
    }
}
