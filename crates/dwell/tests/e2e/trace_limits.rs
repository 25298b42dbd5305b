//! What scripts may be given: strings of any bytes, many functions in one clause, sizes that are tiny, many new keys at once.

use crate::common::{Scratch, dwell, program};
use std::process::Output;

/// What was printed, byte by byte, and what was said.
fn run(args: &[&str]) -> (Vec<u8>, String, Option<i32>) {
    let Output {
        stdout,
        stderr,
        status,
    } = dwell(args).output().expect("dwell runs");
    let errors = String::from_utf8_lossy(&stderr).into_owned();
    (stdout, errors, status.code())
}

#[test]
#[ignore = "needs root"]
fn strings_keep_their_bytes() {
    let folder = Scratch::new();
    let script = folder.join("bytes.d");
    let text = b"BEGIN { printf(\"[\xff\xfe\xc3\xa4|%s|\\377\\x80]\", \"\xe2\x82\\376\"); @[\"\\377\"] = count();
        @[\"\\376\"] = count(); printf(\"%d\", \"\\377\" > \"z\"); exit(0); }";
    std::fs::write(&script, text).expect("a file");
    let script = script.display().to_string();
    for more in [&[][..], &["-C"]] {
        let (out, errors, code) = run(&[&["trace", "-q", "-s", &script], more].concat());
        assert_eq!(code, Some(0), "{errors}");
        let printed = b"[\xff\xfe\xc3\xa4|\xe2\x82\xfe|\xff\x80]1\n";
        assert_eq!(&out[..printed.len()], printed, "{more:?}");
        let keys: Vec<u8> = out[printed.len()..]
            .iter()
            .copied()
            .filter(|byte| !byte.is_ascii())
            .collect();
        assert_eq!(keys, b"\xfe\xff", "in their order");
    }
}

/// With keys that do not fit, what was counted and what was reported as dropped is all there was.
#[test]
#[ignore = "needs root"]
fn tiny_sizes_are_obeyed_and_drops_told() {
    let command = format!("{} 3 1", program("traced"));
    for engine in ["kernel", "process"] {
        let text = "int n; int m; pid$target::step:entry { n++; @[n] = count(); a[n] = 1; }
            END { printf(\"all %d\\n\", n); printa(\"%@d\\n\", @); }";
        let sizes = ["-x", "aggsize=1k", "-x", "dynvarsize=256"];
        let (out, errors, code) = run(&[
            &[
                "trace", "-q", "--engine", engine, "-c", &command, "-n", text,
            ],
            &sizes[..],
        ]
        .concat());
        assert_eq!(code, Some(0), "{errors}");
        let out = String::from_utf8(out).expect("text");
        let all: u64 = out
            .lines()
            .find_map(|line| line.strip_prefix("all "))
            .expect("END ran")
            .parse()
            .expect("a number");
        assert_eq!(all, 165, "{engine}: {out}");
        let printed = out.lines().filter(|line| *line == "1").count() as u64;
        assert!(printed > 0 && printed < all, "{engine}: {out}");
        assert_eq!(
            printed + drops(&errors, "aggregation drop"),
            all,
            "{engine}: {errors}"
        );
        let stored = all - drops(&errors, "dynamic variable drop");
        assert!(stored > 0 && stored < 64, "{engine}: {errors}");
    }
}

/// The sum of what such messages say.
fn drops(errors: &str, what: &str) -> u64 {
    let lines = errors.lines().filter(|line| line.contains(what));
    let number = |line: &str| line.split(' ').nth(1)?.parse::<u64>().ok();
    lines.filter_map(number).sum()
}

#[test]
#[ignore = "needs root"]
fn what_has_no_room_at_all_is_refused() {
    for (option, script) in [
        ("aggsize=8", "BEGIN { @ = count(); exit(0); }"),
        ("dynvarsize=8", "BEGIN { a[1] = 1; exit(0); }"),
        ("bufsize=8", "BEGIN { trace(1); exit(0); }"),
    ] {
        let (_, errors, code) = run(&["trace", "-x", option, "-n", script]);
        assert_eq!(code, Some(1), "{option}");
        let told = "could not enable tracing: Enabling exceeds size of buffer";
        assert!(errors.contains(told), "{option}: {errors}");
    }
}

/// A string has so many bytes, its zero included, wherever it comes from.
#[test]
#[ignore = "needs root"]
fn strings_end_at_their_size() {
    let text = "BEGIN { s = \"abcdefgh\"; trace(s); trace(strlen(s)); trace(strjoin(\"ab\", \"cdef\")); trace(lltostr(12345678));
        trace(probename); trace(probeprov); this->a = (uint32_t *)alloca(4); *this->a = 0x01010101; trace(inet_ntoa(this->a));
        a[\"abcdX\"] = 3; trace(a[\"abcdY\"]); trace(\"abcdX\" == \"abcdZ\"); exit(0); }";
    let (out, errors, code) = run(&["trace", "-q", "-x", "strsize=5", "-n", text]);
    assert_eq!(code, Some(0), "{errors}");
    let out = String::from_utf8(out).expect("text");
    let expected = "abcd4abcd1234BEGIdtra1.1.31";
    let out: String = out.split_whitespace().collect();
    assert_eq!(out, expected);
}

/// A timer, in whose interrupt the kernel has little memory to give, makes several keys at once.
#[test]
#[ignore = "needs root"]
fn timers_make_many_keys_at_once() {
    let text = "int i; tick-10ms /i < 10/ { @a = avg(i); @b = sum(i); @c = min(i); @d = max(i); @e = quantize(i);
        @k[i] = sum(1); @l[i] = sum(2); @m[i] = max(3); i++; } tick-10ms /i == 10/ { exit(0); }
        END { printa(\"%@d %@d %@d %@d\\n\", @a, @b, @c, @d); printa(\"%d %@d %@d %@d\\n\", @k, @l, @m); }";
    let (out, errors, code) = run(&["trace", "-q", "-n", text]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(!errors.contains("drop"), "{errors}");
    let out = String::from_utf8(out).expect("text");
    assert!(out.contains("4 45 0 9\n"), "{out}");
    for i in 0..10 {
        assert!(out.contains(&format!("\n{i} 1 2 3\n")), "{i}: {out}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_hundred_distributions_in_one_clause_load() {
    let each = |n| format!("@q{n} = quantize(arg0 + {n});");
    let all: String = (0..100).map(each).collect();
    let command = format!("{} 1 1", program("traced"));
    for engine in ["kernel", "process"] {
        let text =
            format!("pid$target::step:entry {{ {all} }} END {{ printa(@q0); printa(@q99); }}");
        let (out, errors, code) = run(&[
            "trace", "-q", "--engine", engine, "-c", &command, "-n", &text,
        ]);
        assert_eq!(code, Some(0), "{engine}: {errors}");
        assert!(!errors.contains("drop"), "{engine}: {errors}");
        let out = String::from_utf8(out).expect("text");
        // 55 calls with 0 to 9, so that 99 more are from 99 to 108.
        assert!(
            out.contains("64 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 55"),
            "{engine}: {out}"
        );
    }
}
