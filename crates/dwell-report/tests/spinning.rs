//! Time spent spinning is running time with a name of its own, in every form.
use dwell_analysis::testing::{MS, Scale, drawn, fixture};
use dwell_recording::tables::Tables;
use dwell_report::terminal::{Style, render, render_locks};
use dwell_report::{Analysis, Answer, LocksAnswer, Options, folded, json, pprof, svg};
use prost::Message;
use std::io::Read;
use unicode_width::UnicodeWidthStr;

fn small() -> Tables {
    drawn(
        "thread | main     | main     | main    | worker-1         | idler
         state  | spinning | running  | io read | spinning         | poll poll
         time   | 300      | 100      | 100     | 50               | 450
         stack  | main     | main     | main    | start_thread     | start_thread
                | push     | compute  | read    | osq_lock_[k]     | poll
                | take     |          |         |                  |
                | std::atomic<bool>::load | | |                    |",
    )
}

fn plain(width: usize) -> Style {
    Style {
        width,
        color: false,
        ..Style::default()
    }
}

#[test]
fn it_is_part_of_the_running_time() {
    let answer = Answer::build(&small(), &Options::default());
    let answer: Answer = serde_json::from_str(&json::render(&answer)).unwrap();
    let total = &answer.total;
    assert_eq!((total.running_ns, total.spinning_ns), (450 * MS, 350 * MS));
    let states =
        total.running_ns + total.runnable_ns + total.stolen_ns + total.blocked_ns + total.lost_ns;
    assert_eq!(states, total.lifetime_ns);
    let groups = answer.processes[0].groups.iter();
    let groups: Vec<_> = groups
        .map(|g| (g.name.as_str(), g.division.spinning_ns / MS))
        .collect();
    assert_eq!(groups, [("main", 300), ("worker-*", 50), ("idler", 0)]);
    assert_eq!(answer.on_cpu[0].state, "spinning");
    let load = &answer.functions_on_cpu[0];
    assert_eq!(load.function.function, "std::atomic<bool>::load");
    assert_eq!(load.self_ns["spinning"], 300 * MS);
}

#[test]
fn the_functions_that_spin_are_named() {
    let answer = LocksAnswer::build(&small(), &Options::default());
    let answer: LocksAnswer = serde_json::from_str(&json::render_locks(&answer)).unwrap();
    assert_eq!(answer.spun_ns, 350 * MS);
    let spun = &answer.spun[0];
    let caller = spun.caller.as_ref().unwrap();
    assert_eq!(
        (spun.function.function.as_str(), caller.function.as_str()),
        ("take", "push")
    );
    assert_eq!((spun.time_ns, spun.share), (300 * MS, 0.3));
    assert_eq!(spun.frames[0].function, "std::atomic<bool>::load");
    let sum: u64 = answer.spun.iter().map(|s| s.time_ns).sum();
    assert_eq!(sum, answer.spun_ns);
    let text = render_locks(&answer, &plain(80));
    for expected in [
        "Spun  350 ms on a CPU",
        "30.0 %    300 ms  take ← push  demo/main",
        "5.0 %   50.0 ms  osq_lock [k] ← start_thread  demo/worker-*",
    ] {
        assert!(text.contains(expected), "{expected} not in\n{text}");
    }
}

#[test]
fn the_report_tells_of_it_only_where_there_is_some() {
    let told = |tables: &Tables| render(&Answer::build(tables, &Options::default()), &plain(100));
    let text = told(&small());
    for expected in ["runnable  waiting", "spin 35%", "take ← push", "spinning\n"] {
        assert!(text.contains(expected), "{expected} not in\n{text}");
    }
    let mut rare = small();
    let main = &mut rare.threads[0];
    (main.until_ns, main.lost_ns) = (main.until_ns + 10_000_000 * MS, 10_000_000 * MS);
    let mut never = small();
    never.frames.iter_mut().for_each(|f| f.spinning = None);
    // 0.3 s in three hours; nothing.
    for tables in [rare, never] {
        let tables = Tables {
            threads: tables.threads[..1].to_vec(),
            ..tables
        };
        let text = told(&tables);
        assert!(
            !text.contains("Spun") && !text.contains("  waiting"),
            "{text}"
        );
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut tables = fixture(Scale {
        seconds: 1,
        ..Scale::default()
    });
    tables
        .frames
        .iter_mut()
        .for_each(|f| f.spinning = Some(true));
    let (whole, locks) = (
        Answer::build(&tables, &Options::default()),
        LocksAnswer::build(&tables, &Options::default()),
    );
    assert_eq!(whole.total.spinning_ns, locks.spun_ns);
    assert!(locks.spun_ns > 0);
    for width in [60, 72, 80, 100, 160] {
        let text = render(&whole, &plain(width)) + &render_locks(&locks, &plain(width));
        assert!(text.contains("Spun"), "{text}");
        for line in text.lines() {
            assert!(line.width() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn exports_name_it() {
    let tables = small();
    let analysis = Analysis::of(&tables);
    let mut text = Vec::new();
    folded::write(&analysis, &folded::Options::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = "demo;main;main;push;take;std::atomic<bool>::load;[spinning] 300000000\n";
    assert!(text.contains(line), "{text}");

    let mut picture = Vec::new();
    svg::write(&analysis, &svg::Options::default(), &mut picture).unwrap();
    let picture = String::from_utf8(picture).unwrap();
    assert!(picture.contains("<title>[spinning] (300 ms, 30.0%)</title>"));
    let legend = picture.split("id=\"legend\"").nth(1).unwrap();
    assert!(legend.contains("spinning 35.0%"), "{legend}");
    assert!(legend.contains(r#"data-search="^\[spinning\]""#));

    let (mut gzip, mut bytes) = (Vec::new(), Vec::new());
    pprof::write(&analysis, &mut gzip).unwrap();
    flate2::read::GzDecoder::new(gzip.as_slice())
        .read_to_end(&mut bytes)
        .unwrap();
    let profile = pprof::proto::Profile::decode(bytes.as_slice()).unwrap();
    let name = |n: i64| profile.string_table[n as usize].as_str();
    let spins = |s: &&pprof::proto::Sample| {
        let mut labels = s.label.iter();
        labels.any(|l| (name(l.key), name(l.str)) == ("state", "spinning"))
    };
    let cpu = profile.sample.iter().filter(spins).map(|s| s.value[1]);
    assert_eq!(cpu.sum::<i64>(), 350 * MS as i64);
}

/// What took most of the time is named, whatever comes before it in a row.
#[test]
fn a_row_without_room_for_all_names_the_longest() {
    let mut tables = small();
    let main = &mut tables.threads[0];
    // 1 % stolen must not take the room of the 45 % in poll.
    main.until_ns += 10 * MS;
    main.stolen_ns += 10 * MS;
    let text = render(&Answer::build(&tables, &Options::default()), &plain(80));
    let row = text
        .lines()
        .find(|l| l.starts_with("demo ("))
        .expect("a row");
    assert!(row.contains("poll") && row.chars().count() <= 80, "{row}");
}
