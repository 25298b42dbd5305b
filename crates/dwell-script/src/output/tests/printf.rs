//! Formats.

use super::*;
use crate::output::format::{FormatError, parse};
use crate::schema::AddressPart;

/// What `printf(format, argument)` prints.
fn one(format: &str, argument: impl FnOnce(&mut Data) -> Field) -> String {
    many(format, |data| vec![argument(data)])
}

/// What `printf` prints.
fn many(format: &str, arguments: impl FnOnce(&mut Data) -> Vec<Field>) -> String {
    let mut run = Run::quiet();
    run.options.target = 5;
    let mut data = Data::default();
    let fields = arguments(&mut data);
    run.once(vec![printf(format, fields)], data);
    run.records()
}

#[test]
fn text_alone() {
    assert_eq!(many("100%% done\n", |_| vec![]), "100% done\n");
    assert_eq!(many("", |_| vec![]), "");
}

#[test]
fn integers_have_the_size_and_sign_of_their_argument() {
    assert_eq!(one("%d", |d| d.i8(-17)), "-17");
    assert_eq!(one("%i", |d| d.i16(-12817)), "-12817");
    assert_eq!(one("%d", |d| d.i32(-1)), "-1");
    assert_eq!(one("%d", |d| d.unsigned(0xffff_ffff, 4)), "4294967295");
    assert_eq!(
        one("%d", |d| d.unsigned(u64::MAX, 8)),
        "18446744073709551615"
    );
    assert_eq!(one("%ld", |d| d.unsigned(u64::MAX, 8)), "-1");
    assert_eq!(one("%hd", |d| d.i16(-3)), "-3");
    assert_eq!(one("%u", |d| d.i8(-17)), "239");
    assert_eq!(one("%x", |d| d.i8(-17)), "ef");
    assert_eq!(one("%llX", |d| d.i64(-1)), "FFFFFFFFFFFFFFFF");
    assert_eq!(one("%o", |d| d.i16(-12817)), "146757");
    assert_eq!(one("%p", |d| d.pointer(0x1234_5678)), "12345678");
}

#[test]
fn flags_widths_and_precisions() {
    assert_eq!(one("%#8x|", |d| d.i32(0x123)), "   0x123|");
    assert_eq!(one("%08x|", |d| d.i32(0x123)), "00000123|");
    assert_eq!(one("%-8x|", |d| d.i32(0x123)), "123     |");
    assert_eq!(one("%+8d|", |d| d.i32(123)), "    +123|");
    assert_eq!(one("% d|", |d| d.i32(123)), " 123|");
    assert_eq!(one("%?x|", |d| d.i32(0xab)), "              ab|");
    assert_eq!(one("%.4d|", |d| d.i32(-7)), "-0007|");
    assert_eq!(one("%'d|", |d| d.i32(1_000_000)), "1000000|");
    let star = |width| many("%*d|", |d| vec![d.i32(width), d.i32(5)]);
    assert_eq!([star(0), star(3), star(-3)], ["5|", "  5|", "5  |"]);
    let stars = |width, digits| {
        many("%*.*s|", |d| {
            vec![d.i8(width), d.i64(digits), d.string("hello")]
        })
    };
    assert_eq!(stars(7, 3), "    hel|");
    assert_eq!(stars(2, 0), "hello|");
    assert_eq!(stars(-7, 9), "hello  |");
}

#[test]
fn strings_and_characters() {
    assert_eq!(one("<%s>", |d| d.string("hello")), "<hello>");
    assert_eq!(one("<%.0s>", |d| d.string("hello")), "<hello>");
    assert_eq!(one("<%3.2s>", |d| d.string("hello")), "< he>");
    assert_eq!(one("%S", |d| d.string("a\n\"b\"")), "a\\n\\\"b\\\"\\0");
    assert_eq!(one("%c%%", |d| d.i32(i32::from(b'a'))), "a%");
    assert_eq!(one("%C", |d| d.i8(9)), "\\t");
    assert_eq!(one("%wc", |d| d.i32(0x20ac)), "€");
    let units: Vec<u8> = "né\0x"
        .chars()
        .flat_map(|c| (c as u32).to_le_bytes())
        .collect();
    assert_eq!(one("%ws", |d| d.field(&units, FieldKind::Bytes)), "né");
}

#[test]
fn floating_point() {
    let double = |value: f64| move |d: &mut Data| d.field(&value.to_le_bytes(), FieldKind::Bytes);
    assert_eq!(one("%f", double(1.5)), "1.500000");
    assert_eq!(one("%.2e", double(-12345.0)), "-1.23e+04");
    assert_eq!(one("%g", double(0.0001)), "0.0001");
    let float = 0.25f32.to_le_bytes();
    assert_eq!(
        one("%8.3f", |d| d.field(&float, FieldKind::Bytes)),
        "   0.250"
    );
    // 3 as the x87 keeps it: mantissa 1.1 in binary, exponent 1.
    let mut extended = [0; 16];
    extended[7..10].copy_from_slice(&[0xc0, 0x00, 0x40]);
    assert_eq!(one("%Lg", |d| d.field(&extended, FieldKind::Bytes)), "3");
}

#[test]
fn addresses() {
    assert_eq!(one("%a", |d| d.pointer(0xffff_0200)), "vmlinux`max_pfn");
    assert_eq!(
        one("%a", |d| d.pointer(0xffff_0213)),
        "vmlinux`max_pfn+0x13"
    );
    assert_eq!(one("%a", |d| d.pointer(0xffff_0fff)), "vmlinux`0xffff0fff");
    assert_eq!(one("%-8a|", |d| d.pointer(0x10)), "0x10    |");
    assert_eq!(one("%A", |d| d.pointer(0x40_0101)), "app`work+0x1");
    let at =
        |part, pid| move |d: &mut Data| d.words(&[pid, 0x40_0101], FieldKind::UserAddress(part));
    assert_eq!(one("%A", at(AddressPart::Symbol, 9)), "app`work");
    assert_eq!(one("%A", at(AddressPart::Exact, 9)), "app`work+0x1");
    assert_eq!(one("%A", at(AddressPart::Exact, 77)), "0x400101");
    assert_eq!(one("%s", at(AddressPart::Module, 9)), "app");
}

#[test]
fn times() {
    // The 3rd of December 1973, 17:20:00, and a leap day.
    let nanoseconds = 123_787_200_999_999_999;
    assert_eq!(one("%Y", |d| d.i64(nanoseconds)), "1973 Dec  3 17:20:00");
    assert_eq!(
        one("%T", |d| d.i64(nanoseconds)),
        "Mon, 03 Dec 1973 17:20:00 UTC"
    );
    assert_eq!(
        one("%Y", |d| d.i64(1_709_251_199_000_000_000)),
        "2024 Feb 29 23:59:59"
    );
    assert_eq!(one("%T", |d| d.i64(0)), "Thu, 01 Jan 1970 00:00:00 UTC");

    let mut run = Run::quiet();
    run.book.offset = -3600;
    let mut data = Data::default();
    let field = data.i64(0);
    run.once(vec![printf("%T|%Y", vec![field.clone(), field])], data);
    assert_eq!(
        run.records(),
        "Wed, 31 Dec 1969 23:00:00 XYZ|1969 Dec 31 23:00:00"
    );
}

#[test]
fn formats_that_are_none() {
    let error = |format| parse(format).expect_err(format);
    let number = 1;
    assert_eq!(
        error("%**d"),
        FormatError::Stars {
            number,
            what: "width"
        }
    );
    assert_eq!(error("%1..2d"), FormatError::Points { number });
    assert_eq!(error("%1$d"), FormatError::Positional { number });
    assert_eq!(error("%5%"), FormatError::Percent { number });
    assert_eq!(error("a%"), FormatError::Unfinished { number });
    assert_eq!(
        error("%d %lq").to_string(),
        "format conversion #2 is undefined: %lq"
    );
    assert_eq!(
        error("%99999999999999999999d"),
        FormatError::Wide { number }
    );
    assert_eq!(
        error("%%%é").to_string(),
        "format conversion #2 is undefined: %é"
    );
}
