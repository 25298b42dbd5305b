//! `dwell top` in a terminal of 80 columns and 24 lines: what it shows, what keys do, and that it gives the terminal back.

use crate::common::*;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const COLUMNS: usize = 80;
const LINES: usize = 24;
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal that a command runs in, by a server of tmux of its own.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn start(folder: &Path, command: &str) -> Terminal {
        let terminal = Terminal {
            socket: folder.join("tmux").display().to_string(),
        };
        let size = [COLUMNS, LINES].map(|n| n.to_string());
        let folder = folder.display().to_string();
        terminal.tmux(&[
            "-u",
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-c",
            &folder,
            "-x",
            &size[0],
            "-y",
            &size[1],
            command,
        ]);
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(&self.socket)
            .args(args)
            .output();
        let output = output.expect("tmux runs");
        assert!(output.status.success(), "tmux {args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn press(&self, keys: &str) {
        self.tmux(&["send-keys", keys]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The screen once it is as wanted.
    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                assert!(screen.lines().count() <= LINES, "{screen}");
                return screen;
            }
            assert!(Instant::now() < end, "{what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux")
            .arg("-S")
            .arg(&self.socket)
            .arg("kill-server")
            .output();
    }
}

/// The numbers of the row that ends in `name`; `-` is none.
fn row(screen: &str, name: &str) -> Option<Vec<f64>> {
    let line = screen
        .lines()
        .find(|line| line.trim_end().ends_with(name))?;
    let words = line.split_whitespace().filter(|word| *word != "%");
    let number = |word: &str| {
        if word == "-" {
            Some(0.0)
        } else {
            word.parse().ok()
        }
    };
    Some(words.map_while(number).collect())
}

#[test]
#[ignore = "needs root and the test programs"]
fn keys_choose_what_is_seen_and_numbers_are_the_kernels() {
    let scratch = Scratch::new();
    let busy = Running::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    let pid = busy.pid();
    let command = format!(
        "{} top --interval 1s -p {pid}; echo ended=$?; sleep 100",
        dwell(&[]).get_program().display()
    );
    let terminal = Terminal::start(scratch.path(), &command);
    let name = format!("{pid} sh");
    terminal.until("a first picture", |screen| row(screen, &name).is_some());

    let begun = (Instant::now(), schedstat(pid, pid).expect("it lives"));
    let mut told = Vec::new();
    let mut last = String::new();
    while told.len() < 4 {
        let screen = terminal.until("a next picture", |screen| *screen != last);
        told.extend(row(&screen, &name).map(|numbers| numbers[0] + numbers[2]));
        last = screen;
    }
    let wall = begun.0.elapsed().as_nanos() as f64;
    let (running, waiting) = schedstat(pid, pid).expect("it lives");
    let kernels = 100.0 * ((running - begun.1.0) + (waiting - begun.1.1)) as f64 / wall;
    let mean = told.iter().sum::<f64>() / told.len() as f64;
    println!("on a CPU or wanting one: {told:?}, mean {mean}, by the kernel {kernels}");
    assert!((mean - kernels).abs() < 12.0, "{mean} against {kernels}");

    for (key, head) in [
        ("f", "FUNCTION"),
        ("s", "STATE"),
        ("r", "WAITS FOR"),
        ("p", "PROCESS"),
        ("t", "PROCESS/THREAD"),
    ] {
        terminal.press(key);
        terminal.until(key, |screen| {
            screen
                .lines()
                .nth(3)
                .is_some_and(|line| line.contains(head))
        });
    }
    terminal.press("?");
    terminal.until("the keys", |screen| screen.contains("dwell top: keys"));
    terminal.press("Escape");
    terminal.until("no keys", |screen| row(screen, &name).is_some());
    terminal.press("/");
    terminal.press("nobody");
    terminal.until("a filter", |screen| {
        screen.contains("/nobody_") && row(screen, &name).is_none()
    });
    terminal.press("Escape");
    terminal.until("no filter", |screen| row(screen, &name).is_some());
    terminal.press("Space");
    let still = terminal.until("a pause", |screen| screen.contains("paused"));
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(terminal.screen(), still);
    terminal.press("Space");
    terminal.until("no pause", |screen| !screen.contains("paused"));

    terminal.press("R");
    terminal.until("a recording", |screen| screen.contains("recording to pid-"));
    std::thread::sleep(Duration::from_secs(1));
    terminal.press("R");
    terminal.until("its end", |screen| {
        screen.contains("recorded: dwell report pid-")
    });
    let made = scratch.path().join(format!("pid-{pid}.dwell"));
    let report = dwell(&["report", "--json", &made.display().to_string()])
        .output()
        .expect("dwell runs");
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert!(number(&report["total"], "running_ns") > 0, "{report}");

    terminal.press("q");
    let screen = terminal.until("the end", |screen| screen.contains("ended=0"));
    assert!(
        !screen.contains("ON CPU"),
        "the screen is given back: {screen}"
    );
}

#[test]
#[ignore = "needs root and the test programs"]
fn the_terminal_is_given_back_when_the_target_ends() {
    let scratch = Scratch::new();
    let target = Running::start(Command::new("sleep").arg("100"));
    let dwell = dwell(&[]);
    let command = format!(
        "{} top -p {}; echo ended=$?; stty -a; sleep 100",
        dwell.get_program().display(),
        target.pid()
    );
    let terminal = Terminal::start(scratch.path(), &command);
    terminal.until("a first picture", |screen| screen.contains("sleep"));
    target.signal(libc::SIGKILL);
    let screen = terminal.until("the end", |screen| {
        screen.contains("ended=0") && screen.contains("icanon")
    });
    assert!(
        !screen.contains("-icanon") && !screen.contains("-echo "),
        "{screen}"
    );
}
