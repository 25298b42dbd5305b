//! The terminal answer fits its terminal, and the JSON holds the same.
use dwell_analysis::testing::{MS, Scale, drawn, fixture};
use dwell_recording::tables::Tables;
use dwell_report::terminal::{Style, render};
use dwell_report::{Answer, Options, json};
use unicode_width::UnicodeWidthStr;

fn answer(tables: &Tables) -> Answer {
    Answer::build(
        tables,
        &Options {
            recording: Some("x.dwell".to_owned()),
            ..Options::default()
        },
    )
}

fn text(tables: &Tables) -> String {
    render(&answer(tables), &Style::default())
}

/// Text without escape sequences.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    first
        + &parts
            .map(|p| p.split_once('m').map_or("", |(_, rest)| rest))
            .collect::<String>()
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let tables = fixture(Scale {
        seconds: 2,
        ..Scale::default()
    });
    let answer = answer(&tables);
    for width in [60, 72, 80, 100, 132, 160] {
        for color in [false, true] {
            let text = render(
                &answer,
                &Style {
                    width,
                    color,
                    ..Style::default()
                },
            );
            for line in plain(&text).lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn colours_only_when_asked() {
    let answer = answer(&fixture(Scale {
        seconds: 1,
        ..Scale::default()
    }));
    let bare = render(
        &answer,
        &Style {
            width: 80,
            color: false,
            ..Style::default()
        },
    );
    assert!(!bare.contains('\u{1b}'));
    let painted = render(
        &answer,
        &Style {
            width: 80,
            color: true,
            ..Style::default()
        },
    );
    assert!(
        painted.contains("\u{1b}[38;5;166m"),
        "running in its colour"
    );
    let no_bars = |t: &str| {
        t.replace(['█', '▓', '░'], "")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(no_bars(&plain(&painted)), no_bars(&bare), "the same words");
}

#[test]
fn the_answer_says_what_matters() {
    let tables = drawn(
        "thread | main    | main       | worker-1
         state  | running | lock futex | io fsync
         time   | 300     | 500+100    | 900
         waits  |         | 5          | 3
         stack  | _start  | _start     | start_thread
                | main    | main       | run
                | compute | take_lock  | flush",
    );
    let text = text(&tables);
    for expected in [
        "1.80 s of thread time, 0.33 CPUs in use",
        "demo (1000)",
        "  main",
        "compute ← main",
        "500 ms        5    100 ms    120 ms  lock futex",
        "900 ms        3    300 ms    300 ms  io fsync",
        "take_lock ← main",
        "Nothing was lost.",
        "add up to its lifetime exactly",
        "dwell export --to svg x.dwell",
    ] {
        assert!(text.contains(expected), "{expected} not in\n{text}");
    }
    assert!(!text.contains("_start"), "plumbing is left out");
}

#[test]
fn the_longest_wait_names_its_waker_chain_and_stack() {
    let tables = dwell_analysis::testing::drawn_waits(
        "demo   lock  futex     0..100  by holder at start_thread;work;unlock
         holder pipe  read      2..99   by writer
         writer sleep nanosleep 3..98   by [timer]",
    );
    let text = text(&tables);
    for expected in [
        "100 ms  demo (1000)  lock futex  at 0 s",
        "95.0 % of it ← demo/holder pipe ← demo/writer sleep ← [timer]",
        "woken from unlock ← work",
        "demo lock ← demo/holder pipe ← demo/writer sleep ← [timer]",
    ] {
        assert!(text.contains(expected), "{expected} not in\n{text}");
    }
}

#[test]
fn losses_are_told() {
    let mut tables = drawn(
        "state | running | lost
         time  | 300     | 20
         stack | main    | ",
    );
    tables.meta.losses.insert("ring_full".to_owned(), 25);
    tables.meta.produced.insert("ring_full".to_owned(), 100);
    tables.meta.complete = false;
    let text = text(&tables);
    assert!(
        text.contains("Lost: 25 of 100 (25.0 %) ring full"),
        "{text}"
    );
    assert!(
        text.contains("Lost: 20.0 ms of thread time in an unknown state"),
        "{text}"
    );
    assert!(text.contains("cut short") && !text.contains("Nothing was lost"));
}

#[test]
fn a_thread_that_does_not_close_is_a_note() {
    let mut tables = drawn(
        "time  | 300
         stack | main",
    );
    tables.threads[0].running_ns = 150 * MS;
    assert!(text(&tables).contains("(tid 1000) miss its lifetime by 50.0 %"));
}

#[test]
fn hundreds_of_processes_stay_readable() {
    let mut builder = dwell_analysis::testing::TablesBuilder::new();
    for number in 0..300 {
        let process = builder.process(&format!("cc{number}"));
        builder.tables.processes[process as usize].name =
            if number % 3 == 0 { "as" } else { "cc1" }.to_owned();
        let thread = builder.thread(process, "main");
        builder.ran(thread, 10 * MS);
    }
    let text = text(&builder.tables);
    assert!(
        text.contains("cc1 ×200") && text.contains("as ×100"),
        "{text}"
    );
    assert!(text.lines().count() < 60);
}

#[test]
fn json_holds_the_answer_with_units_in_its_names() {
    let answer = answer(&fixture(Scale {
        seconds: 1,
        ..Scale::default()
    }));
    let text = json::render(&answer);
    let back: Answer = serde_json::from_str(&text).unwrap();
    assert_eq!(back.total, answer.total);
    let stacks = |a: &Answer| {
        a.off_cpu
            .iter()
            .map(|s| (s.time_ns, s.frames.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(stacks(&back), stacks(&answer));
    assert_eq!(back.longest_waits, answer.longest_waits);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["total"]["lifetime_ns"], answer.total.lifetime_ns);
    assert!(value["off_cpu"][0]["frames"][0]["function"].is_string());
    assert!(value["total"]["blocked_by_reason_ns"]["lock"].is_u64());
}

#[test]
fn the_states_of_every_level_add_up() {
    let answer = answer(&fixture(Scale {
        seconds: 1,
        ..Scale::default()
    }));
    let sum = |d: &dwell_report::answer::Division| {
        d.running_ns + d.runnable_ns + d.stolen_ns + d.blocked_ns + d.lost_ns
    };
    assert_eq!(sum(&answer.total), answer.total.lifetime_ns);
    assert_eq!(
        answer.total.blocked_by_reason_ns.values().sum::<u64>(),
        answer.total.blocked_ns
    );
    let processes: u64 = answer
        .processes
        .iter()
        .map(|p| p.division.lifetime_ns)
        .sum();
    assert_eq!(processes, answer.total.lifetime_ns);
    for process in &answer.processes {
        let groups: u64 = process.groups.iter().map(|g| sum(&g.division)).sum();
        assert_eq!(groups, process.division.lifetime_ns);
    }
}

#[test]
fn an_empty_recording_has_an_answer() {
    let text = text(&Tables::default());
    assert!(text.contains("Nothing ran.") && text.contains("Nothing waited."));
}

#[test]
fn pools_that_wait_for_work_are_named_and_not_in_the_way() {
    let tables = drawn(
        "thread | main    | pool-1            | pool-2            | main
         state  | running | lock futex        | lock futex        | io read
         time   | 900     | 1000              | 1000              | 100
         stack  | main    | pthread_cond_wait | pthread_cond_wait | read",
    );
    let answer = answer(&tables);
    assert_eq!(answer.off_cpu.len(), 1);
    assert_eq!(answer.off_cpu[0].reason, "io");
    assert_eq!(answer.idle_pools[0].waited_ns, 2000 * MS);
    assert!(text(&tables).contains("demo/pool-* (2 threads)"));
}

#[test]
fn an_interpreter_whose_functions_are_not_told_is_a_note() {
    let of = |executes: &str| {
        let mut tables = drawn(&format!(
            "state | running    | lock futex
             time  | 60         | 40
             stack | main       | main
                   | {executes} | wait
                   | add        |"
        ));
        let before = answer(&tables);
        tables.symbols[0].file = Some("/srv/app.py".to_owned());
        (
            before.untold_ns,
            before.notes.concat(),
            answer(&tables).notes.concat(),
        )
    };
    const NOT_TOLD: &str = "whose functions are not told";
    let (ns, perl, with_python) = of("Perl_runops_standard");
    assert_eq!(ns, [("Perl".to_owned(), 60 * MS)].into());
    assert!(
        perl.contains("60.0 % of the time is in an interpreter of Perl"),
        "{perl}"
    );
    assert!(with_python.contains(NOT_TOLD), "{with_python}");
    let (_, untold, told) = of("_PyEval_EvalFrameDefault");
    assert!(
        untold.contains(NOT_TOLD) && untold.contains("3.8 to 3.14"),
        "{untold}"
    );
    assert!(!told.contains(NOT_TOLD), "{told}");
    let (_, native, _) = of("work");
    assert!(!native.contains(NOT_TOLD), "{native}");
}
