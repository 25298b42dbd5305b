//! The answer about locks: it fits its terminal, adds up, and the JSON holds the same.
use dwell_analysis::testing::{Scale, fixture};
use dwell_recording::tables::Tables;
use dwell_report::terminal::{Style, render, render_locks};
use dwell_report::{Answer, LocksAnswer, Options, json};
use unicode_width::UnicodeWidthStr;

fn tables() -> Tables {
    let mut tables = fixture(Scale {
        seconds: 2,
        ..Scale::default()
    });
    // The mutex lies in a variable, at the second of an array.
    let mutex = tables.sites.iter().find(|site| site.operation == "wait");
    let futex = mutex.and_then(|site| site.futex).unwrap();
    let row = &mut tables.futexes[futex as usize];
    row.module = "/usr/bin/searchd".to_owned();
    row.stated = Some(0x4028);
    row.symbol = "searchd::Cache<std::string, searchd::Document>::shards".to_owned();
    row.offset = Some(0x28);
    tables
}

fn answer(tables: &Tables) -> LocksAnswer {
    LocksAnswer::build(tables, &Options::default())
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let answer = answer(&tables());
    for width in [60, 72, 80, 100, 160] {
        let style = Style {
            width,
            color: false,
        };
        for line in render_locks(&answer, &style).lines() {
            assert!(line.width() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn text_and_json_tell_the_same() {
    let answer = answer(&tables());
    let text = render_locks(
        &answer,
        &Style {
            width: 160,
            color: false,
        },
    );
    let back: LocksAnswer = serde_json::from_str(&json::render_locks(&answer)).unwrap();
    assert_eq!(back.locks.len(), answer.locks.len());
    let lock = &back.locks[0];
    assert_eq!(
        lock.name,
        "searchd::Cache<std::string, searchd::Document>::shards+0x28"
    );
    assert_eq!(
        (lock.runtime.as_str(), lock.kind.as_str()),
        ("glibc", "mutex")
    );
    assert_eq!(lock.used, "lock");
    for wanted in [
        lock.name.as_str(),
        "glibc mutex",
        "Cache::get",
        "Who blocks whom",
        "Waiting for work",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(back.waiting_for_work.iter().any(|l| l.kind == "cond"));
}

#[test]
fn blame_adds_up_to_the_waiting() {
    let answer = answer(&tables());
    assert!(answer.waited_ns > 0);
    assert_eq!(answer.blamed_ns, answer.waited_ns);
    let edges: u64 = answer.blocks.iter().map(|e| e.waited_ns).sum();
    assert_eq!(edges, answer.waited_ns);
    assert!(answer.classified_share >= 0.98);
}

#[test]
fn the_report_names_the_worst_locks_when_they_matter() {
    let tables = tables();
    let report = Answer::build(&tables, &Options::default());
    assert!(
        report.locks_waited_ns * 100 > report.total.lifetime_ns,
        "the fixture has such"
    );
    let text = render(&report, &Style::default());
    assert!(text.contains("\nLocks  "), "{text}");
    let mut quiet = tables;
    quiet.sites.iter_mut().for_each(|site| site.futex = None);
    let text = render(
        &Answer::build(&quiet, &Options::default()),
        &Style::default(),
    );
    assert!(!text.contains("\nLocks  "));
}
