//! What the rules say, in full and as the first thing of the report of everything.
use super::paint::{Page, right};
use super::stacks::{telling, wrap};
use super::{Style, header};
use crate::answer::FindingsAnswer;
use crate::human;
use crate::shorten::one_line;
use dwell_findings::{Blind, Finding, Number, Severity, Unit};
use std::collections::BTreeMap;

/// Findings in the report of everything.
const REPORTED: usize = 3;
const INDENT: usize = 2;
const DEEP: usize = 13;
/// Columns of a number.
const NUMBER: usize = 11;
/// Lines a stack may take.
const STACK_LINES: usize = 3;

/// Renders the answer of the rules.
pub fn render_findings(answer: &FindingsAnswer, style: &Style) -> String {
    let mut page = Page::new(style);
    header::add(&mut page, &answer.recording);
    page.heading("Findings", "what to change, and what that is worth");
    if answer.findings.is_empty() {
        page.line("  Nothing found.");
    }
    for finding in &answer.findings {
        add_finding(&mut page, finding);
    }
    add_blind(&mut page, &answer.could_not_look);
    page.finish()
}

/// The section of the report of everything: nothing where there is nothing.
pub(super) fn add_section(page: &mut Page, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    page.heading("Findings", "more: dwell findings");
    for finding in findings.iter().take(REPORTED) {
        let title = title(page, finding);
        page.wrapped(&title, INDENT, INDENT + 8);
    }
    let more = findings.len().saturating_sub(REPORTED);
    if more > 0 {
        page.line(format!(
            "  and {}",
            human::counted(more as u64, "other", "others")
        ));
    }
}

fn title(page: &Page, finding: &Finding) -> String {
    let severity = right(finding.severity.name(), 6);
    let severity = match finding.severity {
        Severity::High => page.warning(&severity),
        Severity::Medium => page.bold(&severity),
        Severity::Low => page.dim(&severity),
    };
    let rule = page.dim(&format!("({})", finding.rule));
    format!("{severity}  {} {rule}", one_line(&finding.title))
}

fn add_finding(page: &mut Page, finding: &Finding) {
    page.line("");
    let title = title(page, finding);
    page.wrapped(&title, INDENT, INDENT + 8);
    for number in &finding.evidence {
        let value = page.bold(&right(&value(number), NUMBER));
        page.wrapped(&format!("{value}  {}", number.label), INDENT, DEEP + INDENT);
    }
    for stack in &finding.stacks {
        page.wrapped(&page.dim(&stack.label), DEEP + INDENT, DEEP + INDENT);
        let width = page.width - DEEP - 2 * INDENT;
        for line in wrap(&telling(&stack.frames, width), width)
            .iter()
            .take(STACK_LINES)
        {
            page.line(format!("{}{line}", " ".repeat(DEEP + 2 * INDENT)));
        }
    }
    let effect = &finding.effect;
    let worth = format!(
        "{} of {}: {}.",
        range(effect.low, effect.high),
        effect.of,
        effect.how
    );
    for (label, text) in [
        ("remedy", finding.remedy.as_str()),
        ("saves", &worth),
        ("sure", finding.confidence.name()),
        ("see", &finding.page),
    ] {
        page.wrapped(
            &format!("{}  {text}", right(label, NUMBER)),
            INDENT,
            DEEP + INDENT,
        );
    }
}

fn value(number: &Number) -> String {
    let whole = |v: f64| human::count(v.round() as u64);
    match number.unit {
        Unit::Ns => human::duration(number.value as u64),
        Unit::Share => human::share(number.value),
        Unit::PerSecond => format!("{}/s", whole(number.value)),
        Unit::Count if number.value < 100.0 && number.value.fract() != 0.0 => {
            format!("{:.1}", number.value)
        }
        Unit::Count => whole(number.value),
    }
}

/// `35 to 73 %`, or `73 %`.
pub(super) fn range(low: f64, high: f64) -> String {
    let [low, high] = [low, high].map(|share| (100.0 * share).round());
    if low == high {
        format!("{high} %")
    } else {
        format!("{low} to {high} %")
    }
}

/// The rules that could not look, by what would let them.
fn add_blind(page: &mut Page, blind: &[Blind]) {
    let mut by_option: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for blind in blind {
        by_option
            .entry(&blind.option)
            .or_default()
            .push(&blind.rule);
    }
    if by_option.is_empty() {
        return;
    }
    page.line("");
    for (option, rules) in by_option {
        let text = format!(
            "Not looked for: {}; `dwell record {option}` looks for them.",
            rules.join(", ")
        );
        page.wrapped(&text, INDENT, 2 * INDENT);
    }
}
