//! Functions on strings: what each gives, as C's functions do and as dtrace's documentation says.
use super::{Running, TARGET_MEMORY};
use crate::{Bare, Input, compile};

/// The value of an expression, as the bytes of a traced record; `faults` if it cannot be computed.
fn traced(expression: &str) -> Vec<u8> {
    let source = format!("BEGIN {{ trace({expression}); }}");
    let input = Input {
        source: &source,
        ..Input::default()
    };
    let (script, _) = compile(&input, &Bare).unwrap_or_else(|e| panic!("{source}: {e}"));
    let mut running = Running::new(&script);
    running.model.world.memory = b"the target's text\0and 1234 more".to_vec();
    running.fire(TARGET_MEMORY as i64, 0);
    let mut records = running.records();
    assert_eq!(records.len(), 1, "{source}");
    records.remove(0)
}

#[track_caller]
fn gives(expression: &str, expected: &str) {
    let bytes = traced(expression);
    let end = bytes.iter().position(|b| *b == 0);
    let text = &bytes[..end.unwrap_or_else(|| panic!("{expression}: no end"))];
    assert_eq!(String::from_utf8_lossy(text), expected, "{expression}");
    // Equal strings are equal bytes.
    assert!(
        bytes[text.len()..].iter().all(|b| *b == 0),
        "{expression}: {bytes:?}"
    );
}

#[track_caller]
fn counts(expression: &str, expected: i64) {
    let bytes = traced(&format!("(int64_t)({expression})"));
    let word = bytes[..8].try_into().expect("8 bytes");
    assert_eq!(i64::from_le_bytes(word), expected, "{expression}");
}

#[test]
fn lengths() {
    counts("strlen(\"\")", 0);
    counts("strlen(\"four\")", 4);
    counts("strlen(copyinstr(arg0))", 17);
    // A string is cut to what it has room for.
    counts("strlen(\"0123456789012345678901234567890123456789\")", 31);
}

#[test]
fn characters_are_found() {
    gives("strchr(\"hello\", 'l')", "llo");
    gives("strchr(\"hello\", 'x')", "");
    gives("strrchr(\"hello\", 'l')", "lo");
    gives("strrchr(\"/a/b/c\", '/')", "/c");
    gives("strchr(copyinstr(arg0), 't')", "the target's text");
    gives("strrchr(copyinstr(arg0), 't')", "t");
}

#[test]
fn strings_are_found() {
    gives("strstr(\"good morning\", \"mor\")", "morning");
    gives("strstr(\"good morning\", \"more\")", "");
    gives("strstr(\"aaab\", \"aab\")", "aab");
    gives("strstr(\"text\", \"\")", "text");
    gives("strstr(\"ab\", \"abc\")", "");
    gives(
        "strstr(\"0123456789abcdefgh\", \"89abcdefg\")",
        "89abcdefgh",
    );
    gives(
        "strstr(\"find the target's text\", copyinstr(arg0))",
        "the target's text",
    );
}

#[test]
fn indices() {
    for (call, expected) in [
        ("index(\"abcabc\", \"c\")", 2),
        ("index(\"abcabc\", \"c\", 3)", 5),
        ("index(\"abcabc\", \"c\", -5)", 2),
        ("index(\"abcabc\", \"d\")", -1),
        ("index(\"abcabc\", \"c\", 9)", -1),
        ("index(\"abcabc\", \"\")", 0),
        ("index(\"abcabc\", \"\", 9)", 6),
        ("index(\"\", \"\")", 0),
        ("index(\"\", \"a\")", -1),
        ("rindex(\"abcabc\", \"a\")", 3),
        ("rindex(\"abcabc\", \"a\", 2)", 0),
        ("rindex(\"abcabc\", \"b\", 0)", -1),
        ("rindex(\"abcabc\", \"a\", -1)", -1),
        ("rindex(\"abcabc\", \"\", -1)", 0),
        ("rindex(\"abcabc\", \"\")", 6),
        ("rindex(\"abcabc\", \"ca\", 99)", 2),
    ] {
        counts(call, expected);
    }
}

#[test]
fn parts() {
    for (call, expected) in [
        ("substr(\"foobarbaz\", 3)", "barbaz"),
        ("substr(\"foobarbaz\", 3, 3)", "bar"),
        ("substr(\"foobarbaz\", -3)", "baz"),
        ("substr(\"foobarbaz\", -6, 3)", "bar"),
        ("substr(\"foobarbaz\", 2, -2)", "obarb"),
        ("substr(\"foobarbaz\", 0, -9)", ""),
        ("substr(\"foobarbaz\", 0, -10)", ""),
        ("substr(\"foobarbaz\", 9)", ""),
        ("substr(\"foobarbaz\", -20, 12)", "f"),
        ("substr(\"foobarbaz\", -20, 3)", ""),
        ("substr(\"foobarbaz\", 5, 100)", "rbaz"),
        ("substr(\"foobarbaz\", 5, 0)", ""),
        ("strjoin(\"foo\", \"bar\")", "foobar"),
        ("strjoin(\"\", \"\")", ""),
        ("strjoin(strjoin(\"a\", \"b\"), substr(\"xyz\", 1))", "abyz"),
        (
            "strjoin(\"0123456789012345678901234567\", \"abcdef\")",
            "0123456789012345678901234567abc",
        ),
    ] {
        gives(call, expected);
    }
}

#[test]
fn tokens() {
    gives("strtok(\"/usr/lib\", \"/\")", "usr");
    gives("strtok(\"  \", \" \")", "");
    gives("strtok(\"word\", \"\")", "word");
    let rest = |n: usize| {
        let more = (0..n).fold(String::new(), |s, _| s + "strtok(NULL, \",; \"), ");
        format!("(strtok(\"a,bc; def,\", \",; \"), {more}strtok(NULL, \",; \"))")
    };
    gives(&rest(0), "bc");
    gives(&rest(1), "def");
    gives(&rest(2), "");
    gives(&rest(3), "");
    gives("strtok(NULL, \",\")", "");
}

/// As basename(1) and dirname(1) have them.
#[test]
fn paths() {
    for (path, name, folder) in [
        ("/usr/lib/libc.so", "libc.so", "/usr/lib"),
        ("/usr/lib/", "lib", "/usr"),
        ("file", "file", "."),
        ("file/", "file", "."),
        ("/file", "file", "/"),
        ("a/b", "b", "a"),
        ("a//b//", "b", "a"),
        ("/", "/", "/"),
        ("//", "/", "/"),
        ("", ".", "."),
        ("..", "..", "."),
    ] {
        gives(&format!("basename(\"{path}\")"), name);
        gives(&format!("dirname(\"{path}\")"), folder);
    }
}

#[test]
fn cases() {
    gives("tolower(\"ABC xyz [@`{] 09 Z\")", "abc xyz [@`{] 09 z");
    gives("toupper(\"abc XYZ [@`{] 09 z\")", "ABC XYZ [@`{] 09 Z");
    gives("toupper(\"stra\u{df}e\")", "STRA\u{df}E");
}

#[test]
fn numbers_as_text() {
    for (call, expected) in [
        ("lltostr(0)", "0"),
        ("lltostr(-1)", "-1"),
        ("lltostr(9223372036854775807)", "9223372036854775807"),
        ("lltostr(-9223372036854775807 - 1)", "-9223372036854775808"),
        ("lltostr(255, 16)", "0xff"),
        ("lltostr(0, 16)", "0x0"),
        ("lltostr(8, 8)", "010"),
        ("lltostr(0, 8)", "0"),
        ("lltostr(5, 2)", "101"),
        ("lltostr(35, 36)", "z"),
        ("lltostr((int)-7)", "-7"),
    ] {
        gives(call, expected);
    }
}

/// As C's function has them.
#[test]
fn text_as_numbers() {
    for (text, base, expected) in [
        ("0", 10, 0),
        ("1234x", 10, 1234),
        (" \\t-42", 10, -42),
        ("+7", 10, 7),
        ("", 10, 0),
        ("-", 10, 0),
        ("x1", 10, 0),
        ("9223372036854775807", 10, i64::MAX),
        ("9223372036854775808", 10, i64::MAX),
        ("99999999999999999999", 10, i64::MAX),
        ("-9223372036854775808", 10, i64::MIN),
        ("-9223372036854775807", 10, -i64::MAX),
        ("0x1F", 16, 31),
        ("ff", 16, 255),
        ("00x1", 16, 0),
        ("777", 8, 511),
        ("8", 8, 0),
        ("Zz", 36, 35 * 37),
        ("101", 2, 5),
    ] {
        counts(&format!("strtoll(\"{text}\", {base})"), expected);
    }
    counts("strtoll(\"12\")", 12);
}

#[test]
fn network_addresses_and_byte_order() {
    let address =
        "(this->a = (uint32_t *)alloca(4), *this->a = htonl(0xc0a80a01), inet_ntoa(this->a))";
    gives(address, "192.168.10.1");
    gives(
        &address.replace("0xc0a80a01", "0xffffffff"),
        "255.255.255.255",
    );
    gives(&address.replace("0xc0a80a01", "0"), "0.0.0.0");
    counts("htons(0x1234)", 0x3412);
    counts("htonl(0x12345678)", 0x7856_3412);
    counts("ntohll(0x0102030405060708)", 0x0807_0605_0403_0201);
}

#[test]
fn memory_of_ones_own_can_be_written() {
    let expression =
        "(this->p = (char *)alloca(8), this->p[0] = 'h', this->p[1] = 'i', stringof(this->p))";
    gives(expression, "hi");
    gives(
        "(this->p = (char *)alloca(20), bcopy(copyin(arg0, 10), this->p, 10), stringof(this->p))",
        "the target",
    );
    gives(
        "(this->p = (char *)alloca(20), copyinto(arg0 + 22, 4, this->p), stringof(this->p))",
        "1234",
    );
}

/// The target's text has 17 bytes.
#[test]
fn sizes_may_be_computed() {
    const LENGTH: &str = "strlen(copyinstr(arg0))";
    let given = |expression: &str, text: &str| gives(&expression.replace('N', LENGTH), text);
    given("copyinstr(arg0, N - 7)", "the target");
    given("copyinstr(arg0, N - 18)", "the target's text");
    given("copyinstr(arg0, N - 17)", "");
    given("stringof((char *)copyin(arg0, N - 7))", "the target");
    given("stringof((char *)copyin(arg0, N - 17))", "");
    given(
        "(this->p = (char *)alloca(N + 1), copyinto(arg0, N, this->p), stringof(this->p))",
        "the target's text",
    );
    given(
        "(this->p = (char *)alloca(20), bcopy(copyin(arg0, 10), this->p, N - 8), stringof(this->p))",
        "the targe",
    );
}

/// What a clause fails with, whose `arg0` is the address of a text of four bytes and a zero.
fn faults(source: &str) -> Vec<u32> {
    let input = Input {
        source,
        ..Input::default()
    };
    let (script, _) = compile(&input, &Bare).unwrap_or_else(|e| panic!("{source}: {e}"));
    let mut running = Running::new(&script);
    running.model.world.memory = b"text\0".to_vec();
    running.fire(TARGET_MEMORY as i64, 0);
    running.faults()
}

#[test]
fn memory_that_is_not_ones_own_cannot() {
    for target in [
        "(char *)arg0",
        "(char *)alloca(8) + 8",
        "(char *)alloca(8) - 1",
    ] {
        let source = format!("BEGIN {{ this->p = {target}; *this->p = 'x'; }}");
        assert_eq!(faults(&source), [1], "{source}");
    }
}

#[test]
fn what_is_computed_too_large_is_an_error() {
    let source = |n: &str| {
        let size = format!("(this->n = strlen(copyinstr(arg0, 4)), this->n {n})");
        format!(
            "BEGIN {{ this->p = (char *)alloca(16); bcopy(copyin(arg0, 4), this->p + 8, {size}); }}"
        )
    };
    assert_eq!(faults(&source("+ 4")), []);
    assert_eq!(faults(&source("+ 5")), [1]); // beyond what is its own
    assert_eq!(faults(&source("+ 4093")), [5]);
    assert_eq!(faults(&source("- 5")), [5]);
}

/// What a script records when it fires once, as numbers of 32 bits.
fn numbers(source: &str) -> Vec<i32> {
    let input = Input {
        source,
        ..Input::default()
    };
    let (script, _) = compile(&input, &Bare).unwrap_or_else(|e| panic!("{source}: {e}"));
    let mut running = Running::new(&script);
    running.fire(0, 0);
    let record = running.records().remove(0);
    let words = record.as_chunks::<4>().0.iter();
    words.map(|w| i32::from_le_bytes(*w)).collect()
}

/// What was set is read again, and its neighbours stay.
#[test]
fn bit_fields_can_be_set() {
    let source = "struct bits { int low : 3; unsigned int middle : 7; int high : 22; };
        BEGIN { this->b = (struct bits *)alloca(4); *(uint32_t *)this->b = 0xffffffff;
            this->b->middle = 5; trace(*(uint32_t *)this->b);
            this->b->low = 2; this->b->high = -3; this->b->middle++;
            trace((int)this->b->low); trace((int)this->b->middle); trace((int)this->b->high); }";
    assert_eq!(numbers(source)[..4], [0xffff_fc2fu32 as i32, 2, 6, -3]);
}

/// Members of a script's own structures have the sizes of their types, and leave each other alone.
#[test]
fn members_of_own_structures_are_apart() {
    let source = "struct mixed { int8_t a; uint8_t b; int16_t c; int d; int64_t e; };
        struct mixed all; self struct mixed own;
        BEGIN { all.d = 7; all.c = -2; all.b = 200; all.a = -1; all.e = 9; all.d++; all.b += 100;
            self->own.c = -3; self->own.a = -4; self->own.b = 5; self->own.d = -6;
            trace((int)all.a); trace((int)all.b); trace((int)all.c); trace((int)all.d); trace((int)all.e);
            trace((int)self->own.a); trace((int)self->own.b); trace((int)self->own.c); trace((int)self->own.d); }";
    assert_eq!(numbers(source)[..9], [-1, 44, -2, 8, 9, -4, 5, -3, -6]);
}
