//! The file around the frames: title, legend, the control that leads to the other view.
use super::layer::Layer;
use crate::{palette, shorten};
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
    /// What widths and colours mean, for readers of the file.
    pub notes: String,
    pub legend: Vec<Entry>,
    /// What the control says that leads from the first view to the second, and back; without a second there is none.
    pub control: [String; 2],
}

/// A colour with its meaning.
pub(super) struct Entry {
    pub color: palette::Rgb,
    pub label: String,
    pub meaning: String,
    /// The regular expression that finds its frames, on a click.
    pub search: Option<String>,
}

/// A title that has room.
pub(super) fn title(text: &str) -> String {
    shorten::middle(&shorten::one_line(text), TITLE_CHARS)
}

/// Writes the view that is shown first, and the other one.
pub(super) fn write(
    heading: &Heading,
    shown: &Layer,
    hidden: Option<&Layer>,
    out: &mut impl Write,
) -> io::Result<()> {
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
    if hidden.is_some() {
        out.write_all(control(heading).as_bytes())?;
    }
    write_layer(out, shown, "frames", "")?;
    if let Some(hidden) = hidden {
        write_layer(out, hidden, "frames-hidden", " style=\"display:none\"")?;
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

/// A swatch and a label for every entry. A click finds its frames.
fn legend(heading: &Heading) -> String {
    let mut text = String::from("<g id=\"legend\">\n");
    let mut x = 10.0;
    let y = 66 + LEGEND_HEIGHT;
    for entry in &heading.legend {
        let [r, g, b] = entry.color;
        let search = entry.search.as_ref();
        let search = search
            .map(|s| format!(" data-search=\"{s}\""))
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "<g class=\"entry\"{search}><title>{}</title><rect x=\"{x:.0}\" y=\"{}\" width=\"12\" height=\"12\" \
             fill=\"rgb({r},{g},{b})\"/><text x=\"{:.0}\" y=\"{y}\">{}</text></g>",
            escaped(&entry.meaning),
            y - 10,
            x + 17.0,
            escaped(&entry.label),
        );
        x += 17.0 + CHAR_WIDTH * (entry.label.chars().count() as f64 + 2.0);
    }
    text.push_str("</g>\n");
    text
}

fn control(heading: &Heading) -> String {
    let [there, back] = &heading.control;
    format!(
        "<text id=\"idle\" x=\"10\" y=\"48\" data-fold=\"{}\">{}</text>\n",
        escaped(back),
        escaped(there)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
