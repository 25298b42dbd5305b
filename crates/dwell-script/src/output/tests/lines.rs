//! Rows, values without a format, speculations, and what is left to the caller.

use super::*;

const HEAD: &str = "CPU     ID                    FUNCTION:NAME\n";

fn exit(data: &mut Data, status: i32) -> ActionKind {
    ActionKind::Exit(data.i32(status))
}

#[test]
fn every_record_has_its_row() {
    let mut run = Run::new();
    run.once(vec![], Data::default());
    let mut data = Data::default();
    let actions = vec![
        ActionKind::Trace(data.string("hello world")),
        ActionKind::Trace(data.i32(7)),
    ];
    run.once(actions, data);
    let read = run.probe("syscall", "read", "entry");
    let clause = run.clause(vec![]);
    run.fire(clause, Data::default(), |header| {
        (header.cpu, header.probe) = (11, read)
    });
    let mut data = Data::default();
    run.once(vec![exit(&mut data, 3)], data);
    let rows = [
        format!("  0      1 {:>32} ", ":BEGIN"),
        format!(
            "  0      1 {:>32}   {:33} {:>10}",
            ":BEGIN", "hello world", 7
        ),
        format!(" 11      2 {:>32} ", "read:entry"),
        format!("  0      1 {:>32} \n", ":BEGIN"),
    ];
    let expected = rows.join("\n");
    assert_eq!(run.records(), format!("{HEAD}{expected}"));
    assert_eq!(run.outcomes[3].exit, Some(3));
}

/// What `trace` prints of a value, in the row and in quiet mode.
fn traced(value: impl Fn(&mut Data) -> Field) -> [String; 2] {
    [Run::new(), Run::quiet()].map(|mut run| {
        let mut data = Data::default();
        let actions = vec![ActionKind::Trace(value(&mut data))];
        run.once(actions, data);
        let text = run.records();
        let row = format!("{HEAD}  0      1                           :BEGIN ");
        text.strip_prefix(&row).unwrap_or(&text).to_owned()
    })
}

#[test]
fn values_stand_in_the_column_of_their_size() {
    assert_eq!(traced(|d| d.i8(-1)), ["  -1\n", "-1"]);
    assert_eq!(traced(|d| d.i8(-128)), [" -128\n", "-128"]);
    assert_eq!(traced(|d| d.i16(-1)), ["    -1\n", "-1"]);
    assert_eq!(traced(|d| d.i32(12)), ["         12\n", "12"]);
    assert_eq!(traced(|d| d.i64(12)), ["                  12\n", "12"]);
    assert_eq!(traced(|d| d.unsigned(255, 1)), [" 255\n", "255"]);
    assert_eq!(traced(|d| d.unsigned(65535, 2)), [" 65535\n", "65535"]);
    assert_eq!(traced(|d| d.unsigned(7, 4)), ["          7\n", "7"]);
    let most = "18446744073709551615";
    assert_eq!(
        traced(|d| d.unsigned(u64::MAX, 8)),
        [format!(" {most}\n"), most.to_owned()]
    );
    assert_eq!(traced(|d| d.pointer(16)), ["                   16\n", "16"]);
    assert_eq!(
        traced(|d| d.string("a")),
        [format!("  {:33}\n", "a"), "a".to_owned()]
    );
}

#[test]
fn objects_are_dumped() {
    let object = |d: &mut Data| d.field(&[0x34, 0x12, 0, 0, b'v'], FieldKind::Bytes);
    let dump = "\n             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef\n\
        \u{20}        0: 34 12 00 00 76                                   4...v\n";
    assert_eq!(traced(object), [format!("{dump}\n"), dump.to_owned()]);

    let mut run = Run::quiet();
    run.options.raw_bytes = true;
    let mut data = Data::default();
    let actions = vec![ActionKind::Trace(data.i8(b'x' as i8))];
    run.once(actions, data);
    assert!(
        run.records()
            .ends_with("         0: 78                                               x\n")
    );
}

#[test]
fn tracemem_shows_as_many_bytes_as_it_is_told() {
    let shown = |length: Option<i32>| {
        let mut run = Run::quiet();
        let mut data = Data::default();
        let bytes = data.field(b"Linux version ", FieldKind::Bytes);
        let length = length.map(|length| data.i32(length));
        run.once(vec![ActionKind::Tracemem { bytes, length }], data);
        let text = run.records();
        text.rsplit("  ").next().unwrap_or_default().to_owned()
    };
    assert_eq!(shown(None), "Linux version \n");
    assert_eq!(shown(Some(-1)), "Linux version \n");
    assert_eq!(shown(Some(0)), "");
    assert_eq!(shown(Some(7)), "Linux v\n");
    assert_eq!(shown(Some(15)), "Linux version \n");
}

#[test]
fn branches_have_rows_of_their_own() {
    let mut run = Run::new();
    let mut data = Data::default();
    let (yes, no, both) = (data.string("yes"), data.string("no"), data.string("both"));
    let clause = run.clause(vec![
        (Some(0), printf("%s", vec![yes])),
        (Some(1), printf("%s", vec![no])),
        (None, printf("%s", vec![both])),
    ]);
    let bytes = data.bytes;
    for done in [1, 2, 0] {
        let data = Data {
            bytes: bytes.clone(),
        };
        run.fire(clause, data, |header| header.done = done);
    }
    let row = "  0      1                           :BEGIN ";
    let rows = ["yes", "both", "no", "both", "both"].map(|text| format!("{row}{text}\n"));
    assert_eq!(run.records(), format!("{HEAD}{}", rows.concat()));
}

#[test]
fn flow_is_drawn_as_a_tree() {
    let mut run = Run::quiet();
    run.options.flow_indent = true;
    let probes = [
        ("syscall", "read", "entry"),
        ("fbt", "vfs_read", "entry"),
        ("sdt", "gentry", "carpentry"),
        ("fbt", "vfs_read", "return"),
        ("php", "f", "function-return"),
        ("syscall", "read", "return"),
    ];
    let first = run.clause(vec![]);
    let second = run.clause(vec![]);
    for (provider, function, name) in probes {
        let probe = run.probe(provider, function, name);
        for clause in [first, second] {
            // The second clause of the first entry does not move the tree.
            if clause == first || function == "read" && name == "entry" {
                run.fire(clause, Data::default(), |header| header.probe = probe);
            }
        }
    }
    let other = run.probe("fbt", "schedule", "entry");
    run.fire(first, Data::default(), |header| {
        (header.probe, header.tid, header.cpu) = (other, 9, 1)
    });
    let expected = [
        "CPU FUNCTION",
        "  0  => read",
        "  0   | read:entry",
        "  0    -> vfs_read",
        "  0     | gentry:carpentry",
        "  0    <- vfs_read",
        "  0  <- f",
        "  0  <= read",
        "  1  -> schedule",
    ];
    let mut run_text = run.records();
    run.options.quiet = false;
    let rows = expected.map(|row| format!("{row:<45} "));
    let head = format!(
        "{}\n",
        rows[0].trim_end_matches(' ').to_owned() + &" ".repeat(33)
    );
    // In quiet mode even the ends of lines are missing.
    let quiet: String = rows[1..].concat();
    assert_eq!(run_text.replacen(&head, "", 1), quiet);
    run_text = run.records();
    assert_eq!(run_text.replacen(&head, "", 1), rows[1..].join("\n") + "\n");
}

fn speculation(run: &mut Run, id: u32, text: &str) {
    let mut data = Data::default();
    let actions = vec![
        (None, ActionKind::Speculate(data.i32(id as i32))),
        (None, printf("%s", vec![data.string(text)])),
    ];
    let clause = run.clause(actions);
    run.fire(clause, data, |header| {
        (header.speculation, header.cpu) = (id, 5)
    });
}

#[test]
fn speculations_wait_for_their_end() {
    let mut run = Run::new();
    speculation(&mut run, 1, "one");
    speculation(&mut run, 2, "two");
    speculation(&mut run, 1, "more");
    // speculate(0): traced for nobody.
    speculation(&mut run, 0, "nobody");
    let mut data = Data::default();
    let discard = ActionKind::Discard(data.i32(2));
    run.once(vec![discard, printf("discarded", vec![])], data);
    let mut data = Data::default();
    let commit = ActionKind::Commit(data.i32(1));
    run.once(vec![commit], data);
    let mut data = Data::default();
    let again = ActionKind::Commit(data.i32(2));
    run.once(vec![again], data);
    let rows = [(0, "discarded"), (5, "one"), (5, "more")];
    let rows = rows
        .map(|(cpu, text)| format!("{cpu:>3}      1                           :BEGIN {text}\n"));
    assert_eq!(run.records(), format!("{HEAD}{}", rows.concat()));
}

#[test]
fn speculations_have_a_limit() {
    let mut run = Run::quiet();
    run.options.speculation_size = 150;
    (0..5).for_each(|_| speculation(&mut run, 1, "."));
    let mut data = Data::default();
    let commit = ActionKind::Commit(data.i32(1));
    run.once(vec![commit], data);
    assert_eq!(run.records(), "..");
}

#[test]
fn files_and_commands() {
    let mut run = Run::quiet();
    let mut data = Data::default();
    let name = data.string("out");
    let number = data.i32(3);
    let freopen = |format: &str, fields| ActionKind::Freopen {
        format: format.into(),
        fields,
    };
    let actions = vec![
        printf("a", vec![]),
        freopen("/tmp/%s.%d", vec![name, number.clone()]),
        printf("b", vec![]),
        ActionKind::System {
            format: "echo %d".into(),
            fields: vec![number],
        },
        freopen("/missing/file", vec![]),
        printf("c", vec![]),
        freopen("", vec![]),
        printf("d", vec![]),
    ];
    run.once(actions, data);
    assert_eq!(run.records(), "a[file /tmp/out.3]b[run echo 3]c[file ]d");
    let message = "error on enabled probe ID 1 (ID 1: dtrace:::BEGIN): \
        couldn't freopen() \"/missing/file\": No such file or directory";
    assert_eq!(run.outcomes[0].messages, [message]);
}

#[test]
fn options_change_while_it_runs() {
    let mut run = Run::new();
    let setopt = |name: &str, value: Option<&str>| ActionKind::Setopt {
        name: name.into(),
        value: value.map(Into::into),
    };
    let actions = vec![
        setopt("quiet", None),
        setopt("switchrate", Some("10hz")),
        setopt("aggsortrev", Some("maybe")),
        setopt("switchrate", Some("0.5hz")),
        setopt("nothing", None),
        setopt("bufsize", Some("1m")),
        printf("x", vec![]),
    ];
    run.once(actions, Data::default());
    run.once(vec![printf("y", vec![])], Data::default());
    assert_eq!(
        run.records(),
        format!("{HEAD}  0      1                           :BEGIN xy")
    );
    let outcome = &run.outcomes[0];
    assert_eq!(*outcome.options, [("switchrate".into(), "10hz".into())]);
    let why = [
        "\"aggsortrev\" to \"maybe\": Invalid value for specified option",
        "\"switchrate\" to \"0.5hz\": Invalid value for specified option",
        "\"nothing\" to \"1\": Invalid option name",
        "\"bufsize\" to \"1m\": Operation illegal when tracing is active",
    ];
    for (message, why) in outcome.messages.iter().zip(why) {
        let end = format!("couldn't set option {why}");
        assert!(message.ends_with(&end), "{message}");
    }
    assert_eq!(outcome.messages.len(), why.len());
}
