//! `dwell boost` as it is typed, on small programs made here: no root is needed.
#[allow(dead_code, unused_imports)] // a part of what the end-to-end tests need
#[path = "e2e/shared/mod.rs"]
mod shared;

use shared::{Scratch, bare_dwell};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// A folder with `prog`, which needs `libsay.so` beside it; removed at the end.
struct Made(Scratch);

const PROGRAM: &str = "#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\nint say(void);\n\
    int main(int argc, char **argv) { char path[4096] = {0};\n\
    if (argc > 1 && argv[1][0] == 'e') { readlink(\"/proc/self/exe\", path, 4095); printf(\"%zu\\n\", strlen(path)); }\n\
    if (argc > 1 && argv[1][0] == 's') pause();\n\
    printf(\"%s %d\\n\", argc > 1 ? argv[1] : \"none\", say()); return 3; }\n";

impl Made {
    fn new() -> Self {
        let made = Made(Scratch::new());
        made.library(1);
        fs::write(made.path("prog.c"), PROGRAM).expect("written");
        made.gcc(&["-o", "prog", "prog.c", "-L.", "-lsay", "-Wl,-rpath,$ORIGIN"]);
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The library, which answers with a number.
    fn library(&self, answer: u32) {
        let text = format!("int say(void) {{ return {answer}; }}");
        fs::write(self.path("say.c"), text).expect("written");
        self.gcc(&[
            "-shared",
            "-fPIC",
            "-o",
            "libsay.so.new",
            "say.c",
            "-Wl,-soname,libsay.so",
        ]);
        fs::rename(self.path("libsay.so.new"), self.path("libsay.so")).expect("renamed");
    }

    fn gcc(&self, args: &[&str]) {
        let status = Command::new("gcc")
            .args(args)
            .current_dir(self.0.path())
            .status();
        assert!(status.expect("gcc runs").success(), "gcc {args:?}");
    }

    /// The merged program, without a variable that cargo sets: under it the stock one would run.
    fn merged(&self, argument: &str) -> Command {
        let mut command = Command::new(self.path("merged"));
        command.arg(argument).env_remove("LD_LIBRARY_PATH");
        command
    }

    /// `dwell boost` with a cache of its own.
    fn boost(&self, args: &[&str]) -> Command {
        let mut command = bare_dwell();
        command
            .arg("boost")
            .args(args)
            .current_dir(self.0.path())
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("TMPDIR", self.0.path())
            .env_remove("LD_PRELOAD")
            .env_remove("LD_LIBRARY_PATH");
        command
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn run(command: &mut Command) -> Output {
    command.output().expect("it runs")
}

#[test]
fn builds_a_program_that_needs_its_library_no_more() {
    let made = Made::new();
    let output = run(&mut made.boost(&["build", "./prog", "-o", "merged", "--json"]));
    assert!(output.status.success(), "{}", err(&output));
    let answer: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON");
    assert_eq!(answer["merged"], serde_json::json!(["libsay.so"]));
    assert_eq!(answer["tried"][0]["verdict"], "same");
    fs::remove_file(made.path("libsay.so")).expect("removed");
    let output = run(&mut made.merged("x"));
    assert_eq!(
        (out(&output).as_str(), output.status.code()),
        ("x 1\n", Some(3))
    );
}

/// At level 1 the program calls its library itself, and does the same.
#[test]
fn calls_are_direct_at_level_1() {
    let made = Made::new();
    let build = ["build", "./prog", "-o", "merged", "--level", "1", "--json"];
    let output = run(&mut made.boost(&build));
    assert!(output.status.success(), "{}", err(&output));
    let answer: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON");
    let calls = &answer["direct"]["calls"];
    assert!(calls["direct"].as_u64() >= Some(1), "{calls}");
    let output = run(&mut made.merged("x"));
    assert_eq!(
        (out(&output).as_str(), output.status.code()),
        ("x 1\n", Some(3))
    );
    let text = run(&mut made.boost(&["plan", "./prog", "--level", "1"]));
    assert!(out(&text).contains("calls direct"), "{}", out(&text));
}

#[test]
fn plans_with_measured_times() {
    let made = Made::new();
    let output = run(&mut made.boost(&["plan", "./prog", "--json"]));
    assert!(output.status.success(), "{}", err(&output));
    let answer: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON");
    assert_eq!(answer["libraries"][0]["merged"], true);
    let techniques = answer["techniques"].as_array().expect("techniques");
    assert_eq!(techniques.len(), 6);
    assert!(techniques.iter().all(|t| t["applies_to"].is_string()));
    let ratio = answer["measured"]["ratio"].as_f64().expect("a ratio");
    assert!(ratio > 0.05 && ratio < 20.0, "{ratio}");
    let text = run(&mut made.boost(&["plan", "./prog"]));
    assert!(out(&text).contains("merged  libsay.so"), "{}", out(&text));
}

#[test]
fn refuses_by_name() {
    let made = Made::new();
    let refused = |args: &[&str]| {
        let output = run(&mut made.boost(args));
        assert!(!output.status.success(), "{args:?}: {}", out(&output));
        assert!(!made.path("merged").exists(), "{args:?} left a file");
        err(&output)
    };
    let build = ["build", "./prog", "-o", "merged"];
    let with = |more: &[&str]| refused(&[&build[..], more].concat());
    let one = with(&["--mode", "static", "--libs", "libsay.so"]);
    assert!(one.contains("use --mode static-nolibc"), "{one}");
    assert!(with(&["--level", "4"]).contains("give it by --profile"));
    assert!(with(&["--level", "3"]).contains("use --mode static"));
    assert!(with(&["--libs", "libz.so.1"]).contains("libsay.so"));
    // What tells the files apart is seen before the merged one gets its name.
    assert!(with(&["--test", "exe"]).contains("it is not used"));
    assert!(refused(&["build", "./prog", "-o", "libsay.so"]).contains("name another file"));
    assert!(refused(&["build", "no-such-program", "-o", "merged"]).contains("no such program"));
    fs::write(made.path("script"), "#!/bin/sh\n").expect("written");
    let mode =
        |name: &str, bits| fs::set_permissions(made.path(name), fs::Permissions::from_mode(bits));
    mode("script", 0o755).expect("mode");
    assert!(refused(&["build", "./script", "-o", "merged"]).contains("script run by /bin/sh"));
    mode("prog", 0o4755).expect("mode");
    assert!(with(&[]).contains("a set-user-ID bit"));
    let json = run(&mut made.boost(&["plan", "./prog", "--json"]));
    let answer: serde_json::Value = serde_json::from_str(&out(&json)).expect("JSON");
    assert_eq!(answer["refused"]["kind"], "privileged");
}

#[test]
fn runs_boosted_and_notices_a_changed_library() {
    let made = Made::new();
    let start = |more: &[(&str, &str)]| {
        let mut command = made.boost(&["run", "-v", "--", "./prog", "y"]);
        run(command.envs(more.iter().copied()))
    };
    for _ in 0..2 {
        let output = start(&[]);
        assert_eq!(
            (out(&output).as_str(), output.status.code()),
            ("y 1\n", Some(3)),
            "{}",
            err(&output)
        );
        assert!(err(&output).contains("runs boosted"), "{}", err(&output));
    }
    made.library(2);
    let output = start(&[]);
    assert_eq!(out(&output), "y 2\n", "{}", err(&output));
    assert!(err(&output).contains("runs boosted"), "{}", err(&output));
    let output = start(&[("LD_LIBRARY_PATH", "/nowhere")]);
    assert_eq!(out(&output), "y 2\n");
    assert!(
        err(&output).contains("as it is: LD_LIBRARY_PATH is set"),
        "{}",
        err(&output)
    );
    // A cache that others can write to is not run from.
    let folder = made.path("cache/dwell/boost");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("mode");
    let output = start(&[]);
    assert_eq!(out(&output), "y 2\n");
    assert!(
        err(&output).contains("can be changed by others"),
        "{}",
        err(&output)
    );
    // Without -v nothing is said.
    let output = run(&mut made.boost(&["run", "--", "./prog", "y"]));
    assert_eq!(
        (out(&output).as_str(), err(&output).as_str()),
        ("y 2\n", "")
    );
}

/// Killed at any instant, the file is the old one or the new one.
#[test]
fn a_half_written_file_is_never_visible() {
    let made = Made::new();
    let merged = made.path("merged");
    let whole = |path: &Path| {
        let output = run(Command::new(path).arg("x").env_remove("LD_LIBRARY_PATH"));
        assert_eq!(
            (out(&output).as_str(), output.status.code()),
            ("x 1\n", Some(3))
        );
    };
    for ms in 0..40 {
        let mut child = made
            .boost(&["build", "./prog", "-o", "merged"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(ms * 2));
        child.kill().expect("killed");
        child.wait().expect("waited for");
        if merged.exists() {
            whole(&merged);
        }
    }
    let output = run(&mut made.boost(&["build", "./prog", "-o", "merged"]));
    assert!(output.status.success(), "{}", err(&output));
    whole(&merged);
    let names = fs::read_dir(made.0.path()).expect("a folder").flatten();
    let left: Vec<_> = names
        .map(|e| e.file_name())
        .filter(|n| n.to_string_lossy().contains("dwell-new"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
