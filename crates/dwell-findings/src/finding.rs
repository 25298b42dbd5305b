//! What a rule says.
use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Low,
    /// Worth changing.
    Medium,
    /// Most of what could be gained here.
    High,
}

impl Severity {
    /// As it is typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
        }
    }

    /// By two thresholds: at least medium, and from `high` on high.
    pub(crate) fn from_share(share: f64, high: f64) -> Severity {
        if share >= high {
            Severity::High
        } else {
            Severity::Medium
        }
    }
}

/// How sure a rule is that it sees what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Something else may look the same.
    Low,
    /// Likely; the page of the rule says what else may look the same.
    Medium,
    /// The numbers allow nothing else.
    High,
}

impl Confidence {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A part of 1.
    Share,
    /// Things.
    Count,
    /// Things a second.
    PerSecond,
}

/// A number that speaks for a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// What it is of.
    pub label: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: Unit,
}

impl Number {
    /// A time.
    pub(crate) fn ns(label: &str, ns: u64) -> Number {
        Number::of(label, ns as f64, Unit::Ns)
    }

    /// A part of 1.
    pub(crate) fn share(label: &str, share: f64) -> Number {
        Number::of(label, share, Unit::Share)
    }

    /// A number of things.
    pub(crate) fn count(label: &str, count: f64) -> Number {
        Number::of(label, count, Unit::Count)
    }

    /// Things a second.
    pub(crate) fn per_second(label: &str, rate: f64) -> Number {
        Number::of(label, rate, Unit::PerSecond)
    }

    fn of(label: &str, value: f64, unit: Unit) -> Number {
        Number {
            label: label.to_owned(),
            value,
            unit,
        }
    }
}

/// A function on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Demangled name in full.
    pub function: String,
    /// True in the kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel: bool,
}

/// A stack that speaks for a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Who is there, and why it is shown.
    pub label: String,
    /// Innermost first.
    pub frames: Vec<Frame>,
}

/// What a remedy makes less, of what a comparison of recordings measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Saves {
    /// CPU time for the same work.
    CpuTime,
    /// Time from begin to end of the same work.
    Duration,
    /// Something that only the program itself can tell, such as the time of a single request.
    #[default]
    Other,
}

/// What the remedy is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// What a comparison shows to be less.
    #[serde(default)]
    pub saves: Saves,
    /// Of the whole recording's `saves`, what the shares are of: a part of 1.
    #[serde(default)]
    pub part: f64,
    /// What the shares are of, in words: `CPU time of these threads`.
    pub of: String,
    /// That much is saved at least, a part of 1.
    pub low: f64,
    /// That much at most.
    pub high: f64,
    /// How both were computed, in a sentence.
    pub how: String,
}

/// What an expert would say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in a line.
    pub title: String,
    /// The numbers that say so.
    pub evidence: Vec<Number>,
    /// Where.
    pub stacks: Vec<Stack>,
    /// What to do, in a sentence.
    pub remedy: String,
    /// What that is worth.
    pub effect: Effect,
    /// How sure the rule is.
    pub confidence: Confidence,
    /// Where the rule is explained.
    pub page: String,
}

/// The page of a rule.
pub(crate) fn page(rule: &str) -> String {
    format!("docs/findings.md#{rule}")
}
