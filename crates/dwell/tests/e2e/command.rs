//! The command line: what a launched command keeps, how dwell ends with it, and what needs no
//! privilege.

use crate::robust_support::*;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const COMMANDS: [&str; 16] = [
    "record",
    "report",
    "view",
    "findings",
    "whatif",
    "diff",
    "import",
    "locks",
    "memory",
    "export",
    "top",
    "functions",
    "doctor",
    "bench",
    "completions",
    "man",
];

#[test]
fn every_command_explains_itself() {
    let help = run(dwell().arg("--help")).good().text();
    assert!(help.contains("Examples:"), "{help}");
    for name in COMMANDS {
        assert!(help.contains(name), "{name} is not in the overview");
        for flag in ["--help", "-h"] {
            let text = run(dwell().args([name, flag])).good().text();
            let first = text.lines().next().unwrap_or_default();
            assert!(
                first.split(' ').count() >= 3,
                "{name}: {first:?} explains little"
            );
            assert!(text.contains(&format!("Usage: dwell {name}")), "{text}");
            let undescribed = undescribed_options(&text);
            assert!(
                undescribed.is_empty(),
                "{name}: {undescribed:?} say nothing"
            );
        }
    }
    for name in ["record", "export"] {
        let text = run(dwell().args([name, "--help"])).good().text();
        assert!(text.contains("Examples:"), "{name}: {text}");
    }
}

/// Options in a help text without a word about them, in the same line or the next.
fn undescribed_options(help: &str) -> Vec<&str> {
    let lines: Vec<&str> = help.lines().collect();
    let bare = |i: &usize| {
        let line = lines[*i].trim();
        let described = line
            .split_once("  ")
            .is_some_and(|(_, words)| !words.trim().is_empty());
        let below = lines
            .get(i + 1)
            .is_some_and(|next| next.starts_with("          "));
        // A value of an option: `- name: words`.
        let value = line.starts_with("- ") && line.contains(": ");
        line.starts_with('-') && !value && !described && !below
    };
    (0..lines.len()).filter(bare).map(|i| lines[i]).collect()
}

#[test]
fn without_arguments_it_helps() {
    let ran = run(&mut dwell());
    assert_eq!(ran.code(), 2);
    assert!(ran.text().contains("Usage: dwell"));
}

#[test]
fn wrong_usage_is_told() {
    for (args, cause) in [
        (&["--no-such-option"][..], "--no-such-option"),
        (&["recrod", "-p", "1"], "recrod"),
        (&["record", "-p", "1", "-a"], "cannot be used with"),
        (&["record", "-p", "1", "--", "true"], "cannot be used with"),
        (&["record", "-p", "one"], "invalid value 'one'"),
        (&["record", "-a", "--duration", "5 parsecs"], "10s"),
        (&["record", "-a", "--frequency", "0"], "1..=10000"),
        (&["export", "--to", "gif"], "folded"),
        (&["completions", "tcsh"], "bash"),
    ] {
        let ran = run(dwell().args(args));
        assert_eq!(ran.code(), 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(cause), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty());
    }
    let ran = run(dwell().arg("record"));
    ran.told("nothing to record").told_remedy("-p");
}

trait Remedy {
    fn told_remedy(self, remedy: &str);
}

impl Remedy for Ran {
    #[track_caller]
    fn told_remedy(self, remedy: &str) {
        assert!(self.stderr.contains(remedy), "{}", self.stderr);
    }
}

#[test]
fn completions_and_manual_are_usable() {
    let folder = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(dwell().args(["completions", shell])).good().text();
        for name in COMMANDS {
            assert!(script.contains(name), "{shell}: {name}");
        }
        fs::write(folder.join(shell), script).expect("write");
    }
    let script = folder.join("bash");
    // Asks bash what it would offer after `dwell re`.
    let ask = "source \"$0\"; COMP_WORDS=(dwell re); COMP_CWORD=1; _dwell dwell re dwell; echo \"${COMPREPLY[*]}\"";
    let offered = run(Command::new("bash").arg("-c").arg(ask).arg(&script))
        .good()
        .text();
    assert_eq!(offered.trim(), "record report");
    let manual = run(dwell().arg("man")).good().text();
    assert!(manual.contains(".TH dwell 1"), "no title");
    for name in COMMANDS {
        assert!(manual.contains(name), "{name}");
    }
}

/// `dwell … | head`: whoever has read enough is no reason to fail.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for args in [
        &["--help"][..],
        &["completions", "bash"],
        &["man"],
        &["doctor"],
        &["doctor", "--json"],
    ] {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let mut command = dwell();
        command.args(args).stdout(writer).stderr(Stdio::piped());
        let ran = command.output().expect("runs");
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.code().is_some(),
            "{args:?}: {:?} {stderr}",
            ran.status
        );
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
        // Without privilege the doctor rightly fails, whoever listens.
        assert!(
            ran.status.success() || args[0] == "doctor",
            "{args:?}: {stderr}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn the_exit_code_is_the_command_s() {
    let folder = Scratch::new();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -TERM $$", 128 + libc::SIGTERM),
        ("kill -SEGV $$", 128 + libc::SIGSEGV),
        ("kill -KILL $$", 128 + libc::SIGKILL),
    ] {
        for how in [
            &["-o", "x.dwell", "--"][..],
            &["record", "-o", "x.dwell", "--"],
        ] {
            let ran = run_in(&folder, &[how, &["sh", "-c", script]].concat());
            assert_eq!(ran.code(), code, "{how:?} {script}: {}", ran.stderr);
            let tables = load(folder.join("x.dwell"));
            assert!(tables.meta.complete);
            assert_eq!(tables.meta.exit_code, Some(code));
            let statuses: Vec<_> = tables.processes.iter().map(|p| p.exit_status).collect();
            let wait_status = if code < 128 || code == 255 {
                code << 8
            } else {
                code - 128
            };
            // A dump of core is a bit of its own, and the machine's settings decide on it.
            let without_core = |s: &Option<i32>| s.map(|s| s & !0x80);
            assert_eq!(
                statuses.iter().map(without_core).collect::<Vec<_>>(),
                [Some(wait_status & !0x80)],
                "{script}"
            );
        }
    }
}

/// Exit codes of shells, env, nice and timeout; and nothing is left that looks like a recording.
#[test]
#[ignore = "needs root"]
fn a_command_that_cannot_run_is_told() {
    let folder = Scratch::new();
    let plain = folder.join("plain");
    fs::write(&plain, "#!/bin/sh\n").expect("write");
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).expect("permissions");
    for (command, code) in [
        ("./no-such-command", 127),
        ("no-such-command-on-path", 127),
        ("./plain", 126),
        ("/", 126),
    ] {
        let ran = run_in(&folder, &["-o", "new.dwell", "--", command]);
        assert_eq!(ran.code(), code, "{command}: {}", ran.stderr);
        assert!(
            ran.stderr.starts_with("dwell: ") && ran.stderr.contains(command),
            "{}",
            ran.stderr
        );
        assert!(ran.stdout.is_empty());
        assert!(
            !folder.join("new.dwell").exists(),
            "{command}: a recording of nothing is left"
        );
    }
}

/// An earlier recording is replaced by a recording, not by a failure.
#[test]
#[ignore = "needs root"]
fn a_failed_start_leaves_the_earlier_recording_alone() {
    let folder = Scratch::new();
    run_in(&folder, &["record", "-q", "-o", "x.dwell", "--", "true"]).good();
    let before = load(folder.join("x.dwell"));
    let (dead, word) = (dead_pid().to_string(), "no-such-command-on-path");
    let kept = folder.join("x.dwell");
    for args in [
        &["record", "-o", "x.dwell", "-p", &dead][..],
        &["record", "-o", "x.dwell", "--cgroup", "/no/such/cgroup"],
        &["-o", "x.dwell", "--", word],
    ] {
        assert_ne!(run_in(&folder, args).code(), 0);
        assert!(
            kept.join("meta.json").exists() && load(&kept) == before,
            "{args:?}"
        );
    }
}

/// The id of a process that has just ended.
fn dead_pid() -> u32 {
    let mut child = Command::new("true").spawn().expect("true");
    child.wait().expect("our child");
    child.id()
}

#[test]
#[ignore = "needs root"]
fn input_and_output_pass_through_untouched() {
    let folder = Scratch::new();
    let bytes: Vec<u8> = (0..200_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let input = folder.join("input");
    fs::write(&input, &bytes).expect("write");
    let file = || fs::File::open(&input).expect("open");
    let mut command = dwell();
    command.current_dir(folder.path()).args(["--", "cat"]);
    let ran = run(command.stdin(file())).good();
    assert!(
        ran.stdout == bytes,
        "stdout has {} bytes of {}",
        ran.stdout.len(),
        bytes.len()
    );
    // The answer goes to standard error, after what the command says there.
    let ran = run_in(&folder, &["--", "sh", "-c", "echo out; echo err >&2"]).good();
    assert_eq!(ran.text(), "out\n");
    assert!(ran.stderr.starts_with("err\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("How it divides"), "{}", ran.stderr);
    // `record` says one line and no answer; `-q` nothing.
    let ran = run_in(&folder, &["record", "--", "echo", "out"]).good();
    assert_eq!(
        (ran.text().as_str(), ran.stderr.lines().count()),
        ("out\n", 1),
        "{}",
        ran.stderr
    );
    let ran = run_in(&folder, &["record", "-q", "--", "echo", "out"]).good();
    assert_eq!((ran.text().as_str(), ran.stderr.as_str()), ("out\n", ""));
    let ran = run_in(&folder, &["--json", "--", "true"]).good();
    serde_json::from_str::<serde_json::Value>(&ran.text()).expect("JSON");
}

/// What a process has from its parent, but for what differs from one process to the next.
const INHERITED: &str = "
    grep -E '^(Umask|Uid|Gid|Groups|Threads|Sig|Shd|Cap|NoNewPrivs|Seccomp|Cpus_allowed|Mems_allowed|TracerPid)' /proc/self/status
    cat /proc/self/limits /proc/self/oom_score_adj /proc/self/timerslack_ns /proc/self/cgroup /proc/self/personality
    ls /proc/self/fd
    nice; pwd; env | grep -v '^_=' | sort; echo \"$0 $*\"";

/// Two commands are the same when `with` runs through dwell and `without` does not.
fn inherited(folder: &Scratch, through_dwell: bool, prepare: fn() -> io::Result<()>) -> String {
    let mut command = if through_dwell {
        let mut command = dwell();
        command.args(["record", "-q", "-o", "x.dwell", "--"]);
        command.arg("sh");
        command
    } else {
        let mut command = Command::new("sh");
        for (name, value) in dwell().get_envs() {
            assert!(value.is_none());
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    };
    command.args(["-c", INHERITED, "zero", "-p", "--json", "a b"]);
    command.current_dir(folder.path()).env("DWELL_TEST", "x");
    // SAFETY: `prepare` makes system calls only.
    unsafe { command.pre_exec(prepare) };
    run(&mut command).good().text()
}

/// A command cannot tell that dwell started it: signals, limits, descriptors, environment.
#[test]
#[ignore = "needs root"]
fn a_command_inherits_what_it_would_without_dwell() {
    let folder = Scratch::new();
    let usual: fn() -> io::Result<()> = || {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: valid pointers to one rlimit. A soft limit below the hard one is what one has. The tests may be run by nohup.
        unsafe {
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
            limit.rlim_cur = limit.rlim_max.min(512);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
        Ok(())
    };
    let unusual: fn() -> io::Result<()> = || {
        // SAFETY: sigset_t is plain memory; the rest are system calls on this process.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGUSR1);
            libc::sigaddset(&mut set, libc::SIGINT);
            libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            libc::signal(libc::SIGQUIT, libc::SIG_IGN);
            libc::umask(0o27);
            libc::nice(3);
        }
        Ok(())
    };
    for (name, prepare) in [("usual", usual), ("unusual", unusual)] {
        let (with, without) = (
            inherited(&folder, true, prepare),
            inherited(&folder, false, prepare),
        );
        let lines = with.lines().zip(without.lines());
        let differ: Vec<_> = lines.filter(|(with, without)| with != without).collect();
        assert!(
            differ.is_empty(),
            "{name}, with and without dwell: {differ:#?}"
        );
        assert_eq!(with.lines().count(), without.lines().count());
    }
}

/// A shell's `nohup dwell -- …` or a script in the background: SIGPIPE ends a command as usual.
#[test]
#[ignore = "needs root"]
fn a_pipeline_within_the_command_ends() {
    let folder = Scratch::new();
    let script = "set -o pipefail; yes | head -1; echo ${PIPESTATUS[0]}";
    let ran = run_in(&folder, &["record", "-q", "--", "bash", "-c", script]).good();
    let expected = format!("y\n{}\n", 128 + libc::SIGPIPE);
    assert_eq!((ran.text(), ran.stderr.as_str()), (expected, ""));
}

/// Starts dwell on a terminal of its own and waits for `ready` on the screen.
fn on_terminal(folder: &Scratch, args: &[&str]) -> (Terminal, std::process::Child) {
    let mut command = dwell();
    command
        .current_dir(folder.path())
        .args(args)
        .env("TERM", "xterm");
    let (terminal, mut child) = Terminal::start(&mut command);
    until("the command to be ready", || {
        terminal.screen().contains("ready") || child.try_wait().expect("our child").is_some()
    });
    assert!(terminal.screen().contains("ready"), "{}", terminal.screen());
    (terminal, child)
}

#[test]
#[ignore = "needs root"]
fn the_command_keeps_its_terminal() {
    let folder = Scratch::new();
    // Fields 5, 6 and 8 of stat: process group, session, foreground process group of the terminal.
    let script = "test -t 0 && test -t 1 && test -t 2 && echo ready; read line; echo got $line; \
                  cut -d' ' -f5,6,8 /proc/$$/stat; stty size; exit 5";
    let (mut terminal, mut child) = on_terminal(&folder, &["--", "sh", "-c", script]);
    let leader = child.id();
    terminal.type_in("hello\n");
    assert_eq!(end_of(&mut child), 5);
    until("the end of the answer", || {
        terminal.screen().contains("flame graph:")
    });
    let screen = terminal.screen();
    assert!(screen.contains("got hello"), "{screen}");
    assert!(
        screen.contains(&format!("{leader} {leader} {leader}")),
        "in the foreground: {screen}"
    );
    assert!(screen.contains("24 80"), "{screen}");
    assert!(screen.contains("\x1b["), "a terminal has colour: {screen}");
}

#[test]
#[ignore = "needs root"]
fn control_c_ends_the_command_and_the_recording_is_whole() {
    let folder = Scratch::new();
    let trap = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done";
    let plain = "echo ready; exec sleep 100";
    for (script, code) in [(trap, 7), (plain, 128 + libc::SIGINT)] {
        let (mut terminal, mut child) =
            on_terminal(&folder, &["-o", "x.dwell", "--", "sh", "-c", script]);
        terminal.type_in("\x03");
        assert_eq!(end_of(&mut child), code, "{}", terminal.screen());
        until("the answer", || terminal.screen().contains("flame graph:"));
        let screen = terminal.screen();
        assert_eq!(screen.contains("caught"), code == 7, "{screen}");
        assert!(screen.contains("How it divides"), "{screen}");
        let tables = load(folder.join("x.dwell"));
        assert!(tables.meta.complete);
        assert_eq!(tables.meta.exit_code, Some(code));
        assert_closed(&tables);
    }
}

/// A command that takes Ctrl-C as a wish (an interpreter, a debugger) goes on, and so does dwell.
#[test]
#[ignore = "needs root"]
fn control_c_that_the_command_survives_does_not_end_the_recording() {
    let folder = Scratch::new();
    let script = "trap 'echo again' INT; echo ready; n=0; while [ $n -lt 20 ]; do sleep 0.05; n=$((n+1)); done; exit 9";
    let (mut terminal, mut child) =
        on_terminal(&folder, &["-o", "x.dwell", "--", "sh", "-c", script]);
    for _ in 0..3 {
        terminal.type_in("\x03");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(end_of(&mut child), 9, "{}", terminal.screen());
    assert!(terminal.screen().contains("again"));
    assert!(load(folder.join("x.dwell")).meta.complete);
}

#[test]
#[ignore = "needs root"]
fn a_signal_to_dwell_ends_the_command_and_the_recording_is_whole() {
    let folder = Scratch::new();
    let output = folder.join("x.dwell");
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let mut command = dwell();
        command.current_dir(folder.path());
        command.args([
            "-o",
            "x.dwell",
            "--",
            "sh",
            "-c",
            "echo ready $$; exec sleep 100",
        ]);
        let mut recorder = Process::start(&mut command);
        recorder.wait_for_output("ready");
        let text = recorder.stdout();
        let pid: u32 = text
            .trim_start_matches("ready ")
            .trim()
            .parse()
            .expect("a pid");
        recorder.signal(signal);
        let ran = recorder.end();
        assert_eq!(ran.code(), 128 + signal, "{}", ran.stderr);
        assert!(ran.stderr.contains("How it divides"), "{}", ran.stderr);
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "the command lives on"
        );
        let tables = load(&output);
        assert!(tables.meta.complete);
        assert_eq!(tables.meta.exit_code, Some(128 + signal));
        fs::remove_dir_all(&output).expect("remove");
    }
}

/// `timeout`-like use: the time is over before the command is. Recording ends, the command keeps its
/// terminal, its output and its exit code.
#[test]
#[ignore = "needs root"]
fn a_duration_ends_the_recording_and_not_the_command() {
    let folder = Scratch::new();
    let args = [
        "record",
        "-q",
        "--duration",
        "300ms",
        "-o",
        "x.dwell",
        "--",
        "sh",
        "-c",
        "sleep 1.5; echo done; exit 4",
    ];
    let ran = run_in(&folder, &args);
    assert_eq!(
        (ran.code(), ran.text().as_str()),
        (4, "done\n"),
        "{}",
        ran.stderr
    );
    let meta = load(folder.join("x.dwell")).meta;
    let window_ms = (meta.end_ns - meta.start_ns) / 1_000_000;
    // The rest of a second is for a machine that is busy otherwise.
    assert!((300..1_000).contains(&window_ms), "{window_ms} ms");
}
