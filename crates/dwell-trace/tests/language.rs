//! D's functions in the kernel: the verifier takes them, and they give what `dwell-script` tests by the interpreter.
//! Needs root.
use dwell_script::schema::RecordHeader;
use dwell_script::{Bare, Input, compile};
use dwell_trace::{Session, Settings};
use std::time::{Duration, Instant};

/// What BEGIN records for an expression, and how long it took to load and run.
fn traced(expression: &str) -> (Vec<u8>, Duration) {
    let source = format!("BEGIN {{ trace({expression}); }}");
    let input = Input {
        source: &source,
        ..Input::default()
    };
    let (script, _) = compile(&input, &Bare).unwrap_or_else(|e| panic!("{source}: {e}"));
    let began = Instant::now();
    let session = Session::new(&script, &Settings::default(), &mut Vec::new());
    let mut session = session.unwrap_or_else(|e| panic!("{source}: {e}"));
    session.start().expect("it runs");
    let took = began.elapsed();
    let mut records = Vec::new();
    session
        .drain(&mut |record| records.push(record[size_of::<RecordHeader>()..].to_vec()))
        .expect("records are read");
    assert_eq!(records.len(), 1, "{source}");
    (records.remove(0), took)
}

const TEXTS: &[(&str, &str)] = &[
    ("strchr(\"hello\", 'l')", "llo"),
    ("strrchr(execname, 'x')", ""),
    ("strrchr(\"/a/b/c\", '/')", "/c"),
    ("strstr(\"good morning\", \"mor\")", "morning"),
    ("strstr(probename, \"GI\")", "GIN"),
    ("strstr(\"BEGINNING\", probename)", "BEGINNING"),
    ("substr(\"foobarbaz\", -6, 3)", "bar"),
    ("substr(probename, 1, -1)", "EGI"),
    ("substr(probename, index(probename, \"G\"))", "GIN"),
    (
        "strjoin(strjoin(probename, \"-\"), lltostr(-42))",
        "BEGIN--42",
    ),
    ("strtok(\"/usr/lib\", \"/\")", "usr"),
    (
        "(strtok(\"a,b;c\", \",;\"), strtok(NULL, \",;\"), strtok(NULL, \",;\"))",
        "c",
    ),
    ("basename(\"/usr/lib/\")", "lib"),
    ("dirname(\"/usr/lib/libc.so\")", "/usr/lib"),
    (
        "basename(dirname(strjoin(\"/usr/lib/\", probename)))",
        "lib",
    ),
    ("toupper(tolower(probename))", "BEGIN"),
    ("lltostr(255, 16)", "0xff"),
    ("lltostr(5, 2)", "101"),
    ("lltostr(strtoll(\" -0x1f\", 16))", "-31"),
    (
        "lltostr(index(\"abcabc\", \"c\", 3) * 10 + rindex(\"abcabc\", \"a\"))",
        "53",
    ),
    (
        "(this->a = (uint32_t *)alloca(4), *this->a = htonl(0xc0a80a01), inet_ntoa(this->a))",
        "192.168.10.1",
    ),
    (
        "(this->p = (char *)alloca(8), this->p[0] = 'h', this->p[1] = 'i', stringof(this->p))",
        "hi",
    ),
    ("lltostr(speculation())", "1"),
];

#[test]
#[ignore = "needs root"]
fn functions_on_strings_load_and_give_what_they_should() {
    for (expression, expected) in TEXTS {
        let (bytes, took) = traced(expression);
        let end = bytes.iter().position(|b| *b == 0).expect("an end");
        assert_eq!(
            String::from_utf8_lossy(&bytes[..end]),
            *expected,
            "{expression}"
        );
        println!("{took:?} {expression}");
    }
}
