//! The language as `docs/d-language.md` shows it, and the scripts of `scripts/`: each runs, and says what is true.

use crate::common::{Scratch, dwell};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn test_program(name: &str) -> String {
    let programs =
        std::env::var("DWELL_TEST_PROGRAMS").expect("DWELL_TEST_PROGRAMS, see the Makefile");
    PathBuf::from(programs).join(name).display().to_string()
}

/// Blanks do not matter.
fn plain(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// The blocks of code of the page: language and text.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("\n```").skip(1).step_by(2);
    parts.filter_map(|block| block.split_once('\n')).collect()
}

/// A folder with the files of the page and the program `shop`.
fn shop() -> Scratch {
    let folder = Scratch::new();
    let page = std::fs::read_to_string(root().join("docs/d-language.md")).expect("the page");
    for (_, code) in blocks(&page) {
        let first = code.lines().next().unwrap_or_default();
        if let Some(name) = first.strip_prefix("/* file: ") {
            let name = name.split([' ', ':']).next().expect("a name");
            std::fs::write(folder.join(name), code).expect("a file");
        }
    }
    let include = format!("-I{}", root().join("include").display());
    let (source, program) = (folder.join("shop.c"), folder.join("shop"));
    let built = Command::new("gcc")
        .args(["-O2", "-g", &include, "-o"])
        .args([&program, &source])
        .status();
    assert!(built.expect("gcc runs").success());
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dwell"), folder.join("dwell")).expect("a link");
    folder
}

fn run(command: &mut Command) -> (String, Option<i32>) {
    let Output {
        stdout,
        stderr,
        status,
    } = command.output().expect("it runs");
    let text = [stdout, stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), status.code())
}

/// Every example of the page prints the lines that stand below it.
#[test]
#[ignore = "needs root"]
fn the_page_tells_the_truth() {
    let folder = shop();
    let page = std::fs::read_to_string(root().join("docs/d-language.md")).expect("the page");
    let path = format!(
        "{}:{}",
        folder.join("").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let (mut examples, mut wrong) = (0, Vec::new());
    for pair in blocks(&page).windows(2) {
        let [("sh", command), (expected_kind, expected)] = pair else {
            continue;
        };
        assert_eq!(*expected_kind, "text", "what {command} prints is not told");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .current_dir(folder.join(""))
            .env("PATH", &path);
        let (printed, _) = run(&mut shell);
        let printed = plain(&printed);
        examples += 1;
        for line in plain(expected).lines() {
            if !printed.contains(line) {
                wrong.push(format!("{command}\nshould print {line:?}:\n{printed}\n"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(examples >= 20, "{examples} examples");
}

/// Static probes that ask whether somebody watches: the kernel counts us, and takes us away again.
#[test]
#[ignore = "needs root"]
fn programs_learn_that_they_are_watched() {
    let folder = Scratch::new();
    let code = r#"
        #include <dwell/sdt.h>
        #include <stdio.h>
        int main(void)
        {
            int asked = 0;
            for (int i = 0; i < 1000; i++)
                if (DWELL_PROBE_ENABLED(ask, dear)) {
                    asked++;
                    DWELL_PROBE(ask, dear, i, -i, (char)i);
                }
            printf("asked %d\n", asked);
        }"#;
    std::fs::write(folder.join("ask.c"), code).expect("a file");
    let include = format!("-I{}", root().join("include").display());
    let built = Command::new("gcc")
        .args(["-O2", &include, "-o"])
        .args([folder.join("ask"), folder.join("ask.c")])
        .status();
    assert!(built.expect("gcc runs").success());
    let ask = folder.join("ask").display().to_string();
    let script = "ask$target:::dear { @n = count(); @sum = sum(arg0 + (int)arg1); @least = min((char)arg2); }
        END { printa(\"%@d %@d %@d\", @n, @sum, @least); }";
    let (printed, code) = run(&mut dwell(&["trace", "-q", "-n", script, "-c", &ask]));
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("asked 1000"), "{printed}");
    assert!(printed.contains("1000 0 -128"), "{printed}");
    let (alone, _) = run(&mut Command::new(&ask));
    assert!(alone.contains("asked 0"), "{alone}");
}

/// A script, its arguments, a command, and what it prints.
type Case<'a> = (&'a str, &'a [&'a str], String, &'a [&'a str]);

/// Each script of `scripts/` is loaded and run on a program, and finds what is known to be there.
#[test]
#[ignore = "needs root"]
fn the_scripts_find_what_is_there() {
    let folder = shop();
    let shop = folder.join("shop").display().to_string();
    let (busy, sales) = (format!("{shop} 3000"), format!("{shop} 30"));
    let traced = format!("{} 50 2", test_program("traced"));
    let signal = "bash -c 'sleep 5 & kill -9 $!; wait'".to_owned();
    let sql = "sqlite3 :memory: 'create table t(a); insert into t values(1); select * from t'";
    let cases: &[Case] = &[
        (
            "func-latency.d",
            &["price"],
            sales.clone(),
            &["shop`sell", "Distribution"],
        ),
        (
            "func-calls.d",
            &["traced"],
            traced.clone(),
            &["step", "5500", "greet"],
        ),
        (
            "call-tree.d",
            &[],
            sales.clone(),
            &["-> price", "<- price", "-> sell"],
        ),
        (
            "malloc-sizes.d",
            &[],
            sales.clone(),
            &["malloc, bytes", "64 |"],
        ),
        (
            "malloc-owners.d",
            &[],
            sales.clone(),
            &["OWNER", "shop`sell"],
        ),
        (
            "slow-opens.d",
            &["0"],
            "cat /etc/hostname".into(),
            &["/etc/hostname"],
        ),
        (
            "opens.d",
            &[],
            "cat /etc/hostname".into(),
            &["1 /etc/hostname", "/etc\n"],
        ),
        ("lock-order.d", &[], sql.into(), &["HELD"]),
        (
            "lock-hold.d",
            &[],
            sql.into(),
            &["libsqlite3", "Distribution"],
        ),
        (
            "queue-length.d",
            &["sell", "price"],
            sales.clone(),
            &["longest: 1", "now: 0"],
        ),
        ("page-faults.d", &[], busy.clone(), &["`"]),
        ("who-signals.d", &[], signal, &["SENDER", "bash", " 9\n"]),
        (
            "syscalls.d",
            &[],
            sales.clone(),
            &["CALL", "write", "clock_nanosleep"],
        ),
        ("syscall-errors.d", &[], "cat /nowhere".into(), &["openat"]),
        (
            "io-sizes.d",
            &[],
            "dd if=/dev/zero of=/dev/null bs=4096 count=7".into(),
            &["read, descriptor 0", "4096 |@"],
        ),
        (
            "execs.d",
            &[],
            "sh -c 'env true; env false'".into(),
            &["/true", "/false"],
        ),
        ("sleeps.d", &[], sales.clone(), &["ns", "1048576 |"]),
        ("futex-waits.d", &[], test_program("pingpong"), &["WORD"]),
        (
            "hot-code.d",
            &[],
            "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'".into(),
            &["`"],
        ),
        (
            "switches.d",
            &[],
            "python3 -c 'import time; [time.sleep(0.001) for _ in range(500)]'".into(),
            &["python3"],
        ),
        (
            "static-probes.d",
            &["shop"],
            sales.clone(),
            &["sale-done", "30", "price, first argument"],
        ),
        (
            "slow-requests.d",
            &["sell", "2000"],
            sales.clone(),
            &["sell(", "clock_nanosleep", "discarded", "28"],
        ),
        (
            "watch-strings.d",
            &["sell", "3"],
            sales.clone(),
            &["ali", "10"],
        ),
    ];
    let mut untried: Vec<String> = std::fs::read_dir(root().join("scripts"))
        .expect("the folder")
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let mut wrong = Vec::new();
    for (name, arguments, command, expected) in cases {
        untried.retain(|other| other != name);
        let script = root().join("scripts").join(name).display().to_string();
        let mut words = vec!["trace", "-s", &script, "-c", command];
        if *name == "call-tree.d" {
            words.push("-F");
        }
        words.extend(*arguments);
        let (printed, code) = run(&mut dwell(&words));
        if code != Some(0) || printed.contains("drop") {
            wrong.push(format!("{name}: {code:?}: {printed}"));
        }
        for text in expected.iter().filter(|text| !printed.contains(**text)) {
            wrong.push(format!("{name} does not print {text:?}: {printed}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(untried.is_empty(), "not tried: {untried:?}");
}
