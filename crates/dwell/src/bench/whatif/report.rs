//! What was predicted next to what was so.
use super::super::statistics::median;
use dwell_report::whatif::Bounds;
use dwell_whatif::Kind;
use serde::Serialize;
use std::fmt;

/// A gap below which an order of two cells means nothing.
const GAP: f64 = 0.1;

/// A program as it is told to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub threads: usize,
    pub batch: u32,
    pub kind: Kind,
    pub shards: u32,
    /// Hold, of the recorded one.
    pub hold_percent: u32,
}

impl Cell {
    pub fn words(&self) -> String {
        format!(
            "{:<8} {} threads, batch {}, shards {}",
            self.kind.name(),
            self.threads,
            self.batch,
            self.shards
        )
    }
}

/// A cell of the grid.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub cell: Cell,
    pub predicted: Bounds,
    /// Units per second, the median of the runs.
    pub real: f64,
    pub runs: Vec<f64>,
    /// What the Universal Scalability Law says, where it was fitted.
    pub scalability: Option<f64>,
}

impl Row {
    fn error(&self) -> f64 {
        (self.predicted.likely / self.real - 1.0).abs()
    }

    fn is_within_bounds(&self) -> bool {
        (self.predicted.low..=self.predicted.high).contains(&self.real)
    }
}

/// A row as it is written down.
#[derive(Clone, Debug, Serialize)]
struct Told {
    threads: usize,
    batch: u32,
    kind: &'static str,
    shards: u32,
    hold_percent: u32,
    real_units_per_s: f64,
    runs: Vec<f64>,
    predicted: Bounds,
    error: f64,
    within_bounds: bool,
    scalability_law: Option<f64>,
}

/// How right predictions were.
#[derive(Clone, Debug, Serialize)]
pub struct WhatIfReport {
    cells: Vec<Told>,
    /// Median of the relative errors.
    median_error: f64,
    /// Nine in ten errors are no larger.
    p90_error: f64,
    /// Share of cells within the predicted bounds.
    within_bounds: f64,
    /// Of pairs of cells whose real throughput differs by more than a tenth: ranked right.
    ranked_right: f64,
    /// Median of the Universal Scalability Law's errors, fitted to the real runs.
    law_median_error: Option<f64>,
    /// Nine in ten of them are no larger.
    law_p90_error: Option<f64>,
    /// Median over the cells of half the range of its runs over their median: what cannot be predicted.
    noise: f64,
    /// Nine in ten cells' are no larger.
    p90_noise: f64,
    /// Where the costs came from.
    costs: String,
}

fn p90(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() * 9).div_ceil(10).saturating_sub(1);
    values.get(place).copied().unwrap_or(f64::NAN)
}

impl WhatIfReport {
    pub(super) fn new(rows: Vec<Row>, costs: String) -> WhatIfReport {
        let errors: Vec<f64> = rows.iter().map(Row::error).collect();
        let law: Vec<f64> = rows
            .iter()
            .filter_map(|r| Some((r.scalability? / r.real - 1.0).abs()))
            .collect();
        let within = rows.iter().filter(|r| r.is_within_bounds());
        let noise: Vec<f64> = rows.iter().map(noise).collect();
        WhatIfReport {
            median_error: median(&errors),
            p90_error: p90(errors),
            within_bounds: within.count() as f64 / rows.len().max(1) as f64,
            ranked_right: ranked_right(&rows),
            law_median_error: (!law.is_empty()).then(|| median(&law)),
            law_p90_error: (!law.is_empty()).then(|| p90(law)),
            noise: median(&noise),
            p90_noise: p90(noise),
            costs,
            cells: rows.into_iter().map(told).collect(),
        }
    }
}

fn noise(row: &Row) -> f64 {
    let least = row.runs.iter().copied().fold(f64::MAX, f64::min);
    let most = row.runs.iter().copied().fold(0.0, f64::max);
    (most - least) / 2.0 / row.real
}

fn told(row: Row) -> Told {
    Told {
        threads: row.cell.threads,
        batch: row.cell.batch,
        kind: row.cell.kind.name(),
        shards: row.cell.shards,
        hold_percent: row.cell.hold_percent,
        real_units_per_s: row.real,
        error: row.error(),
        within_bounds: row.is_within_bounds(),
        predicted: row.predicted,
        runs: row.runs,
        scalability_law: row.scalability,
    }
}

/// Of all pairs whose real throughput differs by more than [`GAP`]: those that are predicted in this order.
fn ranked_right(rows: &[Row]) -> f64 {
    let (mut right, mut all) = (0u64, 0u64);
    for (position, one) in rows.iter().enumerate() {
        for other in &rows[position + 1..] {
            if (one.real / other.real).ln().abs() <= (1.0 + GAP).ln() {
                continue;
            }
            all += 1;
            let predicted = one.predicted.likely > other.predicted.likely;
            right += u64::from(predicted == (one.real > other.real));
        }
    }
    right as f64 / all.max(1) as f64
}

impl fmt::Display for WhatIfReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<9}{:>8}{:>7}{:>8}{:>7}{:>12}{:>12}{:>9}{:>12}",
            "kind", "threads", "batch", "shards", "hold", "units/s", "predicted", "error", "law"
        )?;
        for c in &self.cells {
            writeln!(
                f,
                "{:<9}{:>8}{:>7}{:>8}{:>6}%{:>12.0}{:>12.0}{:>8.1}%{:>12}",
                c.kind,
                c.threads,
                c.batch,
                c.shards,
                c.hold_percent,
                c.real_units_per_s,
                c.predicted.likely,
                c.error * 100.0,
                c.scalability_law
                    .map_or_else(String::new, |law| format!("{law:.0}"))
            )?;
        }
        let percent = |share: f64| share * 100.0;
        writeln!(
            f,
            "\n{} cells: error {:.1} % in the median, {:.1} % at the 90th percentile; {:.0} % within the bounds;",
            self.cells.len(),
            percent(self.median_error),
            percent(self.p90_error),
            percent(self.within_bounds)
        )?;
        writeln!(
            f,
            "of pairs that differ by more than a tenth {:.1} % are ranked right. The runs of a cell differ by ± {:.1} % in the \
             median, {:.1} % at the 90th.",
            percent(self.ranked_right),
            percent(self.noise),
            percent(self.p90_noise)
        )?;
        if let (Some(median), Some(p90)) = (self.law_median_error, self.law_p90_error) {
            writeln!(
                f,
                "The Universal Scalability Law, fitted to these very runs: {:.1} % in the median, {:.1} % at the 90th.",
                percent(median),
                percent(p90)
            )?;
        }
        write!(f, "Costs: {}.", self.costs)
    }
}
