//! Distributions, without keys.

use super::*;

/// The lines of a distribution: labels, bars and counts.
fn drawn(lines: &[(&str, &str, i64)]) -> String {
    let title = "------------- Distribution -------------";
    let head = format!("\n           value  {title} count    \n");
    let line = |(label, bar, count): &(&str, &str, i64)| match bar.contains('|') {
        true => format!("{label:>16} {bar} {count:<9}\n"),
        false => format!("{label:>16} |{bar:40} {count:<9}\n"),
    };
    let lines: Vec<String> = lines.iter().map(line).collect();
    head + &lines.concat()
}

/// What is printed at the end of an aggregation of these values, each counted so often.
fn printed(function: Aggregate, values: &[(i64, i64)]) -> String {
    let mut run = Run::quiet();
    let id = run.aggregation(function);
    for (value, times) in values {
        run.add(id, no_key, *value, *times);
    }
    let text = run.all();
    text.strip_prefix('\n')
        .and_then(|text| text.strip_suffix('\n'))
        .expect("lines around")
        .to_owned()
}

#[test]
fn bars_are_rounded() {
    // 40 columns for 27: 2 give 2.96, 6 give 8.9, 19 give 28.1.
    let text = printed(Aggregate::Quantize, &[(0, 2), (1, 6), (2, 19)]);
    let expected = [
        ("-1", "", 0),
        ("0", "@@@", 2),
        ("1", "@@@@@@@@@", 6),
        ("2", "@@@@@@@@@@@@@@@@@@@@@@@@@@@@", 19),
        ("4", "", 0),
    ];
    assert_eq!(text, drawn(&expected));
}

#[test]
fn the_outermost_buckets_have_no_neighbours() {
    let text = printed(Aggregate::Quantize, &[(i64::MIN, 1), (i64::MAX, 1)]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 + 127);
    assert_eq!(
        lines[2],
        "-4611686018427387904 |@@@@@@@@@@@@@@@@@@@@                     1        "
    );
    assert_eq!(
        lines[128],
        "4611686018427387904 |@@@@@@@@@@@@@@@@@@@@                     1        "
    );
}

#[test]
fn negative_counts_go_to_the_left() {
    let all = "@".repeat(40);
    let text = printed(Aggregate::Quantize, &[(1, -123)]);
    let none = format!("{}|", " ".repeat(40));
    let expected = [
        ("0", &*none, 0),
        ("1", &format!("{all}|"), -123),
        ("2", &none, 0),
    ];
    assert_eq!(text, drawn(&expected));

    let linear = Aggregate::Lquantize {
        base: 0,
        limit: 10,
        step: 1,
    };
    let text = printed(linear, &[(-1, -123), (0, -123), (1, 246)]);
    let empty = format!("{0}|{0}", " ".repeat(20));
    let left = format!("{}@@@@@|{}", " ".repeat(15), " ".repeat(20));
    let right = format!("{}|{:20}", " ".repeat(20), "@@@@@@@@@@");
    let expected = [
        ("< 0", &*left, -123),
        ("0", &left, -123),
        ("1", &right, 246),
        ("2", &empty, 0),
    ];
    assert_eq!(text, drawn(&expected));
}

#[test]
fn nothing_left_is_shown_around_zero() {
    let text = printed(Aggregate::Quantize, &[(9, 1), (9, -1)]);
    assert_eq!(text, drawn(&[("-1", "", 0), ("0", "", 0), ("1", "", 0)]));
    let linear = Aggregate::Lquantize {
        base: -10,
        limit: 10,
        step: 1,
    };
    let text = printed(linear, &[(9, 0)]);
    assert_eq!(
        text,
        drawn(&[("< -10", "", 0), ("-10", "", 0), ("-9", "", 0)])
    );
}

#[test]
fn linear_ends_are_labelled() {
    let function = Aggregate::Lquantize {
        base: 0,
        limit: 300,
        step: 100,
    };
    let expected = [
        ("< 0", "", 0),
        ("0", "@@@@@@@@@@", 1),
        ("100", "@@@@@@@@@@", 1),
        ("200", "@@@@@@@@@@", 1),
        (">= 300", "@@@@@@@@@@", 1),
    ];
    let text = printed(function, &[(0, 1), (150, 1), (299, 1), (300, 1)]);
    assert_eq!(text, drawn(&expected));
}

/// `llquantize` with these parameters.
fn log_linear(factor: u16, low: u16, high: u16, steps: u16) -> Aggregate {
    Aggregate::Llquantize {
        factor,
        low,
        high,
        steps,
    }
}

#[test]
fn magnitudes_are_cut_into_steps() {
    let values = [-20, -16, -7, -1, 0, 3, 5, 15, 16].map(|value| (value, 1));
    let text = printed(log_linear(4, 0, 1, 2), &values);
    let expected = [
        ("<= -16", "@@@@@@@@@", 2),
        ("-8", "", 0),
        ("-4", "@@@@", 1),
        ("-2", "", 0),
        ("-1", "@@@@", 1),
        ("0", "@@@@", 1),
        ("1", "", 0),
        ("2", "@@@@", 1),
        ("4", "@@@@", 1),
        ("8", "@@@@", 1),
        (">= 16", "@@@@", 1),
    ];
    assert_eq!(text, drawn(&expected));
}

#[test]
fn no_bucket_between_two_integers_is_shown() {
    let text = printed(log_linear(10, 0, 2, 20), &[(2, 1), (10, 1), (99, 2)]);
    let expected = [
        ("1", "", 0),
        ("2", "@@@@@@@@@@", 1),
        ("3", "", 0),
        ("4", "", 0),
        ("5", "", 0),
        ("6", "", 0),
        ("7", "", 0),
        ("8", "", 0),
        ("9", "", 0),
        ("10", "@@@@@@@@@@", 1),
    ];
    let more = (15..95).step_by(5).map(|bound| (bound.to_string(), "", 0));
    let last = [
        ("95".to_owned(), "@@@@@@@@@@@@@@@@@@@@", 2),
        ("100".to_owned(), "", 0),
    ];
    let more: Vec<_> = more.chain(last).collect();
    let more = more
        .iter()
        .map(|(label, bar, count)| (&**label, *bar, *count));
    let expected: Vec<_> = expected.into_iter().chain(more).collect();
    assert_eq!(text, drawn(&expected));

    let text = printed(log_linear(10, 0, 2, 20), &[(-2, 1)]);
    let all = "@".repeat(40);
    assert_eq!(
        text,
        drawn(&[("-3", "", 0), ("-2", &all, 1), ("-1", "", 0)])
    );
}

#[test]
fn values_around_zero_are_named_by_what_else_is_shown() {
    let all = "@".repeat(40);
    let function = log_linear(3, 3, 5, 27);
    let text = printed(function, &[(5, 7)]);
    assert_eq!(
        text,
        drawn(&[("-27", "", 0), ("abs() < 27", &all, 7), ("27", "", 0)])
    );
    let text = printed(function, &[(30, 7)]);
    assert_eq!(
        text,
        drawn(&[("27", "", 0), ("30", &all, 7), ("33", "", 0)])
    );
    let text = printed(function, &[(27, 7)]);
    assert_eq!(
        text,
        drawn(&[("< 27", "", 0), ("27", &all, 7), ("30", "", 0)])
    );
    let text = printed(function, &[(27, 0)]);
    assert_eq!(
        text,
        drawn(&[("< 27", "", 0), ("27", "", 0), ("30", "", 0)])
    );
}
