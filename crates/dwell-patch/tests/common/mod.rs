//! Programs that run beside a test, and what their memory must look like afterwards.
#![allow(dead_code)] // each test binary uses a part of it
#[path = "../../../../tests/programs/locate.rs"]
mod locate;
pub use locate::program;

use dwell_patch::plan::Place;
use dwell_patch::process::FunctionAt;
use dwell_patch::{Hook, Probe};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A number from the environment, for runs longer than those of every day.
pub fn from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |v| v.parse().expect("a number"))
}

/// A probe at the entry of a function of `file`.
pub fn at_entry(file: &str, name: &str, hook: Hook) -> Probe {
    Probe {
        file: file.to_owned(),
        function: FunctionAt::Name(name.to_owned()),
        place: Place::Entry,
        hook,
    }
}

/// A program that does what it is told on standard input and answers in lines of JSON.
pub struct Puppet {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Puppet {
    pub fn start(name: &str, arguments: &[&str]) -> Puppet {
        let mut child = Command::new(program(name))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut puppet = Puppet {
            child,
            input,
            output,
        };
        puppet.answer();
        puppet
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .expect("the program answers");
        if line.is_empty() {
            panic!("the program has ended: {:?}", self.child.wait());
        }
        serde_json::from_str(&line).expect("a line of JSON")
    }

    pub fn tell(&mut self, command: &str) -> Value {
        self.input
            .write_all(command.as_bytes())
            .expect("the program reads");
        self.input.flush().expect("the program reads");
        self.answer()
    }

    /// Parks its threads and reads its own counts.
    pub fn park(&mut self) -> BTreeMap<String, u64> {
        let answer = self.tell("p");
        let counts = answer.as_object().expect("an object").iter();
        counts
            .map(|(name, n)| (name.clone(), n.as_u64().expect("a count")))
            .collect()
    }

    /// Lets its threads run.
    pub fn run(&mut self) {
        self.tell("r");
    }

    /// Ends it; it must have found no wrong result.
    pub fn finish(mut self) {
        assert_eq!(self.tell("q")["ok"], true);
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks that the code of a process is that of its files, byte for byte, and that nothing of ours is
/// mapped. Returns the bytes compared.
pub fn assert_pristine(pid: i32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("memory");
    let mut compared = 0;
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let path = fields.get(5).copied().unwrap_or_default();
        // Memory shared with nobody else: no program that is patched here has any.
        assert_ne!(path, "/dev/zero", "left behind: {line} in\n{maps}");
        if !fields[1].contains('x') {
            continue;
        }
        if path.starts_with('[') {
            continue;
        }
        assert!(path.starts_with('/'), "left behind: {line} in\n{maps}");
        let (start, end) = fields[0].split_once('-').expect("a range");
        let start = u64::from_str_radix(start, 16).expect("hexadecimal");
        let end = u64::from_str_radix(end, 16).expect("hexadecimal");
        let offset = u64::from_str_radix(fields[2], 16).expect("hexadecimal");
        let mut now = vec![0; (end - start) as usize];
        // A library may be unmapped between the two looks.
        if memory.read_exact_at(&mut now, start).is_err() {
            continue;
        }
        let file =
            fs::read(Path::new("/proc").join(format!("{pid}/root{path}"))).expect("its file");
        let wanted = &file[offset as usize..file.len().min(offset as usize + now.len())];
        let differ = now.iter().zip(wanted).filter(|(a, b)| a != b).count();
        assert_eq!(differ, 0, "bytes of {path} that differ");
        assert!(
            now[wanted.len()..].iter().all(|&b| b == 0),
            "behind the end of {path}"
        );
        compared += wanted.len();
    }
    compared
}

/// Median, 99th percentile and maximum.
pub fn percentiles(times: &mut [Duration]) -> [Duration; 3] {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    [at(0.5), at(0.99), at(1.0)]
}

/// A size in `/proc/PID/status`, in bytes.
pub fn size(pid: i32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = text.lines().find_map(|l| l.strip_prefix(field));
    let kib = line.and_then(|l| l.trim_start_matches(':').trim().strip_suffix(" kB"));
    1024 * kib
        .expect("a size")
        .trim()
        .parse::<u64>()
        .expect("a number")
}
