//! What changed between recordings.
//!
//! A [`Run`] keeps of a recording what is compared, so that one recording is in memory at a time. [`DiffAnswer::of`]
//! compares the runs before with those after; the types here are the JSON output as they stand. All times are divided by
//! what makes runs comparable, [`Per`].
mod build;
mod noise;
mod predictions;
mod run;
pub(crate) mod tree;

pub use build::Sides;
pub use run::Run;

use crate::answer::Frame;
use serde::{Deserialize, Serialize};

/// What times are divided by.
#[derive(Clone, Debug, PartialEq)]
pub enum Per {
    /// Nothing: each recording is of a whole run that did the same work.
    Run,
    /// The length of the recording, in seconds.
    Second,
    /// All thread time, in seconds: what is compared is how it divides.
    ThreadTime,
    /// Units of work that were done while each recording was made, in the order of the recordings.
    Work(Vec<f64>),
}

impl Per {
    /// Its name in answers.
    pub fn name(&self) -> &'static str {
        match self {
            Per::Run => "run",
            Per::Second => "second",
            Per::ThreadTime => "thread-time",
            Per::Work(_) => "work",
        }
    }

    /// Runs of commands that ended are compared as wholes, all else per second.
    pub fn fitting<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Per {
        if runs.into_iter().all(|run| run.ended) {
            Per::Run
        } else {
            Per::Second
        }
    }
}

/// What changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiffAnswer {
    /// What times are divided by: `run`, `second`, `thread-time` or `work`. Times are ns per one of it.
    pub per: String,
    /// The recordings before.
    pub before: Side,
    /// The recordings after.
    pub after: Side,
    /// How long it took and how thread time divides: `duration` (of runs only), `threads` (a number), `running` (that of
    /// spinning is in it), `spinning`, `runnable`, `stolen`, `blocked:REASON`, `lost`.
    pub measures: Vec<Measure>,
    /// Functions whose time on a processor, with them innermost, changed: the greatest change first.
    pub functions: Vec<FunctionChange>,
    /// Waits of thread groups at a function that changed, the greatest change first. Idle pools are left out.
    pub waits: Vec<WaitChange>,
    /// Changes of functions and waits that noise explains, or that are too small to tell.
    pub left_out: u64,
    /// What the rules said before and say no longer.
    pub findings_gone: Vec<dwell_findings::Finding>,
    /// What the rules say now and did not say before.
    pub findings_new: Vec<dwell_findings::Finding>,
    /// Names of the rules that say something before and after.
    pub findings_stayed: Vec<String>,
    /// What was predicted from the recordings before, beside what was measured.
    pub predictions: Vec<PredictionCheck>,
    /// What makes the comparison less sure.
    pub notes: Vec<String>,
}

/// What a finding before said its remedy would save, and what is less after. Savings are parts of the recording's measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictionCheck {
    /// The finding's rule.
    pub rule: String,
    /// The measure that it is about: `running` or `duration`.
    pub measure: String,
    /// That much less was predicted at least …
    pub low: f64,
    /// … and at most.
    pub high: f64,
    /// That much less it is.
    pub measured: f64,
    /// Half the interval that the true difference is in with 95 % probability, as a part of the measure.
    pub noise: Option<f64>,
    /// How both agree.
    pub verdict: Verdict,
}

/// How a measurement agrees with a prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within what was predicted, and the noise.
    #[default]
    AsPredicted,
    /// Less is saved: the remedy was not applied, or something else costs more.
    Less,
    /// More is saved: something else costs less, too.
    More,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::AsPredicted => "as predicted",
            Verdict::Less => "less than predicted",
            Verdict::More => "more than predicted",
        }
    }
}

/// Recordings of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// What was recorded, of the first.
    pub target: String,
    /// How many there are.
    pub recordings: u64,
}

/// A quantity before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Mean of the recordings before.
    pub before: f64,
    /// Mean of those after.
    pub after: f64,
    /// After without before.
    pub difference: f64,
    /// The difference over before; none where there was nothing before.
    pub share: Option<f64>,
    /// Half the width of the interval that the true difference is in with 95 % probability: from what the recordings of
    /// one side differ by, and from how many samples there are. None where neither tells.
    pub noise: Option<f64>,
    /// Probability that chance brings a difference of this size or a greater one; none where nothing tells.
    pub chance: Option<f64>,
    /// False where the difference is within the noise.
    pub significant: bool,
}

/// A quantity by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Which.
    pub name: String,
    /// How it changed, ns but for numbers of things.
    pub change: Change,
}

/// A function's time on a processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionChange {
    /// Which.
    pub function: Frame,
    /// With it innermost, ns.
    pub own: Change,
    /// With it anywhere on the stack, ns.
    pub total: Change,
}

/// Waits of a thread group in one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitChange {
    /// `process/group`.
    pub who: String,
    /// `lock`, `io` … or `runnable`.
    pub reason: String,
    /// System call; empty outside.
    pub syscall: String,
    /// The innermost functions of the program that tell something, innermost first; empty for `runnable`.
    pub frames: Vec<Frame>,
    /// Time, ns.
    pub time: Change,
}

impl DiffAnswer {
    /// A measure by name.
    pub fn measure(&self, name: &str) -> Option<&Change> {
        let found = self.measures.iter().find(|m| m.name == name);
        found.map(|measure| &measure.change)
    }

    /// The measures that say whether it got slower, which are more than `share` (a part of 1) worse than before and not
    /// within the noise: `duration` and `running`.
    pub fn worse_by(&self, share: f64) -> Vec<&Measure> {
        let judged = |m: &&Measure| ["duration", "running"].contains(&m.name.as_str());
        let worse = |m: &&Measure| {
            let grew = m.change.share.unwrap_or(f64::INFINITY);
            m.change.difference > 0.0 && grew > share && m.change.significant
        };
        self.measures.iter().filter(judged).filter(worse).collect()
    }
}
