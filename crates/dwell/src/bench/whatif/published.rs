//! Larger machines, simulated, beside what is published of them.
use dwell_report::whatif::Bounds;
use dwell_whatif::Effort;
use dwell_whatif::published::{Case, Figure, cases};
use serde::Serialize;
use std::fmt;

#[derive(Clone, Debug, Serialize)]
struct Told {
    processors: usize,
    what: String,
    figure: &'static str,
    predicted: Bounds,
    published: Option<f64>,
    source: &'static str,
}

/// What is simulated and what is published.
#[derive(Clone, Debug, Serialize)]
pub struct Published {
    cases: Vec<Told>,
}

impl Published {
    /// Simulates.
    pub fn now() -> Published {
        let told = |case: Case| Told {
            processors: case.processors,
            what: case.what,
            figure: match case.figure {
                Figure::Spinning => "spinning",
                Figure::CpuRatio => "CPU per page",
            },
            predicted: case.predicted.into(),
            published: case.published,
            source: case.source,
        };
        let cases = cases(Effort::default());
        Published {
            cases: cases.into_iter().map(told).collect(),
        }
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Threads that zero pages, simulated on larger machines than this: predictions, with costs of published figures\n"
        )?;
        for case in &self.cases {
            let percent = |share: f64| format!("{:.1} %", share * 100.0);
            let published = case.published.map_or_else(|| "none".to_owned(), percent);
            writeln!(
                f,
                "{:>4} CPUs, {:<29} {:<13}{:>8} [{}, {}]; published: {published}\n           {}",
                case.processors,
                case.what,
                case.figure,
                percent(case.predicted.likely),
                percent(case.predicted.low),
                percent(case.predicted.high),
                case.source
            )?;
        }
        write!(
            f,
            "Memory that moves between processors with the lock is not simulated; in the profile it looks like work. So where the \
             cure ends that, it does more than predicted, and what is left of the waiting weighs more."
        )
    }
}
