//! Records that no engine should leave: they are refused, and what comes after them is printed.

use super::*;
use crate::output::OutputError;

/// A field of anything.
fn field(offset: u32, size: u32, kind: FieldKind) -> Field {
    Field { offset, size, kind }
}

/// What comes of a record with such an action, and of one behind it.
fn printed(action: ActionKind, bytes: &[u8]) -> (Result<Outcome, OutputError>, String) {
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
    let result = printer.record(&header, bytes, &mut world);
    (
        result,
        String::from_utf8(page.text).expect("tests print text"),
    )
}

#[test]
fn fields_beyond_the_end() {
    let signed = FieldKind::Int { signed: true };
    for (offset, size) in [(0, 8), (4, 1), (u32::MAX, u32::MAX)] {
        let action = ActionKind::Trace(field(offset, size, signed.clone()));
        let (result, text) = printed(action, &[0; 4]);
        assert!(matches!(result, Err(OutputError::Short { .. })));
        assert_eq!(text, "!");
    }
}

#[test]
fn arguments_that_do_not_fit_their_conversion() {
    let bytes = |kind| field(0, 3, kind);
    let refused =
        |format, fields: Vec<Field>| printed(printf(format, fields), &[0xff; 16]).0.is_err();
    assert!(refused("%d", vec![bytes(FieldKind::Bytes)]));
    assert!(refused("%f", vec![bytes(FieldKind::Bytes)]));
    assert!(refused("%d", vec![]));
    assert!(refused("%k", vec![bytes(FieldKind::Bytes)]));
    assert!(refused("%@d", vec![bytes(FieldKind::Bytes)]));
    assert!(refused("%*d", vec![field(0, 4, FieldKind::Pointer)]));
    // The widest width there is, and a string without an end.
    let (result, text) = printed(
        printf(
            "%*s",
            vec![
                field(0, 4, FieldKind::Pointer),
                field(4, 2, FieldKind::String),
            ],
        ),
        &[0xff, 0xff, 0xff, 0x7f, b'a', b'b'],
    );
    assert!(result.is_ok());
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
        let (result, text) = printed(action, &[]);
        assert!(matches!(result, Err(OutputError::Aggregation(5))));
        assert_eq!(text, "!");
    }
}
