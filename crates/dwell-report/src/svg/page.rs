//! The file around the frames: title, legend, the control that unfolds idle pools.
use super::Options;
use super::layer::{Layer, shares};
use crate::{human, palette, shorten};
use dwell_analysis::{Analysis, State, Times};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Room for the legend between inferno's header and the frames, pixels.
const LEGEND_HEIGHT: usize = 28;
/// Width of a character of the legend, pixels.
const CHAR_WIDTH: f64 = 7.3;
/// Most characters of the title.
const TITLE_CHARS: usize = 100;

const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// What the graph is about.
pub(super) struct Heading {
    pub title: String,
    pub subtitle: String,
    times: Times,
    idle_threads: u64,
}

impl Heading {
    pub fn of(analysis: &Analysis<'_>, options: &Options) -> Heading {
        let total = &analysis.summary.total;
        let title = options
            .title
            .as_deref()
            .unwrap_or(&analysis.tables.meta.target);
        Heading {
            title: shorten::middle(&shorten::one_line(title), TITLE_CHARS),
            subtitle: format!(
                "{} of thread time: {} over {}",
                human::duration(total.times.total()),
                human::counted(total.threads, "thread", "threads"),
                human::duration(analysis.summary.window_ns),
            ),
            times: total.times,
            idle_threads: analysis.idle.threads(),
        }
    }
}

/// Writes both views; without a folded one there is no control.
pub(super) fn write(
    heading: &Heading,
    unfolded: &Layer,
    folded: Option<&Layer>,
    out: &mut impl Write,
) -> io::Result<()> {
    let shown = folded.unwrap_or(unfolded);
    let height = shown.height + LEGEND_HEIGHT;
    let prelude = shown
        .prelude
        .replace(
            &format!(" height=\"{}\"", shown.height),
            &format!(" height=\"{height}\""),
        )
        .replacen(
            &format!(" {}\" xmlns", shown.height),
            &format!(" {height}\" xmlns"),
            1,
        )
        .replacen("</style>", &format!("{STYLE}</style>"), 1)
        .replacen("</script>", &format!("<![CDATA[{SCRIPT}]]></script>"), 1);
    let prelude = lowered(&prelude, "matched");
    out.write_all(prelude.as_bytes())?;
    out.write_all(legend(heading).as_bytes())?;
    if folded.is_some() {
        out.write_all(control(heading).as_bytes())?;
    }
    write_layer(out, shown, "frames", "")?;
    if folded.is_some() {
        write_layer(out, unfolded, "frames-hidden", " style=\"display:none\"")?;
    }
    out.write_all(b"</svg>\n")
}

/// Moves the text with this id down by the legend's height.
fn lowered(prelude: &str, id: &str) -> String {
    let moved = || {
        let (before, element) = prelude.split_once(&format!("<text id=\"{id}\""))?;
        let (attributes, after) = element.split_once(" y=\"")?;
        let (y, after) = after.split_once('"')?;
        let y = y.parse::<f64>().ok()? + LEGEND_HEIGHT as f64;
        Some(format!(
            "{before}<text id=\"{id}\"{attributes} y=\"{y:.2}\"{after}"
        ))
    };
    moved().unwrap_or_else(|| prelude.to_owned())
}

fn write_layer(out: &mut impl Write, layer: &Layer, id: &str, style: &str) -> io::Result<()> {
    write!(
        out,
        "<svg id=\"{id}\" x=\"10\" y=\"{LEGEND_HEIGHT}\" width=\"1180\" total_samples=\"{}\" \
         data-height=\"{}\"{style}>",
        layer.drawn_total,
        layer.height + LEGEND_HEIGHT,
    )?;
    out.write_all(layer.frames.as_bytes())?;
    out.write_all(b"</svg>\n")
}

/// A file that says why there is nothing to see.
pub(super) fn write_empty(heading: &Heading, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "<svg version=\"1.1\" width=\"1200\" height=\"80\" xmlns=\"http://www.w3.org/2000/svg\">\
         <text x=\"50%\" y=\"45\" text-anchor=\"middle\" font-family=\"monospace\" font-size=\"14\">\
         {}: no thread time was recorded.</text></svg>",
        escaped(&heading.title)
    )
}

/// A swatch, a name and a share for every state that occurs. A click finds its frames.
fn legend(heading: &Heading) -> String {
    let mut text = String::from("<g id=\"legend\">\n");
    let mut x = 10.0;
    let y = 66 + LEGEND_HEIGHT;
    let total_ns = heading.times.total();
    for (state, ns) in shares(&heading.times) {
        let [r, g, b] = palette::rgb(state);
        let label = format!(
            "{} {}",
            name(state),
            human::percent(ns, total_ns).replace(' ', "")
        );
        let search = search(state)
            .map(|s| format!(" data-search=\"{s}\""))
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "<g class=\"entry\"{search}><title>{}</title><rect x=\"{x:.0}\" y=\"{}\" width=\"12\" height=\"12\" \
             fill=\"rgb({r},{g},{b})\"/><text x=\"{:.0}\" y=\"{y}\">{}</text></g>",
            escaped(&format!("{}: {}", meaning(state), human::duration(ns))),
            y - 10,
            x + 17.0,
            escaped(&label),
        );
        x += 17.0 + CHAR_WIDTH * (label.chars().count() as f64 + 2.0);
    }
    text.push_str("</g>\n");
    text
}

fn name(state: State) -> &'static str {
    state.reason().map_or(state.name(), |reason| reason.name())
}

fn meaning(state: State) -> String {
    match state {
        State::Running => "on a processor".to_owned(),
        State::Spinning => "on a processor, in a loop that only waits (click to find)".to_owned(),
        State::Runnable => "wants a processor, has none (click to find)".to_owned(),
        State::Blocked(reason) => format!("blocked, {} (click to find)", reason.name()),
        State::Stolen => {
            "had a processor, which the host or interrupts took (click to find)".to_owned()
        }
        State::Lost => "unknown".to_owned(),
    }
}

/// The regular expression that finds a state's frames. Running ones have no frame of their own.
fn search(state: State) -> Option<String> {
    match state {
        State::Running => None,
        State::Spinning => Some(r"^\[spinning\]".to_owned()),
        State::Runnable => Some(r"^\[runnable\]".to_owned()),
        State::Blocked(reason) => Some(format!(r"^\[blocked: {}\b", reason.name())),
        State::Stolen => Some(r"^\[stolen\]".to_owned()),
        State::Lost => Some(r"^\[lost\]".to_owned()),
    }
}

fn control(heading: &Heading) -> String {
    let threads = human::counted(heading.idle_threads, "idle thread", "idle threads");
    format!(
        "<text id=\"idle\" x=\"10\" y=\"48\" data-fold=\"Fold {threads}\">Unfold {threads}</text>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
