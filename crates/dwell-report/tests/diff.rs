//! What changed between recordings: sums that agree with each recording's own answer, names that meet, chance.
use dwell_analysis::testing::{Scale, drawn, fixture};
use dwell_recording::tables::Tables;
use dwell_report::diff::{Per, Run, Sides};
use dwell_report::{Analysis, Answer, DiffAnswer, Options, json, svg, terminal};

const BEFORE: &str = "
    process | demo    | demo    | demo       | demo
    thread  | main    | main    | main       | main
    state   | running | running | lock futex | runnable
    time    | 3000    | 1000    | 2000       | 100
    stack   | main    | main    | main       | main
            | slow    | steady  | take       | slow";
const AFTER: &str = "
    process | demo    | demo    | demo       | demo
    thread  | main    | main    | main       | main
    state   | running | running | lock futex | io fsync
    time    | 1500    | 1000    | 2010       | 700
    stack   | main    | main    | main       | main
            | slow    | steady  | take       | write";

fn run(tables: &Tables) -> Run {
    Run::of(&Analysis::of(tables))
}

fn runs(drawings: &[&str]) -> Vec<Run> {
    drawings.iter().map(|text| run(&drawn(text))).collect()
}

fn compare(before: Vec<Run>, after: Vec<Run>, per: Per) -> DiffAnswer {
    DiffAnswer::of(&Sides::new(before, after, per))
}

#[test]
fn measures_are_those_of_each_recordings_own_answer() {
    let [before, after] = [1, 2].map(|threads| {
        fixture(Scale {
            threads: 4 * threads,
            ..Scale::default()
        })
    });
    let diff = compare(vec![run(&before)], vec![run(&after)], Per::Run);
    for (tables, side) in [(&before, 0), (&after, 1)] {
        let answer = Answer::build(tables, &Options::default());
        let told = |name: &str| {
            diff.measure(name)
                .map_or(0.0, |c| [c.before, c.after][side])
        };
        let total = &answer.total;
        assert_eq!(told("duration"), answer.recording.window_ns as f64);
        assert_eq!(told("running"), total.running_ns as f64);
        assert_eq!(told("spinning"), total.spinning_ns as f64);
        assert_eq!(told("runnable"), total.runnable_ns as f64);
        assert_eq!(told("threads"), total.threads as f64);
        for (reason, ns) in &total.blocked_by_reason_ns {
            assert_eq!(told(&format!("blocked:{reason}")), *ns as f64, "{reason}");
        }
    }
}

#[test]
fn what_grew_and_what_shrank_is_told_and_the_rest_is_not() {
    let diff = compare(runs(&[BEFORE]), runs(&[AFTER]), Per::Run);
    let functions: Vec<_> = diff
        .functions
        .iter()
        .map(|f| (f.function.function.as_str(), f.own.difference / 1e6))
        .collect();
    assert_eq!(functions, [("slow", -1500.0)]);
    let waits: Vec<_> = diff
        .waits
        .iter()
        .map(|w| {
            let innermost = w.frames.first().map_or("", |f| f.function.as_str());
            (w.reason.as_str(), innermost, w.time.difference / 1e6)
        })
        .collect();
    assert_eq!(waits, [("io", "write", 700.0), ("runnable", "", -100.0)]);
    assert_eq!(diff.left_out, 1, "the lock's 10 ms of 2 s");
}

#[test]
fn times_are_divided_by_what_was_asked_for() {
    let running = |per| {
        let diff = compare(runs(&[BEFORE]), runs(&[AFTER]), per);
        let change = diff.measure("running").copied().expect("it ran");
        (change.before, change.after)
    };
    assert_eq!(running(Per::Run), (4e9, 2.5e9));
    assert_eq!(running(Per::Work(vec![4.0, 5.0])), (1e9, 0.5e9));
    let (before, after) = running(Per::ThreadTime);
    assert!((before / 1e9 - 4.0 / 6.1).abs() < 1e-9, "{before}");
    assert!((after / 1e9 - 2.5 / 5.21).abs() < 1e-9, "{after}");
    let window_ns = |text| {
        Answer::build(&drawn(text), &Options::default())
            .recording
            .window_ns
    };
    let (before, _) = running(Per::Second);
    assert!((before - 4e18 / window_ns(BEFORE) as f64).abs() < 1.0);
}

#[test]
fn repeated_recordings_tell_chance_from_change() {
    let at = |ms: &[u32]| -> Vec<Run> {
        let drawing = |ms| format!("state | io fsync\ntime | {ms}\nstack | main\n | write");
        ms.iter().map(|ms| run(&drawn(&drawing(ms)))).collect()
    };
    let noisy = compare(at(&[900, 1000, 1100]), at(&[950, 1050, 1160]), Per::Run);
    let io = noisy.measure("blocked:io").expect("it waited");
    assert!(!io.significant && io.noise.is_some(), "{io:?}");
    assert!(noisy.waits.is_empty(), "{:?}", noisy.waits);
    let sure = compare(at(&[990, 1000, 1010]), at(&[1190, 1200, 1210]), Per::Run);
    assert_eq!(sure.waits.len(), 1);
}

#[test]
fn only_what_got_worse_for_sure_fails() {
    let at = |ms: &[u32]| -> Vec<Run> {
        let drawing = |ms| format!("state | running\ntime | {ms}\nstack | main");
        ms.iter().map(|ms| run(&drawn(&drawing(ms)))).collect()
    };
    let worse = |before: &[u32], after: &[u32], share| {
        let diff = compare(at(before), at(after), Per::Run);
        let names = diff.worse_by(share).into_iter().map(|m| m.name.clone());
        names.collect::<Vec<_>>()
    };
    assert!(worse(&[1000], &[1100], 0.05).contains(&"running".to_owned()));
    assert_eq!(worse(&[1000], &[1100], 0.15), [""; 0]);
    assert_eq!(worse(&[1100], &[1000], 0.0), [""; 0]);
    // A tenth more on average, but runs differ by more.
    assert_eq!(worse(&[800, 1000, 1200], &[900, 1100, 1300], 0.05), [""; 0]);
}

#[test]
fn a_program_under_another_name_is_the_same_program() {
    let renamed = AFTER.replace("demo", "demo2");
    let as_before = compare(runs(&[BEFORE]), runs(&[AFTER]), Per::Run);
    let other = compare(runs(&[BEFORE]), runs(&[&renamed]), Per::Run);
    assert_eq!(other.waits.len(), as_before.waits.len());
    assert!(
        other
            .waits
            .iter()
            .all(|w| w.who.starts_with("demo → demo2"))
    );
    assert_eq!(draw(BEFORE, &renamed).matches("demo → demo2 (").count(), 2);
}

fn draw(before: &str, after: &str) -> String {
    let sides = Sides::new(runs(&[before]), runs(&[after]), Per::Run);
    let mut out = Vec::new();
    svg::write_diff(&sides, &DiffAnswer::of(&sides), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_picture_has_both_sides_with_true_numbers() {
    let picture = draw(BEFORE, AFTER);
    assert!(picture.contains("id=\"frames\"") && picture.contains("id=\"frames-hidden\""));
    for (title, views) in [
        ("all (5.21 s, was 6.10 s: -14.6%", 2),
        ("slow (1.50 s, was 3.10 s: -51.6%", 2),
        ("take (2.01 s, was 2.00 s: +0.5%, within the noise)", 2),
        ("write (700 ms, was 0 s: new)", 1),
        ("[runnable] (0 s, was 100 ms: gone)", 1),
    ] {
        let found = picture.matches(title).count();
        assert_eq!(found, views, "{title} in {picture}");
    }
    // With one side empty there is one view, with both there is a file that says so.
    let nothing = "state | running\ntime | 0\nstack | main";
    assert!(draw(nothing, AFTER).contains("id=\"frames\""));
    assert!(!draw(nothing, AFTER).contains("id=\"frames-hidden\""));
    assert!(draw(nothing, nothing).contains("no thread time"));
}

#[test]
fn text_fits_the_terminal_and_json_comes_back() {
    let long = AFTER.replace(
        "write",
        "a_very_long_name_of_a_function_that_writes<and, its, arguments>",
    );
    for (before, after) in [(BEFORE, AFTER), (BEFORE, &long), (AFTER, BEFORE)] {
        for per in [
            Per::Run,
            Per::Second,
            Per::ThreadTime,
            Per::Work(vec![1e9, 2e9]),
        ] {
            let diff = compare(runs(&[before]), runs(&[after]), per);
            let text = terminal::render_diff(&diff, &terminal::Style::default());
            assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
            let back: DiffAnswer = serde_json::from_str(&json::render_diff(&diff)).expect("JSON");
            // Numbers come back but for the last bit.
            assert_eq!(format!("{back:.3?}"), format!("{diff:.3?}"));
        }
    }
}
