//! The flame graph: true numbers, colours, both views, and a picture for every input.
use dwell_analysis::testing::{Scale, drawn, fixture};
use dwell_recording::tables::Tables;
use dwell_report::{Analysis, svg};

fn draw(tables: &Tables) -> String {
    let mut out = Vec::new();
    svg::write(&Analysis::of(tables), &svg::Options::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Every `<title>` of a frame.
fn titles(svg: &str) -> Vec<&str> {
    svg.split("<g><title>")
        .skip(1)
        .filter_map(|g| g.split("</title>").next())
        .collect()
}

#[test]
fn frames_have_their_time_and_share() {
    let svg = draw(&drawn(
        "thread | main    | main       | main
         state  | running | lock futex | lock futex
         time   | 300     | 500        | 200
         stack  | main    | main       | main
                | f<T>    | g          | vfs_[k]",
    ));
    let titles = titles(&svg);
    for expected in [
        "all (1.00 s, 100.0%)",
        "demo (1.00 s, 100.0%)",
        "f&lt;T&gt; (300 ms, 30.0%)",
        "g (500 ms, 50.0%)",
        "vfs_[k] (200 ms, 20.0%)",
        "[blocked: lock futex] (500 ms, 50.0%)",
    ] {
        assert!(titles.contains(&expected), "{expected} not in {titles:?}");
    }
    assert!(!svg.contains("id=\"idle\""), "no idle pools, no control");
}

#[test]
fn the_leaf_has_the_colour_of_its_state() {
    let svg = draw(&drawn(
        "state  | running | io fsync
         time   | 300     | 500
         stack  | main    | main
                | f       | g",
    ));
    let fill = |name: &str| {
        let frame = svg
            .split("<g><title>")
            .find(|g| g.starts_with(name))
            .unwrap();
        frame
            .split("fill=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(fill("[blocked: io fsync]"), "rgb(0,109,159)");
    let legend = svg.split("id=\"legend\"").nth(1).unwrap();
    assert!(legend.contains("rgb(0,109,159)") && legend.contains("io 62.5%"));
    assert!(legend.contains(r"^\[blocked: io\b"));
}

#[test]
fn idle_pools_fold_and_unfold() {
    let svg = draw(&fixture(Scale {
        seconds: 2,
        ..Scale::default()
    }));
    let (folded, unfolded) = svg.split_once("<svg id=\"frames-hidden\"").unwrap();
    assert!(folded.contains("<title>[idle pools: 7 threads] ("));
    assert!(folded.contains("not to scale"));
    assert!(!titles(folded).iter().any(|t| t.starts_with("pool-* (11")));
    assert!(unfolded.contains("<title>pool-* ("));
    assert!(!unfolded.contains("[idle pools"));
    assert!(svg.contains("Unfold 7 idle threads"));
    let all = |view: &str| {
        titles(view)
            .into_iter()
            .find(|t| t.starts_with("all ("))
            .map(str::to_owned)
    };
    assert_eq!(
        all(folded),
        all(unfolded),
        "both views hold all of the time"
    );
}

#[test]
fn the_folded_box_is_at_most_an_eighth() {
    let svg = draw(&drawn(
        "thread | main    | pool-1     | pool-2
         state  | running | poll poll  | poll poll
         time   | 100     | 9000       | 9000
         stack  | main    | f          | f",
    ));
    let width = |name: &str| -> f64 {
        let frame = svg
            .split("<g><title>")
            .find(|g| g.starts_with(name))
            .unwrap();
        frame
            .split("fg:w=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    assert!((width("[idle pools") / width("all") - 0.125).abs() < 0.001);
    assert!(svg.contains("[idle pools: 2 threads] (18.0 s, 99.4%, not to scale)"));
}

#[test]
fn names_cannot_break_out_of_the_file() {
    let mut tables = drawn(
        "time   | 300 | 200
         stack  | a   | b",
    );
    tables.symbols[0].function = "x]]></script><script>alert(1)</script>".to_owned();
    tables.symbols[1].function = "\u{1}\u{2}\n\"&lt; (3 ns, 4%)".to_owned();
    tables.processes[0].name = "<g><title>".to_owned();
    tables.meta.target = "--><script>]]>\u{8}&\"".to_owned();
    let svg = draw(&tables);
    assert!(!svg.contains("<script>alert") && !svg.contains("--><script>"));
    assert!(!svg.contains(['\u{1}', '\u{2}', '\u{8}']));
    assert_eq!(titles(&svg).len(), 5);
}

#[test]
fn nothing_recorded_is_a_picture_too() {
    let svg = draw(&Tables::default());
    assert!(svg.starts_with("<svg") && svg.contains("no thread time"));
}

#[test]
fn endless_times_do_no_harm() {
    let mut tables = drawn(
        "thread | a   | b          | c
         state  | running | lock futex | running
         time   | 300 | 200        | 100
         stack  | a   | b          | c",
    );
    for row in &mut tables.threads {
        row.running_ns = u64::MAX / 2;
        row.until_ns = u64::MAX;
    }
    assert!(draw(&tables).contains("<title>all ("));
}
