//! Scripts made to be too deep, too long or endless are refused, not followed.

use dwell_script::{Bare, Input, Tag, compile};

fn tag(source: &str) -> Option<Tag> {
    let input = Input {
        source,
        ..Input::default()
    };
    compile(&input, &Bare).err().map(|error| error.tag)
}

#[test]
fn nesting_is_bounded() {
    let deep = |open: &str, close: &str| {
        format!(
            "BEGIN {{ x = {}1{}; }}",
            open.repeat(50_000),
            close.repeat(50_000)
        )
    };
    for (open, close) in [
        ("(", ")"),
        ("-", ""),
        ("!", ""),
        ("a[", "]"),
        ("f(", ")"),
        ("(int)", ""),
        ("1 ? 2 : ", ""),
        ("x = ", ""),
        ("sizeof ", ""),
        ("*", ""),
        ("stringof(", ")"),
    ] {
        assert_eq!(tag(&deep(open, close)), Some(Tag::Syntax), "{open}");
    }
    for tail in [" + 1", "[1]", ".a", "->a", "++", ", 1", "(1)"] {
        assert_eq!(
            tag(&format!("BEGIN {{ x = y{}; }}", tail.repeat(50_000))),
            Some(Tag::Syntax),
            "{tail}"
        );
    }
    let declarations = [
        format!("{}int x; BEGIN {{ }}", "struct { ".repeat(50_000)),
        format!("int {}x; BEGIN {{ }}", "(*".repeat(50_000)),
        format!("int f{}; BEGIN {{ }}", "(int (".repeat(50_000)),
        format!("BEGIN {{ {} x = 1; }}", "if (1) { ".repeat(50_000)),
        format!(
            "BEGIN {{ {} x = 1; }}",
            "if (1) x = 2; else ".repeat(50_000)
        ),
    ];
    for source in declarations {
        assert_eq!(tag(&source), Some(Tag::Syntax), "{}", &source[..20]);
    }
}

#[test]
fn doubling_inlines_end() {
    let mut source = "inline int x0 = pid;\n".to_owned();
    for n in 1..60 {
        source.push_str(&format!("inline int x{n} = x{} + x{};\n", n - 1, n - 1));
    }
    source.push_str("BEGIN { trace(x59); }");
    assert_eq!(tag(&source), Some(Tag::Syntax));
}

#[test]
fn long_scripts_are_compiled() {
    let clauses: String = (0..2_000)
        .map(|n| format!("syscall::read:entry /pid == {n}/ {{ @a{n}[execname] = count(); }}\n"))
        .collect();
    assert_eq!(tag(&clauses), None);
    let sum = format!("BEGIN {{ x = {}1; }}", "1 + ".repeat(150));
    assert_eq!(tag(&sum), None);
}
