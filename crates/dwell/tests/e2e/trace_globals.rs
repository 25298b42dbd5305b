//! Variables of a target by name: every value that a script prints is what gdb prints at the same place.

use crate::common::dwell;
use std::path::PathBuf;
use std::process::Command;

/// The types of `globals.h`.
const TYPES: [&str; 10] = [
    "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "c", "b",
];

/// Integers of `globals.c`: as gdb and as D names them.
const INTEGERS: &[&str] = &[
    "bits.one",
    "bits.three",
    "bits.low",
    "bits.wide",
    "bits.flag",
    "bits.shade",
    "bits.last",
    "packed.first",
    "packed.odd",
    "packed.across",
    "packed.bits",
    "packed.end",
    "number.whole",
    "number.bytes[0]",
    "number.bytes[3]",
    "number.low",
    "number.high",
    "first.number.whole",
    "first.shade",
    "first.point.x",
    "first.point.y",
    "first.point.inner.deep",
    "first.either",
    "first.or[7]",
    "first.text[3]",
    "first.next->point.y",
    "first.next->number.bytes[1]",
    "first.next->next",
    "by_pointer->point.inner.deep",
    "by_pointer->next->shade",
    "pointers[0]->point.inner.deep",
    "pointers[1]->either",
    "nodes[0].number.whole",
    "nodes[2].number.whole",
    "nodes[2].point.x",
    "nodes[1].next->next->point.x",
    "nodes[2].next->number.whole",
    "nodes[1].text[0]",
    "shade",
    "wide",
    "text[4]",
    "full[3]",
    "strings[1][2]",
    "lines[1][0]",
    "nothing",
    "twin",
    "thread_node.point.y",
    "thread_node.next->point.inner.deep",
    "thread_node.shade",
    "thread_text[3]",
    "lib_nodes[0].either",
    "lib_nodes[1].shade",
    "lib_nodes[1].text[3]",
    "lib_nodes[1].next->or[0]",
    "lib_copied",
    "only_here",
    "sizeof(bits)",
    "sizeof(packed)",
    "sizeof(struct node)",
    "sizeof(node_t)",
    "sizeof(union number)",
    "sizeof(enum wide)",
    "sizeof(first.point)",
    "sizeof(nodes)",
    "&nodes[2] - &nodes[0]",
    "(long)&first.ratio - (long)&first",
    "((node_t *)&second)->point.y",
    "((union number *)&number)->high",
    "*(short *)&g_i64",
    "(char)g_i32",
    "g_i32 + s_i16 * 2",
    "first.next == &second",
    "*strings[2]",
];

/// Texts of it.
const TEXTS: &[&str] = &[
    "text",
    "string",
    "strings[0]",
    "strings[1]",
    "strings[2]",
    "lines[0]",
    "lines[1]",
    "first.name",
    "first.text",
    "first.next->name",
    "first.next->text",
    "by_pointer->next->name",
    "pointers[1]->name",
    "nodes[2].name",
    "nodes[1].next->name",
    "thread_node.name",
    "thread_node.text",
    "thread_text",
    "lib_nodes[1].name",
    "lib_nodes[1].text",
    "lib_text",
];

/// Floating-point numbers of it.
const FLOATS: &[&str] = &[
    "single",
    "twice",
    "first.ratio",
    "second.ratio",
    "by_pointer->next->ratio",
    "lib_nodes[1].ratio",
    "thread_node.ratio",
];

/// Of `globals_cxx.cpp`.
const CXX: &[(&str, &str)] = &[
    ("outer::plain", "`outer::plain"),
    ("outer::inner::deep", "`outer::inner::deep"),
    (
        "outer::inner::Derived::count",
        "`outer::inner::Derived::count",
    ),
    (
        "outer::inner::Derived::later",
        "`outer::inner::Derived::later",
    ),
    ("outer::inner::derived.own", "`outer::inner::derived.own"),
    (
        "outer::inner::derived.of_base",
        "`outer::inner::derived.of_base",
    ),
    (
        "outer::inner::reference.own",
        "`outer::inner::reference->own",
    ),
    ("(long)outer::color", "`outer::color"),
    ("outer::of_int.value", "`outer::of_int.value"),
    ("outer::nested.value.value", "`outer::nested.value.value"),
    ("'outer::Box<int>::shared'", "`\"outer::Box<int>::shared\""),
    ("'(anonymous namespace)::hidden'", "`hidden"),
    ("truth", "`truth"),
    ("wide", "`wide"),
    ("mine", "`mine"),
    ("head.value", "`head.value"),
    ("head.next->value", "`head.next->value"),
    (
        "numbers._M_impl._M_start[1]",
        "`numbers._M_impl._M_start[1]",
    ),
    (
        "(long)numbers._M_impl._M_finish - (long)numbers._M_impl._M_start",
        "(int64_t)`numbers._M_impl._M_finish - (int64_t)`numbers._M_impl._M_start",
    ),
    (
        "short_text._M_string_length",
        "`short_text._M_string_length",
    ),
    (
        "sizeof(outer::inner::Derived)",
        "sizeof(`outer::inner::derived)",
    ),
    ("((Node *)&last)->value", "((struct Node *)&`last)->value"),
];

fn program(name: &str) -> String {
    let programs =
        std::env::var("DWELL_TEST_PROGRAMS").expect("DWELL_TEST_PROGRAMS, see the Makefile");
    PathBuf::from(programs).join(name).display().to_string()
}

/// An expression, and how its value is printed.
struct Asked {
    gdb: String,
    d: String,
    /// For both: `%ld`, `%s`, `%f`.
    conversion: &'static str,
}

impl Asked {
    fn integer(gdb: &str, d: &str) -> Asked {
        Asked {
            gdb: format!("(long)({gdb})"),
            d: format!("(int64_t)({d})"),
            conversion: "%ld",
        }
    }
}

/// The words of an expression that are variables' get the quote that D has before them.
fn in_d(expression: &str) -> String {
    const NO_VARIABLES: [&str; 12] = [
        "sizeof", "struct", "union", "enum", "long", "short", "char", "node", "node_t", "int",
        "unsigned", "either",
    ];
    let mut text = String::new();
    let mut before = ' ';
    let mut last_word = "";
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        let word_end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        if c.is_ascii_alphabetic() {
            let word = &rest[..word_end];
            let is_member = before == '.' || before == '>';
            let is_tag = ["struct", "union", "enum"].contains(&last_word);
            if !is_member && !is_tag && !NO_VARIABLES.contains(&word) {
                text.push('`');
            }
            text.push_str(word);
            (last_word, before) = (word, 'a');
            rest = &rest[word_end..];
            continue;
        }
        let length = if c.is_ascii_digit() { word_end } else { 1 };
        text.push_str(&rest[..length]);
        if c != ' ' {
            before = c;
            last_word = if c.is_ascii_digit() { "0" } else { last_word };
        }
        if !" (".contains(c) {
            last_word = "";
        }
        rest = &rest[length..];
    }
    text
}

/// Everything that is asked of `globals.c`.
fn of_globals() -> Vec<Asked> {
    let mut integers: Vec<String> = INTEGERS.iter().map(|name| (*name).into()).collect();
    for ty in TYPES {
        for name in ["g_", "s_", "*p_", "**pp_", "k_", "v_", "t_", "ts_"] {
            integers.push(format!("{name}{ty}"));
        }
        for name in ["lib_g_", "lib_s_", "lib_t_"] {
            integers.push(format!("{name}{ty}"));
        }
        integers.extend([
            format!("a_{ty}[0]"),
            format!("a_{ty}[2]"),
            format!("m_{ty}[0][1]"),
            format!("m_{ty}[1][2]"),
        ]);
    }
    let mut asked: Vec<Asked> = integers
        .iter()
        .map(|name| Asked::integer(name, &in_d(name)))
        .collect();
    asked.extend(TEXTS.iter().map(|name| Asked {
        gdb: (*name).into(),
        d: in_d(name),
        conversion: "%s",
    }));
    asked.extend(FLOATS.iter().map(|name| Asked {
        gdb: format!("(double)({name})"),
        d: in_d(name),
        conversion: "%f",
    }));
    let twins = [
        ("'globals_twin.c'::twin", "`\"globals_twin.c::twin\""),
        ("'globals_lib.c'::twin", "`libglobals.so`twin"),
        ("'globals_twin.c'::twin_set::calls", "`twin_set::calls"),
        ("lib_copied", "`libglobals`lib_copied"),
        ("g_i32", "`a.out`g_i32"),
    ];
    asked.extend(twins.map(|(gdb, d)| Asked::integer(gdb, d)));
    asked
}

/// What gdb prints of each, when `all_set` is called.
fn by_gdb(program: &str, asked: &[Asked]) -> Vec<String> {
    let mut command = Command::new("gdb");
    command.args(["-q", "-nx", "-batch", "-ex", "set debuginfod enabled off"]);
    command.args([
        "-ex",
        "set language auto",
        "-ex",
        "break all_set",
        "-ex",
        "run",
    ]);
    for (
        number,
        Asked {
            gdb, conversion, ..
        },
    ) in asked.iter().enumerate()
    {
        command.args([
            "-ex",
            &format!("printf \"={number} {conversion}\\n\", {gdb}"),
        ]);
    }
    let output = command.arg(program).output().expect("gdb runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    answers(&text, asked, &format!("{text}{errors}"))
}

/// What a script prints of each.
fn by_dwell(program: &str, asked: &[Asked]) -> Vec<String> {
    let mut script = String::new();
    for (number, Asked { d, conversion, .. }) in asked.iter().enumerate() {
        if number % 50 == 0 {
            script.push_str(if number == 0 { "" } else { "}\n" });
            script.push_str("pid$target::all_set:entry {\n");
        }
        script.push_str(&format!("printf(\"={number} {conversion}\\n\", {d});\n"));
    }
    script.push('}');
    let output = dwell(&["trace", "-q", "-n", &script, "-c", program]).output();
    let output = output.expect("dwell runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    answers(&text, asked, &errors)
}

/// The lines `=NUMBER VALUE`, by number.
fn answers(text: &str, asked: &[Asked], all: &str) -> Vec<String> {
    let answer = |(number, asked): (usize, &Asked)| {
        let mark = format!("={number} ");
        let found = text.lines().find_map(|line| line.strip_prefix(&mark));
        let found = found.unwrap_or_else(|| panic!("{} has no value:\n{all}", asked.gdb));
        found.trim_end().to_owned()
    };
    asked.iter().enumerate().map(answer).collect()
}

fn compare(name: &str, asked: &[Asked]) {
    let program = program(name);
    let (theirs, ours) = (by_gdb(&program, asked), by_dwell(&program, asked));
    let all = asked.iter().zip(theirs.iter().zip(&ours));
    let wrong: Vec<String> = all
        .filter(|(_, (theirs, ours))| theirs != ours)
        .map(|(asked, (theirs, ours))| format!("{}: gdb {theirs}, dwell {ours}", asked.gdb))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
#[ignore = "needs root"]
fn variables_of_c_are_what_gdb_prints() {
    let asked = of_globals();
    assert!(asked.len() >= 200, "{}", asked.len());
    for name in ["globals", "globals-nopie", "globals-split"] {
        compare(name, &asked);
    }
}

#[test]
#[ignore = "needs root"]
fn variables_of_cxx_are_what_gdb_prints() {
    let asked: Vec<Asked> = CXX.iter().map(|(gdb, d)| Asked::integer(gdb, d)).collect();
    compare("globals-cxx", &asked);
}

/// What a script prints of a program.
fn printed(text: &str, name: &str) -> (String, String) {
    let command = program(name);
    let output = dwell(&["trace", "-q", "-n", text, "-c", &command]).output();
    let output = output.expect("dwell runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

/// The program calls them with these.
#[test]
#[ignore = "needs root"]
fn arguments_have_their_types_and_places() {
    let cases = [
        (
            "pid$target::mixed:entry { printf(\"=%d %d %ld %d %d %d %d\\n\", args[1], args[3], args[5], args[6], args[7], args[8], args[10]); }",
            "globals",
            "=-3 -4 -8 9 -10 11 -13",
        ),
        (
            "pid$target::mixed:return { printf(\"=%d\\n\", args[1]); }",
            "globals",
            "=197",
        ),
        (
            "pid$target::hidden:entry { printf(\"=%d %d\\n\", args[0], args[1]); }",
            "globals",
            "=0 42",
        ),
        (
            "pid$target::all_set:entry { printf(\"=%s %d %d\\n\", args[4], args[3] == BLUE, args[1]->next->point.y); }",
            "globals",
            "=a name 1 -2",
        ),
        (
            "pid$target::\"Shape::area\":entry { printf(\"=%d %d\\n\", args[0]->sides, args[1]); }",
            "globals-cxx",
            "=4 5",
        ),
        (
            "pid$target::\"over(Node const*)\":entry { printf(\"=%d\\n\", args[0]->value); }",
            "globals-cxx",
            "=16",
        ),
        (
            "pid$target::all_set:entry { printf(\"=%d %d\\n\", `g_i32, `twin); }",
            "globals-bare",
            "=-2000000001 11",
        ),
        (
            "pid$target::all_set:entry { printf(\"=%s %d\\n\", stringof(`full), `text == \"characters in an array\"); }",
            "globals",
            "=full 1",
        ),
        (
            "pid$target::all_set:entry { printf(\"=%s %d\\n\", curthread->comm, curthread->tgid == pid); }",
            "globals",
            "=globals 1",
        ),
    ];
    for (text, name, wanted) in cases {
        let (out, errors) = printed(text, name);
        let found = out.lines().find(|line| line.starts_with('='));
        assert_eq!(found, Some(wanted), "{text}\n{out}{errors}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_cannot_be_had_is_refused_by_name() {
    let cases = [
        ("mixed:entry { trace(args[0]); }", "floating-point"),
        ("mixed:entry { trace(args[2]); }", "by value"),
        ("all_set:entry { trace(`g_i3); }", "did you mean g_i8?"),
        ("all_set:entry { trace(args[5]); }", "D_ARGS_IDX"),
    ];
    for (text, wanted) in cases {
        let (_, errors) = printed(&format!("pid$target::{text}"), "globals");
        assert!(errors.contains(wanted), "{text}: {errors}");
    }
    let (_, errors) = printed("pid$target::over:entry { trace(args[0]); }", "globals-cxx");
    assert!(errors.contains("D_ARGS_MULTI"), "{errors}");
}
