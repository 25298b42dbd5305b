//! What can be recorded, for how long and how often: the whole system, a cgroup, several processes;
//! and the live view.

use crate::robust_support::*;
use dwell_recording::Tables;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn window_ms(tables: &Tables) -> u64 {
    (tables.meta.end_ns - tables.meta.start_ns) / 1_000_000
}

fn pids(tables: &Tables) -> Vec<u32> {
    let mut pids: Vec<u32> = tables.processes.iter().map(|p| p.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The threads of the processes with that id.
fn threads_of(tables: &Tables, pid: u32) -> Vec<&dwell_recording::rows::ThreadRow> {
    let of_pid = |process| {
        tables
            .processes
            .iter()
            .any(|p| p.process == process && p.pid == pid)
    };
    tables
        .threads
        .iter()
        .filter(|t| of_pid(t.process))
        .collect()
}

/// System calls of 32-bit code have other numbers and other registers: 162 is nanosleep there, and sync elsewhere.
#[test]
#[ignore = "needs root"]
fn a_program_of_32_bits_waits_for_what_it_does() {
    let folder = Scratch::new();
    let bits32 = program("bits32");
    let ran = recorder(&folder, &["-q", "--", &bits32]).end().good();
    assert_eq!(ran.code(), 0);
    let tables = load(folder.join("x.dwell"));
    assert_closed(&tables);
    let mut waits: Vec<(&str, &str, bool, bool)> = Vec::new();
    for site in &tables.sites {
        // It may lose its processor, or wait for a page, anywhere; its file is read.
        if !["", "fault", "io"].contains(&&*site.reason) {
            waits.push((&site.reason, &site.syscall, site.timed, site.shared));
        }
    }
    waits.sort_unstable();
    waits.dedup();
    let expected = [
        ("child", "wait4", false, false),
        ("lock", "futex", true, false),
        ("pipe", "read", false, false),
        ("poll", "poll", false, false),
        ("sleep", "nanosleep", false, false),
    ];
    assert_eq!(waits, expected);
}

#[test]
#[ignore = "needs root"]
fn the_whole_system() {
    let folder = Scratch::new();
    let mut sleepers = Process::start(Command::new(program("sleepers")).arg("100"));
    sleepers.wait_for_output("}");
    let mixed = mixed(&folder);
    let before: Vec<u32> = all_tids();
    let begun = Instant::now();
    let ran = recorder(&folder, &["-q", "-a", "--duration", "2s"])
        .end()
        .good();
    assert_eq!(ran.stderr, "");
    eprintln!("2 s of the whole system: {:?}", begun.elapsed());
    let tables = load(folder.join("x.dwell"));
    assert!(tables.meta.complete);
    assert_closed(&tables);
    // The window is what was asked for; the rest is for a recorder that waits for a processor.
    assert!(
        (1_990..2_500).contains(&window_ms(&tables)),
        "{} ms",
        window_ms(&tables)
    );
    // Every thread that lived throughout is there, and lived throughout.
    let after = all_tids();
    let window = tables.meta.end_ns - tables.meta.start_ns;
    let lived = |tid: u32| before.contains(&tid) && after.contains(&tid);
    let steady: Vec<u32> = before.iter().copied().filter(|&tid| lived(tid)).collect();
    let rows_of = |tid| tables.threads.iter().filter(move |t| t.tid == tid);
    let missing: Vec<_> = steady
        .iter()
        .filter(|&&tid| {
            let known: u64 = rows_of(tid).map(|t| t.until_ns - t.start_ns).sum();
            known < window / 100 * 95 || known > window / 100 * 105
        })
        .map(|&tid| {
            (
                tid,
                rows_of(tid)
                    .map(|t| (&t.name, t.start_ns, t.until_ns))
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    // Kernel workers are named anew and parked at any time, but their life is a life.
    assert!(
        missing.is_empty(),
        "{missing:?} of {} threads",
        steady.len()
    );
    for (name, pid) in [("mixed", mixed.pid()), ("sleepers", sleepers.pid())] {
        let process = tables
            .processes
            .iter()
            .find(|p| p.pid == pid)
            .expect("the process");
        assert_eq!(process.name, name);
        assert_eq!(threads_of(&tables, pid).len(), 8);
    }
    let slept = threads_of(&tables, sleepers.pid())
        .iter()
        .map(|t| t.blocked_ns)
        .sum::<u64>();
    assert!(slept > 8 * (window / 100 * 99), "{slept} of {}", 8 * window);
    // All running time together is no more than the processors had.
    let running: u64 = tables.threads.iter().map(|t| t.running_ns).sum();
    let capacity = window * u64::from(tables.meta.machine.cpus);
    assert!(
        running <= capacity / 1_000 * 1_001,
        "{running} of {capacity}"
    );
}

/// Ids of all threads of the system, without those of processes that a security module shields even
/// from root.
fn all_tids() -> Vec<u32> {
    let number = |e: fs::DirEntry| e.file_name().to_str()?.parse::<u32>().ok();
    let processes = fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(number);
    let seen = processes.filter(|pid| fs::read(format!("/proc/{pid}/maps")).is_ok());
    // One that has ended has no time, be it that nobody has waited for it yet.
    let is_alive = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
    };
    let seen = seen.filter(is_alive);
    let threads = seen.map(|pid| fs::read_dir(format!("/proc/{pid}/task")));
    threads
        .flatten()
        .flatten()
        .flatten()
        .filter_map(number)
        .collect()
}

/// A cgroup, removed with everything in it when dropped.
struct Cgroup {
    path: PathBuf,
    mounted: Option<PathBuf>,
}

impl Cgroup {
    fn new(folder: &Scratch) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let mut mounts = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>());
        let found = mounts.find(|m| m.get(2) == Some(&"cgroup2"));
        let (root, mounted) = match found {
            Some(mount) => (PathBuf::from(mount[1]), None),
            None => {
                let root = folder.join("cgroup");
                fs::create_dir(&root).expect("a folder");
                let mount = ["-t", "cgroup2", "none"];
                run(Command::new("mount").args(mount).arg(&root)).good();
                (root.clone(), Some(root))
            }
        };
        let path = root.join(format!("dwell-test-{}", std::process::id()));
        fs::create_dir(&path).expect("a cgroup");
        Cgroup { path, mounted }
    }

    fn add(&self, pid: u32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).expect("move a process");
    }

    /// A shell command that starts within the cgroup.
    fn start(&self, script: &str) -> Process {
        let procs = self.path.join("cgroup.procs");
        let script = format!("echo $$ > {}; {script}", procs.display());
        Process::start(Command::new("sh").args(["-c", &script]))
    }

    fn members(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|l| l.parse().ok()).collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..200 {
            for pid in self.members() {
                // SAFETY: no memory effects; members of this cgroup are this test's.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            if fs::remove_dir(&self.path).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(mount) = &self.mounted {
            let _ = Command::new("umount").arg("-l").arg(mount).status();
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_cgroup_with_children_and_newcomers() {
    let folder = Scratch::new();
    let cgroup = Cgroup::new(&folder);
    let spin = "while :; do :; done";
    // A member that computes and starts a child now and then.
    let member = cgroup.start("while :; do sleep 0.2; done");
    let outside = Process::start(Command::new("sh").args(["-c", "while :; do sleep 0.2; done"]));
    let newcomer = Process::start(Command::new("sh").args(["-c", spin]));
    until("the member to be in", || {
        cgroup.members().contains(&(member.pid() as i32))
    });
    let path = cgroup.path.to_str().expect("UTF-8");
    let mut recorder = recorder(&folder, &["--cgroup", path, "--duration", "4s"]);
    until("the recorder to attach", || {
        KernelObjects::of(recorder.pid()).has("link_id")
    });
    std::thread::sleep(Duration::from_millis(500));
    cgroup.add(newcomer.pid());
    recorder.end().good();
    let tables = load(folder.join("x.dwell"));
    assert_closed(&tables);
    let pids = pids(&tables);
    assert!(pids.contains(&member.pid()), "the member");
    assert!(pids.contains(&newcomer.pid()), "who was moved in");
    assert!(!pids.contains(&outside.pid()), "who is not in it");
    let children = tables
        .processes
        .iter()
        .filter(|p| p.parent_pid == member.pid());
    // 4 s, and a child each 0.2 s and the time it takes to start; half of them on a busy machine.
    assert!(
        children.clone().count() >= 10,
        "{} children",
        children.count()
    );
    let strangers = tables.processes.iter().filter(|p| {
        ![member.pid(), newcomer.pid()].contains(&p.pid) && p.parent_pid != member.pid()
    });
    assert_eq!(strangers.count(), 0, "{:?}", tables.processes);
    // It was taken in within a second or so, and computed from then on.
    let window = tables.meta.end_ns - tables.meta.start_ns;
    let known: u64 = threads_of(&tables, newcomer.pid())
        .iter()
        .map(|t| t.until_ns - t.start_ns)
        .sum();
    assert!(known > window / 100 * 45, "{known} of {window}");
    let whole: u64 = threads_of(&tables, member.pid())
        .iter()
        .map(|t| t.until_ns - t.start_ns)
        .sum();
    assert!(whole.abs_diff(window) < window / 20, "{whole} of {window}");
    // The same by its path below the mount, where it is mounted in the usual place.
    if let Ok(relative) = cgroup.path.strip_prefix("/sys/fs/cgroup") {
        let relative = relative.to_str().expect("UTF-8");
        self::recorder(&folder, &["--cgroup", relative, "--duration", "300ms"])
            .end()
            .good();
        assert!(self::pids(&load(folder.join("x.dwell"))).contains(&member.pid()));
    }
}

#[test]
#[ignore = "needs root"]
fn a_cgroup_that_is_none() {
    let folder = Scratch::new();
    for path in ["/no/such/cgroup", "no-such-cgroup", "/tmp"] {
        let ran = recorder(&folder, &["--cgroup", path, "--duration", "1s"]).end();
        let name = Path::new(path)
            .file_name()
            .expect("a name")
            .to_str()
            .expect("UTF-8");
        ran.told(name);
        assert!(!folder.join("x.dwell").exists(), "{path}");
    }
}

#[test]
#[ignore = "needs root"]
fn several_processes_until_the_last_has_ended() {
    let folder = Scratch::new();
    let short = Process::start(Command::new("sh").args(["-c", "sleep 1"]));
    let long = Process::start(Command::new("sh").args(["-c", "sleep 2.5"]));
    let other = Process::start(Command::new("sleep").arg("100"));
    let processes = [short, long];
    let text: Vec<String> = processes.iter().map(|p| p.pid().to_string()).collect();
    let args = ["-p", &text[0], "--pid", &text[1]];
    let mut recorder = recorder(&folder, &args);
    let begun = Instant::now();
    let ids: Vec<u32> = processes.iter().map(Process::pid).collect();
    // Somebody has to reap them for them to be gone.
    let reapers: Vec<_> = processes
        .into_iter()
        .map(|mut p| std::thread::spawn(move || p.end()))
        .collect();
    recorder.end().good();
    assert!(
        begun.elapsed() > Duration::from_millis(1_500),
        "ended with the first"
    );
    reapers.into_iter().for_each(|r| drop(r.join()));
    let tables = load(folder.join("x.dwell"));
    assert!(tables.meta.complete);
    for id in ids {
        let process = tables
            .processes
            .iter()
            .find(|p| p.pid == id)
            .expect("the process");
        assert_eq!(process.exit_status, Some(0));
        assert!(process.end_ns.is_some());
    }
    assert!(!pids(&tables).contains(&other.pid()));
}

#[test]
#[ignore = "needs root"]
fn durations_hold() {
    let folder = Scratch::new();
    let target = mixed(&folder);
    let pid = target.pid().to_string();
    for (text, ms) in [("1s", 1_000), ("250ms", 250), ("0.02m", 1_200)] {
        recorder(&folder, &["-p", &pid, "--duration", text])
            .end()
            .good();
        let window = window_ms(&load(folder.join("x.dwell")));
        // A tenth of a second is how often the recorder looks, and it may wait for a processor.
        assert!((ms - 1..ms + 500).contains(&window), "{text}: {window} ms");
    }
}

/// Stacks per second of a thread's time: what was asked for, within statistics and the tick's rate.
#[test]
#[ignore = "needs root"]
fn frequencies_hold() {
    let folder = Scratch::new();
    let mut target = Process::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    let pid = target.pid().to_string();
    for (frequency, clock) in [
        (99, "tick"),
        (99, "timer"),
        (499, "timer"),
        (999, "timer"),
        (999, "tick"),
    ] {
        let text = frequency.to_string();
        let args = [
            "-p",
            &pid,
            "--duration",
            "2s",
            "-F",
            &text,
            "--clock",
            clock,
        ];
        recorder(&folder, &args).end().good();
        let tables = load(folder.join("x.dwell"));
        assert!(
            tables.meta.period_ns.abs_diff(1_000_000_000 / frequency)
                <= 1_000_000_000 / frequency / 50
        );
        let running: u64 = threads_of(&tables, target.pid())
            .iter()
            .map(|t| t.running_ns)
            .sum();
        let taken = tables
            .samples
            .iter()
            .filter(|s| s.state == "running")
            .count() as f64;
        let wanted = running as f64 / tables.meta.period_ns as f64;
        // The tick cannot be faster than it is; it then gives all it has.
        let tick_hz = 1e9 / tick_ns() as f64;
        let possible = if clock == "tick" {
            tick_hz * running as f64 / 1e9
        } else {
            f64::MAX
        };
        let expected = wanted.min(possible);
        eprintln!("{frequency} Hz by {clock}: {taken} stacks, {expected:.0} expected");
        // Five standard deviations of a count, and a tenth: timers of the kernel slip on a busy machine.
        let slack = 5.0 * expected.sqrt() + expected / 10.0;
        assert!(
            (taken - expected).abs() < slack,
            "{frequency} {clock}: {taken}, expected {expected:.0} ± {slack:.0}"
        );
    }
    assert!(target.is_alive());
}

/// The scheduler's tick: the kernel's CONFIG_HZ shows as the resolution of the coarse clock.
fn tick_ns() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec through a valid pointer.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_nsec
}

/// The live view: as many pictures as asked for, of what there is, and nothing left in the kernel.
#[test]
#[ignore = "needs root"]
fn top_shows_what_happens_now() {
    let folder = Scratch::new();
    let mut target = mixed(&folder);
    let pid = target.pid().to_string();
    let mut command = dwell();
    command.current_dir(folder.path());
    let mut top = Process::start(command.args(["top", "-p", &pid, "-n", "2", "--interval", "1s"]));
    until("top to attach", || {
        KernelObjects::of(top.pid()).has("link_id")
    });
    std::thread::sleep(Duration::from_millis(300));
    let objects = KernelObjects::of(top.pid());
    let ran = top.end().good();
    objects.assert_gone();
    let text = ran.text();
    let pictures: Vec<&str> = text.split("dwell  pid ").skip(1).collect();
    assert_eq!(pictures.len(), 2, "{text}");
    for picture in pictures {
        assert!(picture.starts_with(&pid), "{picture}");
        assert!(
            picture.contains("8 threads") && picture.contains("solver"),
            "{picture}"
        );
        assert!(picture.contains("solve_equations"), "names: {picture}");
        assert!(
            !picture.contains("cut short;"),
            "nothing was cut short: {picture}"
        );
        // Eight threads, a second or two, each of them all of the time.
        let line = picture.lines().nth(1).expect("a second line");
        let words: Vec<&str> = line.split(' ').collect();
        let window = nanoseconds(words[0], words[1]) / 1e9;
        assert!((0.8..3.0).contains(&window), "{line}");
        let divides = picture.lines().find(|l| l.starts_with("How it divides"));
        let divides: Vec<&str> = divides.expect("a division").split_whitespace().collect();
        let time = nanoseconds(divides[3], divides[4]) / 1e9;
        assert!((time / window - 8.0).abs() < 0.8, "{time} s in {window} s");
    }
    assert_eq!(
        fs::read_dir(folder.path())
            .expect("read")
            .filter(|e| {
                e.as_ref()
                    .is_ok_and(|e| e.path().extension().is_some_and(|e| e == "dwell"))
            })
            .count(),
        0,
        "top leaves a recording"
    );
    assert!(target.is_alive());
}

#[test]
#[ignore = "needs root"]
fn top_of_the_whole_system_and_of_nobody() {
    let folder = Scratch::new();
    let _target = mixed(&folder);
    let ran = run(dwell().args(["top", "-n", "1", "--interval", "1s"])).good();
    let text = ran.text();
    assert!(text.contains("whole system"), "{text}");
    // Processes of one name are joined, and one alone may be followed by its id.
    assert!(text.lines().any(|l| l.starts_with("mixed ")), "{text}");
    assert_eq!(text.matches("How it divides").count(), 1, "{text}");
    let mut child = Process::start(&mut Command::new("true"));
    child.end().good();
    let pid = child.pid().to_string();
    run(dwell().args(["top", "-p", &pid, "-n", "1"])).told(&format!("process {pid}"));
    // It ends with its target.
    let mut target = Process::start(Command::new("sleep").arg("2"));
    let pid = target.pid().to_string();
    let mut top = Process::start(dwell().args(["top", "-p", &pid]));
    target.end().good();
    top.end().good();
    // And with Ctrl-C.
    let mut top = Process::start(dwell().args(["top", "-p", &std::process::id().to_string()]));
    until("top to attach", || {
        KernelObjects::of(top.pid()).has("link_id")
    });
    top.signal(libc::SIGINT);
    top.end().good();
}

/// Maps and unmaps code on SIGUSR1, more often than the reports of it find room, then loads a library and
/// computes in it.
const MAPS_A_LOT: &str = "
import mmap, os, signal
signal.signal(signal.SIGUSR1, lambda *_: None)
print('ready', flush=True)
signal.pause()
for _ in range(20000):
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
import bz2
data = os.urandom(1 << 20)
print('loaded', flush=True)
while True: bz2.compress(data)
";

/// How many of the stacks are complete, and of how many.
fn complete_of(tables: &Tables, stacks: impl Iterator<Item = u32>) -> (usize, usize) {
    let (mut complete, mut all) = (0, 0);
    for stack in stacks {
        let stack = tables.stacks.iter().find(|s| s.stack == stack);
        all += 1;
        complete += usize::from(stack.is_some_and(|s| s.end == "complete"));
    }
    (complete, all)
}

/// The kernel knows a process by its first thread, which may have ended: then it shows no memory of it, no program and
/// no root, and calls no probes in it.
#[test]
#[ignore = "needs root"]
fn a_process_whose_first_thread_has_ended() {
    let folder = Scratch::new();
    let text = "import ctypes, threading, time\n\
        def work():\n    while True: time.sleep(0.001); sum(range(10000))\n\
        threading.Thread(target=work).start()\n\
        ctypes.CDLL(None).pthread_exit(0)";
    let target = Process::start(Command::new("/usr/bin/python3").args(["-c", text]));
    let pid = target.pid().to_string();
    until("its first thread goes on", || {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| s.contains(") Z "))
    });
    recorder(&folder, &["-q", "-p", &pid, "--duration", "2s"])
        .end()
        .good();
    let tables = load(folder.join("x.dwell"));
    assert_closed(&tables);
    let row = &tables.processes[0];
    assert!(
        row.exe.contains("python3") && row.command.starts_with("/usr/bin/python3 -c"),
        "{row:?}"
    );
    let stacks = tables.samples.iter().map(|sample| sample.stack);
    let (complete, all) = complete_of(&tables, stacks);
    assert!(
        all > 100 && complete * 1000 >= all * 995,
        "{complete} of {all}"
    );

    let script = "pid$target:libc.so.6:clock_nanosleep:entry { @ = count(); } tick-1s { exit(0); }";
    let trace = |engine| {
        let arguments = ["trace", "--engine", engine, "-n", script, "-p", &pid];
        let output = bare_dwell().args(arguments).output().expect("dwell");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr))
    };
    let (counted, told) = trace("process");
    let count = counted
        .split_whitespace()
        .last()
        .and_then(|n| n.parse::<u32>().ok());
    assert!(count.is_some_and(|n| n > 100), "{counted}{told}");
    let (_, refused) = trace("kernel");
    assert!(
        refused.contains("the first thread of process") && refused.contains("remedy:"),
        "{refused}"
    );
}

/// A recorder that is stopped meanwhile never hears of the library; it finds it all the same.
#[test]
#[ignore = "needs root"]
fn mappings_whose_reports_are_lost_are_found() {
    if !installed("/usr/bin/python3") {
        return;
    }
    let folder = Scratch::new();
    let mut target = Process::start(Command::new("/usr/bin/python3").args(["-c", MAPS_A_LOT]));
    target.wait_for_output("ready");
    let pid = target.pid().to_string();
    let mut recorder = recorder(&folder, &["-q", "-p", &pid, "--duration", "8s"]);
    until("it records", || {
        folder.join("x.dwell/samples-0000.parquet").exists()
    });
    recorder.signal(libc::SIGSTOP);
    target.signal(libc::SIGUSR1);
    target.wait_for_output("loaded");
    recorder.signal(libc::SIGCONT);
    let known_from = boottime_ns() + 2_500_000_000;
    recorder.end().good();
    let tables = load(folder.join("x.dwell"));
    let loaded = |m: &&dwell_recording::rows::MappingRow| m.path.contains("libbz2");
    assert!(tables.mappings.iter().any(|m| loaded(&m)), "the library");
    let late = tables.samples.iter().filter(|s| s.time_ns > known_from);
    let (complete, all) = complete_of(&tables, late.map(|sample| sample.stack));
    assert!(
        all > 100 && complete * 100 >= all * 95,
        "{complete} of {all}"
    );
    let lost = tables.meta.losses["mapping_reports"];
    eprintln!("{lost} reports were lost");
}
