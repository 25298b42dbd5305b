//! What others had of a thread's processor is a state of its own: no stack's time, and nothing that was lost.
use dwell_analysis::testing::{MS, drawn};
use dwell_report::terminal::{Style, render};
use dwell_report::{Analysis, Answer, Options, folded, svg};

#[test]
fn it_is_told_and_belongs_to_no_stack() {
    let tables = drawn(
        "thread | main    | main   | main
         state  | running | stolen | io read
         time   | 600     | 100    | 300
         stack  | main    |        | main
                | compute |        | read",
    );
    let analysis = Analysis::of(&tables);
    let answer = Answer::of(&analysis, &Options::default());
    let total = &answer.total;
    let states = (total.running_ns, total.stolen_ns, total.blocked_ns);
    assert_eq!(states, (600 * MS, 100 * MS, 300 * MS));
    assert!(answer.losses.nothing_lost, "{:?}", answer.losses);
    assert_eq!(answer.closure.max_error_share, 0.0);
    assert_eq!((answer.on_cpu.len(), answer.off_cpu.len()), (1, 1));
    let style = Style {
        width: 100,
        color: false,
        ..Style::default()
    };
    let text = render(&answer, &style);
    for expected in [
        "stolen 10%",
        "Others had 100 ms (14.3 %) of the processors' time",
    ] {
        assert!(text.contains(expected), "{expected} not in\n{text}");
    }
    let mut lines = Vec::new();
    folded::write(&analysis, &folded::Options::default(), &mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    assert!(lines.contains("demo;main;[stolen] 100000000\n"), "{lines}");
    let mut picture = Vec::new();
    svg::write(&analysis, &svg::Options::default(), &mut picture).unwrap();
    let picture = String::from_utf8(picture).unwrap();
    let legend = picture.split("id=\"legend\"").nth(1).unwrap();
    assert!(legend.contains("stolen 10.0%"), "{legend}");
    assert!(legend.contains(r#"data-search="^\[stolen\]""#));
}
