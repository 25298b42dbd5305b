//! What changed between recordings.
use super::Style;
use super::paint::{Page, left, right};
use crate::diff::{Change, DiffAnswer, FunctionChange, Measure, PredictionCheck, Side, WaitChange};
use crate::human;
use crate::shorten::{middle, one_line, shorten};
use dwell_analysis::{Reason, State};
use dwell_findings::Finding;

/// Functions shown, and waits; the rest is in the JSON output.
const SHOWN: usize = 10;
/// Shares of the greater side's thread time below which a state is not told.
const LEAST_SHARE: f64 = 0.001;
/// Shares of what was before from which times are told instead of percent.
const MANY: f64 = 9.995;
/// Columns of a quantity, of the change and of its noise.
const QUANTITY: usize = 11;
const CHANGE: usize = 10;
const NOISE: usize = 10;
/// Columns of all numbers of a line.
const NUMBERS: usize = 2 * QUANTITY + CHANGE + NOISE;

/// Renders it.
pub fn render_diff(answer: &DiffAnswer, style: &Style) -> String {
    let mut page = Page::new(style);
    add_header(&mut page, answer);
    add_measures(&mut page, answer);
    add_functions(&mut page, answer);
    add_waits(&mut page, answer);
    add_findings(&mut page, answer);
    for note in &answer.notes {
        page.line("");
        page.wrapped(note, 0, 2);
    }
    page.finish()
}

fn add_header(page: &mut Page, answer: &DiffAnswer) {
    let named = |side: &Side| {
        let times = match side.recordings {
            1 => String::new(),
            n => format!(" ({n} recordings)"),
        };
        format!("{}{times}", one_line(&side.target))
    };
    let (before, after) = (named(&answer.before), named(&answer.after));
    let room = page.width - 8;
    page.line(format!("before  {}", page.bold(&middle(&before, room))));
    page.line(format!("after   {}", page.bold(&middle(&after, room))));
    let compared = match answer.per.as_str() {
        "run" => "Compared by the run: each did the same work.",
        "thread-time" => "Compared by how thread time divides.",
        "work" => "Compared by the unit of work.",
        _ => "Compared by the second.",
    };
    page.line(compared);
}

fn head(page: &mut Page, heading: &str) {
    page.heading(heading, "");
    let columns = format!(
        "{}{}{}{}",
        right("before", QUANTITY),
        right("after", QUANTITY),
        right("change", CHANGE),
        right("noise", NOISE)
    );
    let columns = page.dim(&columns);
    page.line(columns);
}

/// A quantity, in what it is divided by.
fn quantity(answer: &DiffAnswer, value: f64) -> String {
    match answer.per.as_str() {
        "second" | "thread-time" => human::share(value / 1e9),
        _ => human::mean_duration(value),
    }
}

fn numbers(page: &Page, change: &Change, show: impl Fn(f64) -> String) -> String {
    let text = match change.share {
        Some(share) => signed(share),
        None => "new".to_owned(),
    };
    let text = right(&text, CHANGE);
    let text = match change.significant {
        false => page.dim(&text),
        true => page.bold(&text),
    };
    let whole = change.before.abs().max(f64::MIN_POSITIVE);
    let noise = match change.noise {
        None => "-".to_owned(),
        Some(_) if change.before == 0.0 => "-".to_owned(),
        Some(noise) if noise / whole >= MANY => format!("±{:.0}×", noise / whole),
        Some(noise) => format!("±{}", human::share(noise / whole)),
    };
    format!(
        "{}{}{text}{}",
        right(&show(change.before), QUANTITY),
        right(&show(change.after), QUANTITY),
        right(&noise, NOISE)
    )
}

/// `+12.3 %`, `-4.0 %`, `×12.3`.
fn signed(share: f64) -> String {
    match share {
        s if s >= MANY => format!("×{:.1}", 1.0 + s),
        s => format!("{:+.1} %", 100.0 * s),
    }
}

fn add_measures(page: &mut Page, answer: &DiffAnswer) {
    head(page, "How it changed");
    let all = |side: fn(&Change) -> f64| {
        let states = answer
            .measures
            .iter()
            .filter(|m| !["duration", "threads", "spinning"].contains(&m.name.as_str()));
        states.map(|m| side(&m.change)).sum::<f64>()
    };
    let least = LEAST_SHARE * all(|c| c.before).max(all(|c| c.after));
    let shown = |m: &&Measure| m.name == "threads" || m.change.before.max(m.change.after) >= least;
    for measure in answer.measures.iter().filter(shown) {
        let (state, name) = label(&measure.name);
        let name = match state {
            Some(state) => page.state(state, name),
            None => name.to_owned(),
        };
        let numbers = match measure.name.as_str() {
            "threads" => numbers(page, &measure.change, |n| format!("{n:.0}")),
            _ => numbers(page, &measure.change, |n| quantity(answer, n)),
        };
        page.line(format!("{numbers}  {name}"));
    }
}

/// A measure as a person says it, and the state that it is of.
fn label(name: &str) -> (Option<State>, &str) {
    if let Some(reason) = name.strip_prefix("blocked:") {
        return (Some(State::Blocked(Reason::from_name(reason))), reason);
    }
    let state = State::all().find(|state| state.name() == name);
    let said = match name {
        "duration" => "wall-clock time",
        "running" => "on a CPU",
        "spinning" => "  of it spinning",
        "runnable" => "wants a CPU",
        "lost" => "not known",
        name => name,
    };
    (state, said)
}

fn add_functions(page: &mut Page, answer: &DiffAnswer) {
    if answer.functions.is_empty() {
        return;
    }
    head(page, "Functions on a CPU, innermost");
    for FunctionChange { function, own, .. } in answer.functions.iter().take(SHOWN) {
        let numbers = numbers(page, own, |n| quantity(answer, n));
        let kernel = if function.kernel { " [k]" } else { "" };
        let name = shorten(&function.function, page.width - NUMBERS - 6);
        page.line(format!("{numbers}  {name}{kernel}"));
    }
    add_more(page, answer.functions.len());
}

fn add_waits(page: &mut Page, answer: &DiffAnswer) {
    if !answer.waits.is_empty() {
        head(page, "Waits");
    }
    for wait in answer.waits.iter().take(SHOWN) {
        let numbers = numbers(page, &wait.time, |n| quantity(answer, n));
        let room = page.width - NUMBERS - 2;
        page.line(format!("{numbers}  {}", middle(&why(wait), room)));
        let frames: Vec<String> = wait
            .frames
            .iter()
            .map(|f| shorten(&f.function, 40))
            .collect();
        let place = format!("{}: {}", wait.who, frames.join(" ← "));
        let place = middle(place.trim_end_matches(": "), room);
        let place = page.dim(&place);
        page.line(format!("{}{place}", left("", NUMBERS + 2)));
    }
    add_more(page, answer.waits.len());
    if answer.left_out > 0 {
        page.line("");
        let changes = human::counted(answer.left_out, "change", "changes");
        page.line(format!("Left out: {changes} within the noise, or small."));
    }
}

fn why(wait: &WaitChange) -> String {
    match wait.reason.as_str() {
        "runnable" => "wants a CPU".to_owned(),
        reason => format!("{reason} {}", wait.syscall).trim_end().to_owned(),
    }
}

fn add_more(page: &mut Page, all: usize) {
    if all > SHOWN {
        let more = human::counted((all - SHOWN) as u64, "other", "others");
        page.line(format!("  and {more}"));
    }
}

fn add_findings(page: &mut Page, answer: &DiffAnswer) {
    let stays = answer.predictions.iter().any(|c| stayed(answer, c));
    if answer.findings_gone.is_empty() && answer.findings_new.is_empty() && !stays {
        return;
    }
    page.heading("Findings", "");
    for finding in &answer.findings_gone {
        page.wrapped(
            &format!("gone  {} ({})", one_line(&finding.title), finding.rule),
            2,
            8,
        );
        page.wrapped(&promised(answer, finding), 8, 8);
    }
    for check in answer.predictions.iter().filter(|c| stayed(answer, c)) {
        page.wrapped(&format!("still {}", check.rule), 2, 8);
        page.wrapped(&beside(check), 8, 8);
    }
    for finding in &answer.findings_new {
        let new = page.warning("new");
        page.wrapped(
            &format!("{new}   {} ({})", one_line(&finding.title), finding.rule),
            2,
            8,
        );
    }
}

/// What the remedy of a finding that is gone was to save, and whether it did.
fn promised(answer: &DiffAnswer, finding: &Finding) -> String {
    let effect = &finding.effect;
    let check = answer.predictions.iter().find(|c| c.rule == finding.rule);
    match check {
        Some(check) => beside(check),
        None => {
            let range = super::findings::range(effect.low, effect.high);
            format!("predicted: {range} less of {}", effect.of)
        }
    }
}

fn stayed(answer: &DiffAnswer, check: &PredictionCheck) -> bool {
    answer.findings_stayed.contains(&check.rule)
}

/// `predicted: 41 to 63 % less CPU time; measured: 58 % less ± 3: as predicted`.
fn beside(check: &PredictionCheck) -> String {
    let range = super::findings::range(check.low, check.high);
    let what = match check.measure.as_str() {
        "running" => "CPU time",
        other => other,
    };
    let measured = match check.measured >= 0.0 {
        true => format!("{:.0} % less", 100.0 * check.measured),
        false => format!("{:.0} % more", -100.0 * check.measured),
    };
    let noise = check
        .noise
        .map_or(String::new(), |noise| format!(" ± {:.0}", 100.0 * noise));
    format!(
        "predicted: {range} less {what}; measured: {measured}{noise}: {}",
        check.verdict.words()
    )
}
