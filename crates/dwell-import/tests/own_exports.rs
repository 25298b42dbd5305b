//! What dwell writes for other tools comes back as what it was.
use dwell_analysis::testing::{Scale, fixture};
use dwell_import::{Format, ImportError, Imported, Options, Unit, import};
use dwell_recording::{Overwrite, Recording, Tables};
use dwell_report::{Analysis, folded, pprof};
use dwell_symbols::Symbolizer;

/// Imports bytes.
fn imported(bytes: &[u8], options: &Options) -> Result<(Imported, Tables), ImportError> {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("x.dwell");
    let mut symbolizer = Symbolizer::new(dwell_symbols::Options::default());
    let imported = import(&bytes, options, &mut symbolizer, &to, Overwrite::Refuse)?;
    let tables = Recording::open(&to).expect("opens").load().expect("reads");
    Ok((imported, tables))
}

fn named(name: &str) -> Options {
    Options {
        name: name.into(),
        ..Options::default()
    }
}

fn fold(tables: &Tables) -> String {
    let mut out = Vec::new();
    let options = folded::Options::default();
    folded::write(&Analysis::of(tables), &options, &mut out).expect("writes");
    String::from_utf8(out).expect("text")
}

fn original() -> Tables {
    fixture(Scale {
        seconds: 2,
        ..Scale::default()
    })
}

/// Lines with the marks of spinning taken off, which neither format has a place for, and equal ones joined.
fn lines(text: &str) -> std::collections::BTreeMap<String, u64> {
    let mut lines = std::collections::BTreeMap::new();
    for line in text.lines() {
        let (stack, ns) = line.rsplit_once(' ').expect("a number");
        let stack = stack.trim_end_matches(";[spinning]");
        *lines.entry(stack.to_owned()).or_default() += ns.parse::<u64>().expect("ns");
    }
    lines
}

#[test]
fn pprof_of_our_own() {
    let tables = original();
    let mut bytes = Vec::new();
    pprof::write(&Analysis::of(&tables), &mut bytes).expect("writes");
    let (imported, back) = imported(&bytes, &named("x.pb.gz")).expect("imports");
    assert_eq!(imported.format, Format::Pprof);
    assert_eq!(imported.notes, Vec::<String>::new());
    assert_eq!(lines(&fold(&back)), lines(&fold(&tables)));
    for thread in &back.threads {
        assert_eq!(thread.states_ns(), thread.until_ns - thread.start_ns);
    }
}

#[test]
fn folded_stacks_of_our_own() {
    let text = fold(&original());
    let options = Options {
        unit: Unit::Nanoseconds,
        ..named("/tmp/all.txt")
    };
    let (imported, back) = imported(text.as_bytes(), &options).expect("imports");
    assert_eq!(imported.format, Format::Folded);
    assert_eq!(imported.samples, text.lines().count() as u64);
    // The process and the thread of the new recording stand in front.
    let back = fold(&back).replace("all.txt;all.txt;", "");
    assert_eq!(lines(&back), lines(&text));
}

#[test]
fn counts_of_samples_are_milliseconds() {
    let text = "# made by hand\nmain;work 30\nmain;read_[k] 12.5\n";
    let (imported, tables) = imported(text.as_bytes(), &named("a.folded")).expect("imports");
    assert_eq!(imported.notes.len(), 1, "{imported:?}");
    let expected =
        "a.folded;a.folded;main;read_[k] 12500000\na.folded;a.folded;main;work 30000000\n";
    assert_eq!(fold(&tables), expected);
}

#[test]
fn offcputimes_stacks_are_waits() {
    let text = "redis;main;epoll_wait;-;schedule;do_epoll_wait 2000\n";
    let options = Options {
        unit: Unit::Microseconds,
        off_cpu: true,
        ..named("off")
    };
    let (_, tables) = imported(text.as_bytes(), &options).expect("imports");
    let expected =
        "off;off;redis;main;epoll_wait;schedule_[k];do_epoll_wait_[k];[blocked: other] 2000000\n";
    assert_eq!(fold(&tables), expected);
}

#[test]
fn what_is_no_profile_is_refused_by_name() {
    let message = |bytes: &[u8], format: Option<Format>| {
        let options = Options {
            format,
            ..named("x")
        };
        imported(bytes, &options)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let refusals = [
        (&b"hello world\n"[..], None, "name the format with --from"),
        (b"", None, "name the format with --from"),
        (b"a;b 1\na;b\n", Some(Format::Folded), "line 2: no number"),
        (b"\n\n", Some(Format::Folded), "no sample"),
        (b"\x1f\x8b\x08\x00", None, "gzip data is damaged"),
        (b"PERFILE2", None, "does not lie in the file"),
        (
            b"2ELIFREP\x00\x00\x00\x00\x00\x00\x00\x68",
            None,
            "big-endian",
        ),
        (b"PERFILE2\x10\x00\x00\x00\x00\x00\x00\x00", None, "pipe"),
    ];
    for (bytes, format, expected) in refusals {
        let message = message(bytes, format);
        assert!(message.contains(expected), "{bytes:?}: {message}");
    }
    // A heap profile counts bytes.
    let heap = pprof::proto::Profile {
        string_table: ["", "inuse_space", "bytes"].map(String::from).into(),
        sample_type: vec![pprof::proto::ValueType { r#type: 1, unit: 2 }],
        ..pprof::proto::Profile::default()
    };
    let heap = prost::Message::encode_to_vec(&heap);
    let message = message(&heap, Some(Format::Pprof));
    assert!(message.contains("counts bytes, not time"), "{message}");
}

#[test]
fn pprof_cut_short_anywhere_is_an_error_or_a_profile() {
    let mut bytes = Vec::new();
    pprof::write(&Analysis::of(&original()), &mut bytes).expect("writes");
    for len in (0..bytes.len()).step_by(bytes.len() / 20) {
        let cut = imported(&bytes[..len], &named("x"));
        assert!(cut.is_err(), "{len} of {} bytes", bytes.len());
    }
}
