//! Records that no engine should leave: they are refused, and what comes after them is printed.

use super::*;

/// A field of anything.
fn field(offset: u32, size: u32, kind: FieldKind) -> Field {
    Field { offset, size, kind }
}

/// The message for a record with such an action, empty without one, and what is printed of it and an action behind it.
fn printed(action: ActionKind, bytes: &[u8]) -> (String, String) {
    let mut run = Run::quiet();
    let clause = run.clause(vec![(None, action), (None, printf("!", vec![]))]);
    let layout = Layout {
        clauses: &run.clauses,
        aggregations: &run.aggregations,
        types: &run.types,
    };
    let mut page = Page::default();
    let mut printer = Printer::new(layout, run.options.clone()).expect("the formats are right");
    let mut world = World {
        out: &mut page,
        names: &mut run.book,
        aggregations: &mut run.store,
    };
    let header = RecordHeader {
        clause,
        ..RecordHeader::default()
    };
    let outcome = printer.record(&header, bytes, &mut world);
    let message = outcome.expect("memory takes everything").messages.concat();
    let text = String::from_utf8(page.text).expect("tests print text");
    (message, text)
}

#[test]
fn fields_beyond_the_end() {
    let signed = FieldKind::Int { signed: true };
    for (offset, size) in [(0, 8), (4, 1), (u32::MAX, u32::MAX)] {
        let action = ActionKind::Trace(field(offset, size, signed.clone()));
        let (message, text) = printed(action, &[0; 4]);
        assert!(
            message.contains("a record of 4 bytes has a field up to byte"),
            "{message}"
        );
        assert_eq!(text, "!");
    }
}

#[test]
fn arguments_that_do_not_fit_their_conversion() {
    let bytes = |kind| field(0, 3, kind);
    let refused =
        |format, fields: Vec<Field>| !printed(printf(format, fields), &[0xff; 16]).0.is_empty();
    assert!(refused("%d", vec![bytes(FieldKind::Bytes)]));
    assert!(refused("%f", vec![bytes(FieldKind::Bytes)]));
    assert!(refused("%d", vec![]));
    assert!(refused("%k", vec![bytes(FieldKind::Bytes)]));
    assert!(refused("%@d", vec![bytes(FieldKind::Bytes)]));
    assert!(refused("%*d", vec![field(0, 4, FieldKind::Pointer)]));
    // The widest width there is, and a string without an end.
    let (message, text) = printed(
        printf(
            "%*s",
            vec![
                field(0, 4, FieldKind::Pointer),
                field(4, 2, FieldKind::String),
            ],
        ),
        &[0xff, 0xff, 0xff, 0x7f, b'a', b'b'],
    );
    assert_eq!(message, "");
    assert_eq!(text.len(), 65_536);
}

#[test]
fn names_that_do_not_exist() {
    let unknown = AggregationId(5);
    for action in [
        ActionKind::Clear(unknown),
        ActionKind::Trunc(unknown, None),
        printa(None, &[unknown]),
    ] {
        let (message, text) = printed(action, &[]);
        let expected = "a record of aggregation 5, which the script does not have";
        assert!(message.ends_with(expected), "{message}");
        assert_eq!(text, "!");
    }
}

#[test]
fn a_broken_action_does_not_keep_the_script_running() {
    let mut run = Run::quiet();
    let mut data = Data::default();
    let actions = vec![printf("%d", vec![]), ActionKind::Exit(data.i32(4))];
    run.once(actions, data);
    run.once(vec![], Data::default());
    run.records[1].0.clause = 9;
    assert_eq!(run.records(), "");
    assert_eq!(run.outcomes[0].exit, Some(4));
    let message = "conversion %d has no argument that it can print";
    assert!(run.outcomes[0].messages[0].ends_with(message));
    let message = "a record of clause 9, which the script does not have";
    assert!(run.outcomes[1].messages[0].ends_with(message));
}
