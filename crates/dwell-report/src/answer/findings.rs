//! What the rules say.
use super::{FindingsAnswer, build};
use dwell_analysis::Analysis;
use dwell_findings::{Recorded, blind, findings};
use dwell_recording::tables::Tables;

impl FindingsAnswer {
    /// Runs the rules over a recording: all, or the one of this name.
    pub fn build(tables: &Tables, rule: Option<&str>) -> FindingsAnswer {
        let analysis = Analysis::of(tables);
        let recorded = Recorded::of(&analysis);
        let is_wanted = |name: &str| rule.is_none_or(|rule| rule == name);
        let mut answer = FindingsAnswer {
            recording: build::recording(&analysis),
            findings: findings(&recorded),
            could_not_look: blind(&recorded),
        };
        answer.findings.retain(|f| is_wanted(&f.rule));
        answer.could_not_look.retain(|b| is_wanted(&b.rule));
        answer
    }
}
