//! Prints the answer of a made-up recording: `show [text|color|json|svg|folded|pprof] [width]`.
use dwell_analysis::testing::{Scale, fixture};
use dwell_report::terminal::{self, Style};
use dwell_report::{Analysis, Answer, Options, folded, json, pprof, svg};
use std::io::stdout;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let form = arguments.next().unwrap_or_default();
    let width = arguments.next().and_then(|w| w.parse().ok()).unwrap_or(80);
    let tables = fixture(Scale::default());
    let options = Options {
        recording: Some("searchd.dwell".to_owned()),
        ..Options::default()
    };
    let answer = Answer::build(&tables, &options);
    match form.as_str() {
        "json" => print!("{}", json::render(&answer)),
        "svg" => svg::write(
            &Analysis::of(&tables),
            &svg::Options::default(),
            &mut stdout(),
        )?,
        "folded" => folded::write(
            &Analysis::of(&tables),
            &folded::Options::default(),
            &mut stdout(),
        )?,
        "pprof" => pprof::write(&Analysis::of(&tables), &mut stdout())?,
        form => print!(
            "{}",
            terminal::render(
                &answer,
                &Style {
                    width,
                    color: form == "color",
                    ..Style::default()
                }
            )
        ),
    }
    Ok(())
}
