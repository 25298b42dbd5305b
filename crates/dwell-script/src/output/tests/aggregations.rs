//! Aggregations: keys, order, columns.

use super::*;
use crate::schema::AddressPart;

/// An aggregation of sums with one integer as the key.
fn sums(run: &mut Run, rows: &[(i32, i64)]) -> AggregationId {
    let id = run.aggregation(Aggregate::Sum);
    for (key, value) in rows {
        run.add(id, |data| vec![data.i32(*key)], *value, 1);
    }
    id
}

/// Lines of a 4-byte key and sums.
fn table(lines: &[(i32, &[i64])]) -> String {
    let line = |(key, values): &(i32, &[i64])| {
        let values = values.iter().map(|value| format!(" {value:>16}"));
        format!(" {key:>8}{}\n", values.collect::<String>())
    };
    lines.iter().map(line).collect()
}

#[test]
fn what_was_never_printed_is_printed_at_the_end() {
    let mut run = Run::quiet();
    let printed = sums(&mut run, &[(1, 10)]);
    sums(&mut run, &[(3, 5), (1, 7), (2, 5)]);
    run.aggregation(Aggregate::Count);
    run.once(vec![printa(None, &[printed])], Data::default());
    let expected = format!(
        "\n{}\n{}",
        table(&[(1, &[10])]),
        table(&[(2, &[5]), (3, &[5]), (1, &[7])])
    );
    assert_eq!(run.all(), expected);
}

#[test]
fn an_aggregation_without_rows_counts_as_not_printed() {
    let mut run = Run::quiet();
    let id = run.aggregation(Aggregate::Count);
    let clause = run.clause(vec![(None, printa(None, &[id]))]);
    run.fire(clause, Data::default(), |_| {});
    assert_eq!(run.all(), "\n\n");
    run.add(id, no_key, 0, 1);
    assert_eq!(run.all(), format!("\n {:>16}\n\n", 1));
}

#[test]
fn each_function_prints_its_number() {
    let functions = [
        Aggregate::Count,
        Aggregate::Sum,
        Aggregate::Min,
        Aggregate::Max,
        Aggregate::Avg,
        Aggregate::Stddev,
    ];
    let mut run = Run::quiet();
    for function in functions {
        let id = run.aggregation(function);
        [-900, -100, 300]
            .into_iter()
            .for_each(|value| run.add(id, no_key, value, 1));
    }
    let numbers = [3, -700, -900, 300, -233, 499];
    let lines = numbers.map(|number| format!(" {number:>16}\n"));
    assert_eq!(run.all(), format!("\n{}", lines.concat()));
}

#[test]
fn keys_have_columns_by_their_size() {
    let mut run = Run::quiet();
    let id = run.aggregation(Aggregate::Count);
    run.add(
        id,
        |data| {
            vec![
                data.string("cat"),
                data.i8(-1),
                data.i16(-1),
                data.i32(-1),
                data.i64(-1),
                data.pointer(16),
                data.field(b"four bytes.\0", FieldKind::Bytes),
            ]
        },
        0,
        1,
    );
    let expected = format!(
        "\n  {:50} {:>3} {:>5} {:>8} {:>16} {:>16}  {:50} {:>16}\n",
        "cat", 255, 65535, -1, -1, 16, "four bytes.", 1
    );
    assert_eq!(run.all(), expected);
}

#[test]
fn the_order_can_be_chosen() {
    let order = |options: &[(&str, &str)]| {
        let mut run = Run::quiet();
        for (name, value) in options {
            assert_eq!(run.options.set(name, value), Ok(()));
        }
        let id = run.aggregation(Aggregate::Sum);
        for (key, value) in [((1, -3), 0), ((2, 2), 0), ((3, 1), 0), ((0, 9), 4)] {
            run.add(id, |data| vec![data.i32(key.0), data.i32(key.1)], value, 1);
        }
        run.once(vec![printa(Some("%d,%d "), &[id])], Data::default());
        run.records()
    };
    assert_eq!(order(&[]), "1,-3 2,2 3,1 0,9 ");
    assert_eq!(order(&[("aggsortkeypos", "1")]), "3,1 2,2 1,-3 0,9 ");
    assert_eq!(order(&[("aggsortkeypos", "2")]), "1,-3 2,2 3,1 0,9 ");
    assert_eq!(order(&[("aggsortrev", "1")]), "0,9 3,1 2,2 1,-3 ");
    assert_eq!(order(&[("aggsortkey", "1")]), "0,9 1,-3 2,2 3,1 ");
    let by_second = [
        ("aggsortkey", "1"),
        ("aggsortkeypos", "1"),
        ("aggsortrev", "1"),
    ];
    assert_eq!(order(&by_second), "1,-3 0,9 2,2 3,1 ");
}

#[test]
fn columns_of_several_aggregations() {
    let mut run = Run::quiet();
    let first = sums(&mut run, &[(123, 123), (789, 789)]);
    let second = sums(&mut run, &[(456, 456), (789, 789)]);
    let never = run.aggregation(Aggregate::Min);
    let three = [first, second, never];
    run.once(
        vec![printa(Some("%d %@d %@d %@d\n"), &three)],
        Data::default(),
    );
    assert_eq!(run.all(), "456 0 456 0\n123 123 0 0\n789 789 789 0\n\n");

    run.records.clear();
    run.clauses.clear();
    run.once(vec![printa(None, &[first, second])], Data::default());
    let lines = [(456, &[0, 456][..]), (123, &[123, 0]), (789, &[789, 789])];
    assert_eq!(run.records(), format!("\n{}", table(&lines)));
}

#[test]
fn columns_may_repeat_and_decide_the_order() {
    let mut run = Run::quiet();
    let up: Vec<(i32, i64)> = (0..4).map(|i| (i, i64::from(i))).collect();
    let turned: Vec<(i32, i64)> = (0..4).map(|i| (i, i64::from((i + 2) % 4))).collect();
    let (a, b) = (sums(&mut run, &up), sums(&mut run, &turned));
    let format = "%d: %@d %@d %@d %@d\n";
    run.once(vec![printa(Some(format), &[a, b, a])], Data::default());
    assert_eq!(
        run.records(),
        "0: 0 2 0 0\n1: 1 3 1 1\n2: 2 0 2 2\n3: 3 1 3 3\n"
    );
    run.options.sorting.position = 1;
    assert_eq!(
        run.records(),
        "2: 2 0 2 2\n3: 3 1 3 3\n0: 0 2 0 0\n1: 1 3 1 1\n"
    );
    run.options.sorting.position = 3;
    assert!(run.records().starts_with("0:"));
}

#[test]
fn distributions_ignore_their_conversion() {
    let mut run = Run::quiet();
    let id = run.aggregation(Aggregate::Quantize);
    run.add(id, |data| vec![data.string("key")], 1, 5);
    run.once(vec![printa(Some("<%s %@5d>"), &[id])], Data::default());
    let text = run.records();
    assert!(
        text.starts_with("<key \n           value  ------"),
        "{text}"
    );
    assert!(text.ends_with(
        "@@ 5        \n               2 |                                         0        \n>"
    ));
}

#[test]
fn normalized_numbers() {
    let mut run = Run::quiet();
    let id = sums(&mut run, &[(1, 3400), (2, -3000)]);
    let counts = run.aggregation(Aggregate::Quantize);
    run.add(counts, no_key, 0, 50);
    let mut data = Data::default();
    let (five, none) = (data.i32(5), data.i32(0));
    let actions = vec![
        ActionKind::Normalize(id, five.clone()),
        // By 0 nothing can be divided.
        ActionKind::Normalize(id, none),
        ActionKind::Normalize(counts, five),
        printa(None, &[id]),
        printa(Some("%@d\n"), &[counts]),
        ActionKind::Denormalize(id),
        printa(Some("%d %@d\n"), &[id]),
    ];
    run.once(actions, data);
    let text = run.records();
    let lines = format!("\n{}", table(&[(2, &[-600]), (1, &[680])]));
    assert!(text.starts_with(&lines), "{text}");
    let bar = "@".repeat(40);
    assert!(text.contains(&format!(" 0 |{bar} 10       \n")), "{text}");
    assert!(text.ends_with("\n2 -3000\n1 3400\n"), "{text}");
}

#[test]
fn truncated_and_cleared() {
    let rest = |action: fn(AggregationId, &mut Data) -> ActionKind| {
        let mut run = Run::quiet();
        let rows: Vec<(i32, i64)> = (0..6).map(|i| (i, i64::from(i))).collect();
        let id = sums(&mut run, &rows);
        let mut data = Data::default();
        let actions = vec![action(id, &mut data), printa(Some("%d=%@d "), &[id])];
        run.once(actions, data);
        run.records()
    };
    assert_eq!(
        rest(|id, data| ActionKind::Trunc(id, Some(data.i32(2)))),
        "4=4 5=5 "
    );
    assert_eq!(
        rest(|id, data| ActionKind::Trunc(id, Some(data.i64(-2)))),
        "0=0 1=1 "
    );
    assert_eq!(
        rest(|id, data| ActionKind::Trunc(id, Some(data.i8(100)))),
        "0=0 1=1 2=2 3=3 4=4 5=5 "
    );
    assert_eq!(rest(|id, _| ActionKind::Trunc(id, None)), "");
    assert_eq!(
        rest(|id, _| ActionKind::Clear(id)),
        "0=0 1=0 2=0 3=0 4=0 5=0 "
    );
}

/// Keys of addresses: two within `vfs_read`, one within `ksys_read`, one without a symbol.
fn addresses(run: &mut Run, part: AddressPart) -> AggregationId {
    let id = run.aggregation(Aggregate::Sum);
    for (address, value) in [
        (0xffff_0104, 1),
        (0xffff_01aa, 2),
        (0xffff_0010, 3),
        (0xffff_0777, 9),
    ] {
        run.add(
            id,
            |data| vec![data.words(&[address], FieldKind::KernelAddress(part))],
            value,
            1,
        );
    }
    id
}

#[test]
fn addresses_that_print_alike_are_one() {
    let lines = |part| {
        let mut run = Run::quiet();
        let id = addresses(&mut run, part);
        run.once(vec![printa(Some("%a %@d\n"), &[id])], Data::default());
        run.records()
    };
    // Equal sums are in the order of the addresses.
    let symbols = "vmlinux`ksys_read 3\nvmlinux`vfs_read 3\nvmlinux`0xffff0777 9\n";
    assert_eq!(lines(AddressPart::Symbol), symbols);
    assert_eq!(lines(AddressPart::Module), "vmlinux 15\n");
    assert_eq!(lines(AddressPart::Exact).lines().count(), 4);

    let mut run = Run::quiet();
    let id = addresses(&mut run, AddressPart::Function);
    let mut data = Data::default();
    let keep = data.i32(1);
    run.once(vec![ActionKind::Trunc(id, Some(keep))], data);
    assert_eq!(run.records(), "");
    assert_eq!(run.store.rows[&id.0].len(), 1);
}
