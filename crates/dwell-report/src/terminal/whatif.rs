//! The answer about changes.
use super::Style;
use super::paint::{Page, left, right};
use crate::human;
use crate::whatif::{Bounds, WhatIfAnswer, WhatIfRow};
use unicode_width::UnicodeWidthStr;

/// Columns of the words for a change.
const WHAT: usize = 27;

/// Renders the answer; with `explain` each change has a line that says which terms are most.
pub fn render_whatif(answer: &WhatIfAnswer, explain: bool, style: &Style) -> String {
    let mut page = Page::new(style);
    add_lock(&mut page, answer);
    let about = match answer.ranked {
        true => "the best first; simulated, with the bounds of nine in ten runs",
        false => "simulated, with the bounds of nine in ten runs",
    };
    page.heading("What if", about);
    let unit = if answer.now.units_per_s.is_some() {
        "units/s"
    } else {
        ""
    };
    page.line(format!(
        "  {}{}  {}{}{}",
        left("", WHAT),
        left("times as many units", 21),
        right(unit, 8),
        right("CPU/unit", 10),
        right("spinning", 10),
    ));
    let most = answer.rows.iter().map(|r| r.gain.likely);
    let most = most.fold(1.0, f64::max);
    for row in std::iter::once(&answer.now).chain(&answer.rows) {
        add_row(&mut page, row, explain);
    }
    page.heading("Throughput", "| is what it is now");
    for row in std::iter::once(&answer.now).chain(&answer.rows) {
        add_bar(&mut page, row, most);
    }
    add_notes(&mut page, answer, explain);
    page.finish()
}

fn ns(value: f64) -> String {
    human::duration(value.max(0.0) as u64)
}

fn add_lock(page: &mut Page, answer: &WhatIfAnswer) {
    let lock = &answer.lock;
    page.heading(&lock.name, &format!("of {}", answer.target));
    let text = format!(
        "{} {} lock taken by {}: {} of work and a hold of {} per acquisition. {:.1} threads keep it taken; \
         more only wait.",
        article(&lock.kind),
        lock.kind,
        human::counted(lock.threads as u64, "thread", "threads"),
        ns(lock.think_ns),
        ns(lock.hold_ns),
        lock.useful_threads,
    );
    page.wrapped(&text, 2, 2);
    if let (Some(recorded), Some(ratio)) = (answer.recorded_per_s, answer.reproduced) {
        let text = format!(
            "{} units/s were recorded; simulated as it is, {:.2} times that [{:.2}, {:.2}].",
            human::count(recorded as u64),
            ratio.likely,
            ratio.low,
            ratio.high
        );
        page.wrapped(&text, 2, 2);
    }
    if !answer.others.is_empty() {
        let text = format!("Simulated with it: {}.", answer.others.join(", "));
        page.wrapped(&text, 2, 2);
    }
}

fn article(kind: &str) -> &'static str {
    match kind {
        "adaptive" | "mcs" => "An",
        _ => "A",
    }
}

fn ratio(of: &Bounds) -> String {
    format!("{:.2} [{:.2}, {:.2}]", of.likely, of.low, of.high)
}

fn add_row(page: &mut Page, row: &WhatIfRow, explain: bool) {
    let mark = if row.larger_machine { " *" } else { "" };
    let what = format!("{}{mark}", row.what);
    let units = row
        .units_per_s
        .map_or_else(String::new, |u| human::count(u.likely as u64));
    let spinning = format!("{:.2} CPUs", row.wasted_processors.likely);
    let figures = format!(
        "{}  {}{}{}",
        left(&ratio(&row.gain), 21),
        right(&units, 8),
        right(&format!("x {:.2}", row.cpu_ratio.likely), 10),
        right(&spinning, 10),
    );
    if what.width() >= WHAT {
        page.line(format!("  {what}"));
        page.line(format!("  {}{figures}", left("", WHAT)));
    } else {
        page.line(format!("  {}{figures}", left(&what, WHAT)));
    }
    if let Some(lock) = &row.queue_at {
        page.wrapped(&format!("The queue is then at {lock}."), 4, 4);
    }
    if explain {
        page.wrapped(&format!("{}.", row.explanation), 4, 4);
    }
}

/// A bar as long as the throughput is many; a mark where it is what it is now.
fn add_bar(page: &mut Page, row: &WhatIfRow, most: f64) {
    let width = page.width.saturating_sub(WHAT + 10).max(10);
    let place = |gain: f64| ((gain / most * width as f64).round() as usize).min(width);
    let (length, now) = (place(row.gain.likely), place(1.0));
    let cells = (0..=width).map(|cell| match cell {
        cell if cell == now => '|',
        cell if cell < length => '#',
        cell if cell < place(row.gain.high) => '-',
        _ => ' ',
    });
    let bar: String = cells.collect();
    let what: String = row.what.chars().take(WHAT - 1).collect();
    page.line(format!("  {}{bar}", left(&what, WHAT)));
}

fn add_notes(page: &mut Page, answer: &WhatIfAnswer, explain: bool) {
    let larger = answer.rows.iter().any(|r| r.larger_machine);
    let costs =
        Some(&answer.costs).filter(|c| explain && !c.is_empty() && !answer.notes.contains(c));
    if answer.notes.is_empty() && costs.is_none() && !larger {
        return;
    }
    page.heading("What this rests on", "");
    for note in answer.notes.iter().chain(costs) {
        page.wrapped(&format!("- {note}."), 2, 4);
    }
    if larger {
        let text = format!(
            "* a prediction for a larger machine: costs were measured with {}, hand-overs to more waiters are extrapolated, \
             and distances between sockets are not in it.",
            human::counted(answer.processors as u64, "processor", "processors")
        );
        page.wrapped(&text, 2, 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::{Found, Question};
    use dwell_whatif::{Kind, Machine, Model, SpinShares};

    fn answer(question: &Question) -> WhatIfAnswer {
        let shares = SpinShares {
            threads: 4,
            elapsed_ns: 1e9,
            running_ns: 4e9,
            spinning_ns: 2e9,
            units: 1e6,
            kind: Kind::Ttas,
        };
        let found = Found {
            model: Model::of_spin_shares(&shares, Machine::server(4)),
            lock: 0,
            recorded_per_s: Some(1e6),
            notes: vec!["a note".into()],
        };
        WhatIfAnswer::of(&found, question).expect("an answer")
    }

    #[test]
    fn it_fits_eighty_columns_and_marks_larger_machines() {
        let question = Question {
            threads: vec![1, 8],
            kinds: vec![Kind::Ttas, Kind::Adaptive],
            processors: vec![2, 96],
            ..Question::default()
        };
        let answer = answer(&question);
        let text = render_whatif(&answer, true, &Style::default());
        assert!(text.lines().all(|l| l.width() <= 80), "{text}");
        let costs = "costs were measured so";
        let of_measured = WhatIfAnswer {
            costs: costs.to_owned(),
            ..answer.clone()
        };
        let explained = render_whatif(&of_measured, true, &Style::default());
        assert!(explained.contains(costs), "{explained}");
        let short = render_whatif(&of_measured, false, &Style::default());
        assert!(!short.contains(costs), "{short}");
        assert_eq!(answer.rows.len(), 8);
        let larger = answer.rows.iter().filter(|r| r.larger_machine);
        assert_eq!(larger.count(), 4);
        assert!(text.contains("8 threads, adaptive, 96 CPUs *"), "{text}");
        assert_eq!(["adaptive", "mcs", "mutex"].map(article), ["An", "An", "A"]);
        // A row, a bar and an explanation of each, and of how it is.
        let plot = text.find("Throughput").expect("a plot");
        let bars = text[plot..]
            .lines()
            .filter(|l| l.contains('#') && l.contains('|'));
        assert!(bars.count() >= answer.rows.len(), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches("threads' time:").count(), 9, "{text}");
        assert!(text.contains("a prediction for a larger machine"), "{text}");
        let json = crate::json::render_whatif(&answer);
        for row in &answer.rows {
            assert!(
                json.contains(&row.what) && text.contains(&row.what),
                "{}",
                row.what
            );
        }
    }

    #[test]
    fn without_a_question_remedies_come_best_first() {
        let answer = answer(&Question::default());
        assert!(answer.ranked && answer.rows.len() >= 5);
        let first = &answer.rows[0];
        assert!(
            first.gain.likely > 1.2 || first.cpu_ratio.likely < 0.7,
            "{first:?}"
        );
        let reproduced = answer.reproduced.expect("recorded");
        assert!((reproduced.likely - 1.0).abs() < 0.1, "{reproduced:?}");
    }
}
