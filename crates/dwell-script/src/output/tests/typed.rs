//! `print`.

use super::*;
use crate::types::{Member, Record, Type, TypeId};

fn int(run: &mut Run, name: &str, size: u8, signed: bool) -> TypeId {
    let name = name.into();
    run.types.add(Type::Int { name, size, signed })
}

fn record(run: &mut Run, tag: &str, size: u32, members: &[(&str, TypeId, u32)]) -> TypeId {
    let member = |(name, ty, offset): &(&str, TypeId, u32)| Member {
        name: (*name).into(),
        ty: *ty,
        offset_bits: offset * 8,
        bits: None,
    };
    let members = members.iter().map(member).collect();
    run.types.add(Type::Record(Record {
        keyword: "struct",
        name: tag.into(),
        size,
        members,
    }))
}

/// `struct test { int a; char b[5]; struct { __u64 c; void *d; } s; enum eh e; short f[3]; }`.
fn test_type(run: &mut Run) -> TypeId {
    let a = int(run, "int", 4, true);
    let char_ = int(run, "char", 1, true);
    let short = int(run, "short", 2, true);
    let b = run.types.add(Type::Array {
        of: char_,
        count: 5,
    });
    let long = int(run, "unsigned long", 8, false);
    let c = run.types.add(Type::Typedef {
        name: "__u64".into(),
        to: long,
    });
    let void = run.types.add(Type::Void);
    let d = run.types.add(Type::Pointer(void));
    let s = record(run, "", 16, &[("c", c, 0), ("d", d, 8)]);
    let e = run.types.add(Type::Enum {
        name: "eh".into(),
        size: 4,
        signed: false,
        values: vec![("FIRST".into(), 1), ("SECOND".into(), 2)],
    });
    let f = run.types.add(Type::Array {
        of: short,
        count: 3,
    });
    let members = [
        ("a", a, 0),
        ("b", b, 4),
        ("s", s, 16),
        ("e", e, 32),
        ("f", f, 36),
    ];
    record(run, "test", 42, &members)
}

/// A value of the test type.
fn value(a: i32, b: &[u8; 5], c: u64, d: u64, e: u32, f: [i16; 3]) -> Vec<u8> {
    let mut bytes = a.to_le_bytes().to_vec();
    bytes.extend(b);
    bytes.resize(16, 0);
    bytes.extend([c.to_le_bytes(), d.to_le_bytes()].concat());
    bytes.extend(e.to_le_bytes());
    bytes.extend(f.iter().flat_map(|f| f.to_le_bytes()));
    bytes
}

/// What `print` prints of the bytes of a type at address 0xf00.
fn printed(run: &mut Run, ty: TypeId, bytes: &[u8]) -> String {
    let mut data = Data::default();
    let address = data.pointer(0xf00);
    let value = data.field(bytes, FieldKind::Typed(ty));
    run.once(vec![ActionKind::PrintAt { address, value }], data);
    run.records()
}

/// Lines at the indent that they are printed with.
fn lines(lines: &[&str]) -> String {
    let line = |line: &&str| format!("{:44}{line}\n", "");
    format!("0xf00 = *\n{}", lines.iter().map(line).collect::<String>())
}

#[test]
fn members_have_names_types_and_values() {
    let mut run = Run::quiet();
    let ty = test_type(&mut run);
    let bytes = value(-1, b"tes\0x", 12, 0xffff_9b7a_ca7e_0000, 2, [1, 0, -3]);
    let expected = lines(&[
        "(struct test) {",
        " .a = (int)-1,",
        " .b = (char [5]) [",
        "  (char)'t',",
        "  (char)'e',",
        "  (char)'s',",
        " ],",
        " .s = (struct) {",
        "  .c = (__u64)12,",
        "  .d = (void *)0xffff9b7aca7e0000,",
        " },",
        " .e = (enum eh)SECOND,",
        " .f = (short [3]) [",
        "  (short)1,",
        "  (short)-3,",
        " ],",
        "}",
    ]);
    assert_eq!(printed(&mut run, ty, &bytes), expected);
}

#[test]
fn zeros_are_left_out() {
    let mut run = Run::quiet();
    let ty = test_type(&mut run);
    let bytes = value(0, b"\0est\0", 0, 0, 7, [0; 3]);
    let expected = [
        "(struct test) {",
        " .b = (char [5]) [",
        " ],",
        " .e = (enum eh)7,",
        "}",
    ];
    assert_eq!(printed(&mut run, ty, &bytes), lines(&expected));
    let mut run = Run::quiet();
    let ty = test_type(&mut run);
    let text = printed(&mut run, ty, &value(0, &[0; 5], 0, 0, 0, [0; 3]));
    assert_eq!(text, lines(&["(struct test) {", "}"]));
}

#[test]
fn long_values_are_cut() {
    let mut run = Run::quiet();
    run.options.print_size = 24;
    let ty = test_type(&mut run);
    let bytes = value(1, b"x\0\0\0\0", 5, 6, 1, [0; 3]);
    let expected = [
        "(struct test) {",
        " .a = (int)1,",
        " .b = (char [5]) [",
        "  (char)'x',",
        " ],",
        " .s = (struct) {",
        "  .c = (__u64)5,",
        "  ...",
        " },",
        "}",
    ];
    assert_eq!(printed(&mut run, ty, &bytes), lines(&expected));
    run.options.print_size = 32;
    let expected = [&expected[..7], &["  .d = (void *)0x6,", " ...", " },", "}"]].concat();
    assert_eq!(run.records(), lines(&expected));
}

#[test]
fn bit_fields_and_values_that_are_no_structures() {
    let mut run = Run::quiet();
    let signed = int(&mut run, "int", 4, true);
    let unsigned = int(&mut run, "unsigned int", 4, false);
    let field = |name: &str, ty, offset_bits, bits| Member {
        name: name.into(),
        ty,
        offset_bits,
        bits: Some(bits),
    };
    let ty = run.types.add(Type::Record(Record {
        keyword: "union",
        name: "bits".into(),
        size: 4,
        members: vec![
            field("a", unsigned, 0, 3),
            field("b", signed, 3, 5),
            field("c", unsigned, 8, 8),
            field("d", signed, 30, 2),
        ],
    }));
    let bytes = 0b0100_0000_0000_0000_0000_0000_1111_1101u32.to_le_bytes();
    let expected = [
        "(union bits) {",
        " .a = (unsigned int)5,",
        " .b = (int)-1,",
        " .d = (int)1,",
        "}",
    ];
    assert_eq!(printed(&mut run, ty, &bytes), lines(&expected));

    let mut run = Run::quiet();
    let ty = int(&mut run, "int", 4, true);
    assert_eq!(printed(&mut run, ty, &[0; 4]), lines(&["(int)0,"]));
    let mut run = Run::quiet();
    let (name, size) = ("double".into(), 8);
    let ty = run.types.add(Type::Float { name, size });
    assert_eq!(
        printed(&mut run, ty, &1.5f64.to_le_bytes()),
        lines(&["(double)1.5,"])
    );
}

#[test]
fn types_are_spelled_as_in_c() {
    let mut run = Run::quiet();
    let int = int(&mut run, "int", 4, true);
    let types = &mut run.types;
    let three = types.add(Type::Array { of: int, count: 3 });
    let pointer = types.add(Type::Pointer(three));
    let two = types.add(Type::Array {
        of: three,
        count: 2,
    });
    let function = types.add(Type::Function);
    let function = types.add(Type::Pointer(function));
    let pointers = types.add(Type::Array {
        of: function,
        count: 4,
    });
    let name = |ty| crate::output::print::type_name(types, ty);
    assert_eq!(name(pointer), "int (*)[3]");
    assert_eq!(name(two), "int [2][3]");
    assert_eq!(name(pointers), "void (*[4])()");
}

#[test]
fn a_value_without_an_address_begins_its_own_line() {
    let mut run = Run::quiet();
    let ty = int(&mut run, "int", 4, true);
    let mut data = Data::default();
    let value = data.field(&[5, 0, 0, 0], FieldKind::Typed(ty));
    run.once(vec![ActionKind::Print(value)], data);
    assert_eq!(run.records(), format!("\n{:44}(int)5,\n", ""));
}
