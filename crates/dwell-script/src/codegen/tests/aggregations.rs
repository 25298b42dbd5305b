//! Against the arithmetic of [`crate::aggregate`].
use super::Running;
use super::build::Build;
use crate::aggregate::{identity, record};
use crate::schema::Aggregate;
use crate::typed::*;

const FUNCTIONS: &[Aggregate] = &[
    Aggregate::Count,
    Aggregate::Sum,
    Aggregate::Min,
    Aggregate::Max,
    Aggregate::Avg,
    Aggregate::Stddev,
    Aggregate::Quantize,
    Aggregate::Lquantize {
        base: -100,
        limit: 1000,
        step: 7,
    },
    Aggregate::Lquantize {
        base: 0,
        limit: 10,
        step: 4,
    },
    Aggregate::Llquantize {
        factor: 10,
        low: 0,
        high: 6,
        steps: 20,
    },
    Aggregate::Llquantize {
        factor: 2,
        low: 3,
        high: 10,
        steps: 8,
    },
];

/// Numbers of all magnitudes.
fn values() -> impl Iterator<Item = i64> {
    let powers = (0..64).map(|n| (1u64 << n) as i64);
    let near = powers.flat_map(|p| [p, p.wrapping_sub(1), p.wrapping_neg(), p.wrapping_add(1)]);
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let random = (0..500).map(move |round| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state as i64) >> (round % 64)
    });
    near.chain(random).chain([0, i64::MIN, i64::MAX])
}

#[test]
fn every_function_does_what_it_is_defined_to_do() {
    for function in FUNCTIONS {
        let mut b = Build::new();
        let to = b.aggregation(*function, vec![]);
        let value = b.arg(0);
        b.clause(
            None,
            vec![Statement::Aggregate {
                to,
                keys: vec![],
                value,
                increment: None,
            }],
        );
        let mut running = Running::new(&b.script);
        let mut expected = identity(*function);
        for value in values() {
            running.fire(value, 0);
            record(*function, &mut expected, value, 1);
            assert_eq!(
                running.rows(0)[0].values,
                expected,
                "{function:?} of {value}"
            );
        }
    }
}

#[test]
fn values_count_as_often_as_they_are_said_to() {
    let mut b = Build::new();
    let to = b.aggregation(Aggregate::Quantize, vec![]);
    let (value, increment) = (b.arg(0), Some(b.arg(1)));
    b.clause(
        None,
        vec![Statement::Aggregate {
            to,
            keys: vec![],
            value,
            increment,
        }],
    );
    let mut running = Running::new(&b.script);
    running.fire(8, 5);
    running.fire(9, -2);
    assert_eq!(running.rows(0)[0].values[63 + 4], 3);
}

#[test]
fn keys_of_all_kinds_keep_values_apart() {
    let mut b = Build::new();
    let keys = vec![b.int, b.string, b.long];
    let to = b.aggregation(Aggregate::Sum, keys);
    let execname = b.expr(ExprKind::Builtin(Builtin::Execname), b.string);
    let mut small = b.arg(0);
    small.ty = b.int;
    let keys = vec![small, execname, b.arg(1)];
    let value = b.number(1);
    b.clause(
        None,
        vec![Statement::Aggregate {
            to,
            keys,
            value,
            increment: None,
        }],
    );
    let mut running = Running::new(&b.script);
    for (first, second) in [(1, 1), (-1, 1), (1, 1), (1, 2)] {
        running.fire(first, second);
    }
    let rows = running.rows(0);
    let mut found: Vec<(i32, String, i64, i64)> = rows
        .iter()
        .map(|row| {
            let first = i32::from_le_bytes(row.key[..4].try_into().expect("4 bytes"));
            let name = String::from_utf8_lossy(&row.key[8..40])
                .trim_end_matches('\0')
                .to_owned();
            let second = i64::from_le_bytes(row.key[40..48].try_into().expect("8 bytes"));
            (first, name, second, row.values[0])
        })
        .collect();
    found.sort();
    let row = |first, second, sum| (first, "target".to_owned(), second, sum);
    assert_eq!(found, [row(-1, 1, 1), row(1, 1, 2), row(1, 2, 1)]);
}
