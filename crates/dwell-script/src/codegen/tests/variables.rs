//! Variables of all kinds.
use super::Running;
use super::build::{Build, trace};
use crate::typed::*;

fn words(record: &[u8]) -> Vec<i64> {
    record
        .as_chunks::<8>()
        .0
        .iter()
        .map(|w| i64::from_le_bytes(*w))
        .collect()
}

#[test]
fn each_scope_keeps_what_it_should() {
    let mut b = Build::new();
    let ids: Vec<VariableId> = [Scope::Global, Scope::Thread, Scope::Clause]
        .into_iter()
        .map(|scope| b.variable(scope, b.long, None))
        .collect();
    let increment = |id| {
        let step = ExprKind::Step {
            place: b.place(id).into(),
            by: 1,
            postfix: false,
        };
        Statement::Expr(b.expr(step, b.long))
    };
    let steps = ids.iter().map(|id| increment(*id)).collect();
    let reads = ids.iter().map(|id| trace(b.read(b.place(*id)))).collect();
    b.clause(None, steps);
    b.clause(None, reads);
    let mut running = Running::new(&b.script);
    for (thread, expected) in [(1, [1, 1, 1]), (1, [2, 2, 1]), (2, [3, 1, 1])] {
        running.model.world.thread = thread;
        running.fire(0, 0);
        assert_eq!(words(&running.records()[0]), expected);
    }
}

#[test]
fn arrays_by_tuples_forget_zeros() {
    let mut b = Build::new();
    let array = b.variable(Scope::Global, b.long, Some(vec![b.long, b.string]));
    let keys = || vec![b.arg(0), b.text("x")];
    let set = b.assign(b.element(array, keys()), b.arg(1));
    let get = trace(b.read(b.element(array, keys())));
    let other = trace(b.read(b.element(array, vec![b.arg(0), b.text("y")])));
    b.clause(None, vec![set, get, other]);
    let mut running = Running::new(&b.script);
    for (key, value) in [(1, 10), (2, 20), (1, 11), (2, 0)] {
        running.fire(key, value);
        assert_eq!(words(&running.records()[0]), [value, 0]);
    }
    let left: Vec<u32> = (super::super::NAMES + 1..).take(1).collect();
    assert_eq!(running.model.entries(left[0]).count(), 1);
}

#[test]
fn strings_are_kept_by_variables_of_every_kind() {
    let mut b = Build::new();
    let scopes = [Scope::Global, Scope::Thread, Scope::Clause];
    let ids = scopes.map(|scope| b.variable(scope, b.string, None));
    let array = b.variable(Scope::Global, b.string, Some(vec![b.long]));
    let mut body: Vec<Statement> = ids
        .iter()
        .map(|id| b.assign(b.place(*id), b.text("hello, world")))
        .collect();
    body.push(b.assign(b.element(array, vec![b.number(3)]), b.text("hello, world")));
    body.extend(ids.iter().map(|id| trace(b.read(b.place(*id)))));
    body.push(trace(b.read(b.element(array, vec![b.number(3)]))));
    b.clause(None, body);
    let mut running = Running::new(&b.script);
    running.fire(0, 0);
    let record = running.records().remove(0);
    assert_eq!(record.len(), 4 * 32);
    for string in record.as_chunks::<32>().0 {
        assert_eq!(
            string,
            b"hello, world\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        );
    }
}

#[test]
fn after_exit_nothing_runs() {
    let mut b = Build::new();
    let exit = Statement::Record(Recording::Exit(b.number(3)));
    b.clause(Some(b.arg(0)), vec![exit]);
    b.clause(None, vec![trace(b.number(1))]);
    let mut running = Running::new(&b.script);
    for (first, records) in [(0, 1), (1, 1), (0, 0), (1, 0)] {
        running.fire(first, 0);
        assert_eq!(running.records().len(), records);
    }
}

#[test]
fn branches_say_which_was_taken() {
    let mut b = Build::new();
    let branch = Statement::If {
        condition: b.arg(0),
        then: vec![trace(b.number(1))],
        otherwise: vec![trace(b.number(2))],
    };
    b.clause(None, vec![branch]);
    let mut running = Running::new(&b.script);
    for (first, done, values) in [(1, 1, [1, 0]), (0, 2, [0, 2])] {
        running.fire(first, 0);
        let record = running.model.take_records().remove(0);
        assert_eq!(words(&record[24..32]), [done]);
        assert_eq!(words(&record[32..]), values);
    }
}
