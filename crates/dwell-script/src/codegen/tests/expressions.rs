//! Operators and conditions, against Rust's.
use super::build::{Build, trace};
use super::{Running, TARGET_MEMORY};
use crate::typed::*;

const NUMBERS: [i64; 10] = [0, 1, -1, 2, 7, -8, 1 << 40, i64::MAX, i64::MIN, 63];

/// The first 8 bytes of the only record.
fn result(running: &mut Running<'_>) -> Option<i64> {
    let records = running.records();
    assert_eq!(records.len(), 1);
    Some(i64::from_le_bytes(records[0][..8].try_into().ok()?))
}

fn compare_with(operator: Binary, expected: impl Fn(i64, i64) -> i64) {
    let mut b = Build::new();
    let e = b.binary(operator, b.arg(0), b.arg(1));
    b.clause(None, vec![trace(e)]);
    let mut running = Running::new(&b.script);
    for first in NUMBERS {
        for second in NUMBERS {
            running.fire(first, second);
            if matches!(operator, Binary::Divide | Binary::Remainder) && second == 0 {
                assert_eq!(running.faults(), [4]);
                continue;
            }
            let expected = expected(first, second);
            assert_eq!(
                result(&mut running),
                Some(expected),
                "{first} {operator:?} {second}"
            );
        }
    }
}

#[test]
fn operators_on_signed_numbers() {
    compare_with(Binary::Add, i64::wrapping_add);
    compare_with(Binary::Subtract, i64::wrapping_sub);
    compare_with(Binary::Multiply, i64::wrapping_mul);
    compare_with(Binary::Divide, i64::wrapping_div);
    compare_with(Binary::Remainder, i64::wrapping_rem);
    compare_with(Binary::ShiftLeft, |a, b| a.wrapping_shl(b as u32));
    compare_with(Binary::ShiftRight, |a, b| a.wrapping_shr(b as u32));
    compare_with(Binary::Less, |a, b| (a < b).into());
    compare_with(Binary::GreaterEqual, |a, b| (a >= b).into());
    compare_with(Binary::Equal, |a, b| (a == b).into());
}

#[test]
fn a_predicate_decides() {
    let mut b = Build::new();
    let first = b.binary(Binary::Greater, b.arg(0), b.number(3));
    let second = b.binary(Binary::Equal, b.arg(1), b.number(0));
    let either = b.expr(ExprKind::Or(first.into(), second.into()), b.int);
    let not = b.expr(ExprKind::Unary(Unary::Not, either.into()), b.int);
    b.clause(Some(not), vec![trace(b.number(1))]);
    let mut running = Running::new(&b.script);
    for (first, second, fires) in [(3, 1, true), (4, 1, false), (0, 0, false), (-9, 9, true)] {
        running.fire(first, second);
        assert_eq!(
            running.records().len(),
            usize::from(fires),
            "{first} {second}"
        );
    }
}

#[test]
fn memory_of_the_target_is_read_or_an_error() {
    let mut b = Build::new();
    let place = Place {
        kind: PlaceKind::Memory(b.arg(0)),
        ty: b.int,
    };
    b.clause(None, vec![trace(b.read(place))]);
    b.clause(None, vec![trace(b.number(5))]);
    let mut running = Running::new(&b.script);
    running.model.world.memory = vec![0xfe, 0xff, 0xff, 0xff];
    running.fire(TARGET_MEMORY as i64, 0);
    let records = running.records();
    assert_eq!(
        (records.len(), &records[0][..4]),
        (2, &[0xfe, 0xff, 0xff, 0xff][..])
    );
    running.fire(TARGET_MEMORY as i64 + 1, 0);
    assert_eq!(running.faults(), [1]);
    running.fire(0, 0);
    assert_eq!(running.records().len(), 2, "an error and the next clause");
}

#[test]
fn strings_compare_by_their_bytes() {
    let mut b = Build::new();
    let pairs = [
        ("", ""),
        ("a", "b"),
        ("abcdefgh", "abcdefghi"),
        ("zz", "a"),
        ("abc", "abc"),
    ];
    let mut body = Vec::new();
    for (left, right) in pairs {
        for operator in [
            Binary::Less,
            Binary::LessEqual,
            Binary::Equal,
            Binary::NotEqual,
            Binary::Greater,
        ] {
            let e = b.binary(operator, b.text(left), b.text(right));
            body.push(trace(Expr { ty: b.long, ..e }));
        }
    }
    b.clause(None, body);
    let mut running = Running::new(&b.script);
    running.fire(0, 0);
    let record = running.records().remove(0);
    let truths = record.as_chunks::<8>().0.iter().map(|w| w[0] != 0);
    let expected = pairs
        .into_iter()
        .flat_map(|(l, r)| [l < r, l <= r, l == r, l != r, l > r]);
    assert!(truths.eq(expected));
}

#[test]
fn strings_of_the_target_end_at_their_zero() {
    let mut b = Build::new();
    let call = ExprKind::Call(Function::Copyinstr, vec![b.arg(0)]);
    b.clause(None, vec![trace(b.expr(call, b.string))]);
    let mut running = Running::new(&b.script);
    running.model.world.memory = b"first\0second, which is far too long for a string\0".to_vec();
    running.fire(TARGET_MEMORY as i64, 0);
    running.fire(TARGET_MEMORY as i64 + 6, 0);
    let records = running.records();
    assert_eq!(&records[0][..8], b"first\0\0\0");
    assert_eq!(&records[1], b"second, which is far too long f\0");
}

#[test]
fn the_time_is_one_for_all_clauses() {
    let mut b = Build::new();
    let time = || b.expr(ExprKind::Builtin(Builtin::Timestamp), b.long);
    let (first, second) = (trace(time()), trace(time()));
    b.clause(None, vec![first]);
    b.clause(None, vec![second]);
    let mut running = Running::new(&b.script);
    running.fire(0, 0);
    running.fire(0, 0);
    let records = running.records();
    assert_eq!(records[0], records[1]);
    assert_eq!(records[2], records[3]);
    assert!(records[0] != records[2]);
}
