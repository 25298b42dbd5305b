//! A screenful of what is going on.
use super::Style;
use super::division::state_bar;
use super::paint::{Page, left, right};
use crate::live::{Live, Row, View};
use crate::shorten::{middle, one_line, shorten};
use dwell_analysis::{State, Times};

/// Columns of a number.
const NUMBER: usize = 9;
/// Columns of what is behind a row: a reason, or a place.
const REASON: usize = 9;
/// Columns of the bar.
const BAR: usize = 20;
/// Lines that are no rows: two of title, one empty, one of heads, one at the bottom.
const FRAME_LINES: usize = 5;

/// What the person who looks on has chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Screen {
    /// What is watched.
    pub target: String,
    /// Which rows.
    pub view: View,
    /// The column that they are ordered by.
    pub column: usize,
    /// Only rows with this text.
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// The picture stands still.
    pub paused: bool,
    /// Rows above the first one shown.
    pub scrolled: usize,
    /// What is to be said at the bottom instead of the keys.
    pub message: String,
    /// Lines of the terminal.
    pub height: usize,
}

/// The sheet of keys.
const KEYS: &str = "  p t f s r     by process, thread, function, state, reason
  Tab           the next of these
  < >           order by the column to the left, to the right
  /             only rows with a text; Enter keeps it, Esc drops it
  Up Down PgUp PgDn Home    move through the rows
  Space         stand still, and go on
  + -           longer, shorter time between pictures
  R             start a recording of what is watched; end it
  ?             this sheet
  q             end

  Numbers are shares of the time between two pictures: 100 % is one thread
  all the time. WANTS: it wants a CPU and has none. SPIN, of ON CPU: in loops
  that only wait. Waits of idle pools are left out of functions.";

/// Renders the sheet of keys.
pub fn render_keys(style: &Style, height: usize) -> String {
    let mut page = Page::new(style);
    let title = page.bold("dwell top: keys");
    page.line(title);
    page.line("");
    let lines = KEYS.lines().take(height.saturating_sub(3));
    lines.for_each(|line| page.line(line));
    page.finish()
}

/// Renders a picture of at most `screen.height` lines.
pub fn render_live(live: &Live, screen: &Screen, style: &Style) -> String {
    let mut page = Page::new(style);
    add_title(&mut page, live, screen);
    page.line("");
    add_heads(&mut page, screen);
    let room = screen.height.saturating_sub(FRAME_LINES);
    for row in live.rows.iter().skip(screen.scrolled).take(room) {
        let line = row_line(&page, row, screen.view);
        page.line(line);
    }
    let shown = live.rows.len().saturating_sub(screen.scrolled).min(room);
    (shown..room).for_each(|_| page.line(""));
    let bottom = bottom(&page, screen);
    page.line(bottom);
    page.finish()
}

fn add_title(page: &mut Page, live: &Live, screen: &Screen) {
    let cpus = live.times.running() as f64 / live.window_ns.max(1) as f64;
    let facts = format!(
        "{:.1} s · {} threads · {cpus:.2} CPUs",
        live.window_ns as f64 / 1e9,
        live.threads
    );
    let paused = if screen.paused { "  paused" } else { "" };
    let room = page
        .width
        .saturating_sub(facts.chars().count() + paused.len() + 13);
    let target = left(&middle(&one_line(&screen.target), room), room);
    let target = page.bold(&target);
    let paused = page.warning(paused);
    page.line(format!("dwell top  {target}  {facts}{paused}"));
    let states: Vec<(State, u64)> = live.times.iter().collect();
    let bar = state_bar(page, &states, BAR);
    let shares = shares(page, &live.times, page.width.saturating_sub(BAR));
    page.line(format!("{bar}{shares}"));
}

/// What most of the time was, the greatest first, as far as it fits; less than half a per cent is not told.
fn shares(page: &Page, times: &Times, room: usize) -> String {
    let mut states: Vec<(State, u64)> = times.iter().filter(|(_, ns)| *ns > 0).collect();
    states.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let (mut text, mut width) = (String::new(), 0);
    for (state, ns) in states {
        let percent = 100.0 * ns as f64 / times.total() as f64;
        let said = state.reason().map_or(state.name(), |reason| reason.name());
        let said = format!("{said} {percent:.0}%");
        width += said.len() + 2;
        if percent < 0.5 || width > room {
            break;
        }
        text.push_str(&format!("  {}", page.state(state, &said)));
    }
    text
}

fn add_heads(page: &mut Page, screen: &Screen) {
    let mut line = String::new();
    for (place, head) in screen.view.columns().iter().enumerate() {
        let text = match place == screen.column {
            true => page.bold(&right(&format!("{head}▾"), NUMBER)),
            false => page.dim(&right(head, NUMBER)),
        };
        line.push_str(&text);
    }
    let (name, detail) = match screen.view {
        View::Process => ("    PID PROCESS", "WAITS"),
        View::Thread => ("    TID PROCESS/THREAD", "WAITS"),
        View::Function => ("FUNCTION", ""),
        View::State => ("STATE", "MOST OF IT AT"),
        View::Reason => ("WAITS FOR", "MOST OF IT AT"),
    };
    let heads = match screen.view {
        View::State | View::Reason => format!("{}{detail}", left(name, DETAILED)),
        View::Function => name.to_owned(),
        _ => format!("{}{name}", left(detail, REASON)),
    };
    let heads = page.dim(&heads);
    page.line(format!("{line}  {heads}"));
}

/// Columns of the names of states and reasons.
const DETAILED: usize = 24;

fn row_line(page: &Page, row: &Row, view: View) -> String {
    let columns = view.columns();
    let mut line = String::new();
    for (head, number) in columns.iter().zip(&row.numbers) {
        let text = match *head {
            "WAITS" => format!("{number:.0}"),
            _ if *number < 0.05 => "-".to_owned(),
            _ => format!("{number:.1} %"),
        };
        line.push_str(&right(&text, NUMBER));
    }
    let room = page.width.saturating_sub(columns.len() * NUMBER + 2);
    let colored = |text: &str| match row.state {
        Some(state) => page.state(state, text),
        None => text.to_owned(),
    };
    let rest = match view {
        View::State | View::Reason => {
            let name = left(&middle(&row.name, DETAILED - 1), DETAILED);
            let place = shorten(&row.detail, room.saturating_sub(DETAILED));
            format!("{}{place}", colored(&name))
        }
        View::Function => {
            let name = shorten(&row.name, room.saturating_sub(row.detail.len() + 1));
            format!("{name} {}", page.dim(&row.detail))
        }
        View::Process | View::Thread => {
            let reason = left(&row.detail, REASON);
            let name = middle(&row.name, room.saturating_sub(REASON));
            format!("{}{name}", colored(&reason))
        }
    };
    format!("{line}  {rest}")
}

fn bottom(page: &Page, screen: &Screen) -> String {
    if screen.typing {
        return format!("/{}_", middle(&screen.filter, page.width - 3));
    }
    if !screen.message.is_empty() {
        return page.bold(&middle(&one_line(&screen.message), page.width));
    }
    let mut text = String::new();
    for view in View::ALL {
        let name = view.name();
        let shown = match view == screen.view {
            true => page.bold(&format!("[{name}]")),
            false => format!(" {name} "),
        };
        text.push_str(&shown);
    }
    let filter = match screen.filter.is_empty() {
        true => String::new(),
        false => format!("  /{}", middle(&screen.filter, 12)),
    };
    let keys = page.dim("  < > order  / filter  ? keys  q end");
    format!("{text}{filter}{keys}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::Analysis;
    use dwell_analysis::testing::{Scale, fixture};
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn every_view_fits_a_small_terminal() {
        let tables = fixture(Scale::default());
        let analysis = Analysis::of(&tables);
        for view in View::ALL {
            for (filter, typing, message) in [
                ("", false, ""),
                ("worker", true, ""),
                ("a", false, "recording"),
            ] {
                let mut live = Live::of(&analysis, view);
                live.arrange(filter, 0);
                let screen = Screen {
                    target: "a very long command line ".repeat(9),
                    view,
                    filter: filter.to_owned(),
                    typing,
                    message: message.to_owned(),
                    height: 24,
                    paused: true,
                    ..Screen::default()
                };
                let text = render_live(&live, &screen, &Style::default());
                assert_eq!(text.lines().count(), 24, "{text}");
                for line in text.lines() {
                    assert!(line.width() <= 80, "{view:?}: {line}");
                }
            }
        }
        let keys = render_keys(&Style::default(), 24);
        assert!(
            keys.lines().count() <= 24 && keys.lines().all(|l| l.width() <= 80),
            "{keys}"
        );
    }
}
