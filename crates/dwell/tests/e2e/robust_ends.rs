//! Recordings that end badly: killed recorders, full disks, targets that vanish, change or are many.

use crate::puppets::size;
use crate::robust_support::*;
use dwell_recording::Tables;
use dwell_recording::rows::{FrameRow, SymbolRow};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Recorders are to stay below this.
const MEMORY_LIMIT: u64 = 100 << 20;

/// Waits until the recorder holds links in the kernel, which is after its maps and programs.
fn attached(recorder: &mut Process) -> KernelObjects {
    until("the recorder to attach", || {
        assert!(recorder.is_alive(), "{}", recorder.stderr());
        KernelObjects::of(recorder.pid()).has("link_id")
    });
    // Not all of them are there with the first one.
    std::thread::sleep(Duration::from_millis(300));
    let objects = KernelObjects::of(recorder.pid());
    assert!(objects.has("prog_id") && objects.has("map_id"));
    objects
}

/// However a recorder ends, the kernel is as it was: no program, map or link, no child.
#[test]
#[ignore = "needs root"]
fn nothing_is_left_in_the_kernel() {
    adopt_orphans();
    let folder = Scratch::new();
    let mut target = mixed(&folder);
    let pid = target.pid().to_string();
    let before = children_of(std::process::id());
    for (how, signal, code) in [
        ("its time is over", None, 0),
        ("Ctrl-C", Some(libc::SIGINT), 0),
        ("SIGTERM", Some(libc::SIGTERM), 0),
        ("SIGKILL", Some(libc::SIGKILL), 128 + libc::SIGKILL),
        ("an abort", Some(libc::SIGABRT), 128 + libc::SIGABRT),
    ] {
        let mut recorder = recorder(&folder, &["-p", &pid, "--duration", "2s"]);
        let objects = attached(&mut recorder);
        if let Some(signal) = signal {
            recorder.signal(signal);
        }
        let ran = recorder.end();
        assert_eq!(ran.code(), code, "{how}: {}", ran.stderr);
        objects.assert_gone();
        assert_eq!(
            children_of(std::process::id()),
            before,
            "{how}: processes are left"
        );
        assert!(target.is_alive(), "{how}: the target is gone");
    }
    // A launched command that outlives its recorder is the person's; nothing else is left.
    let mut recorder = recorder(&folder, &["--", "sleep", "100"]);
    let objects = attached(&mut recorder);
    recorder.signal(libc::SIGKILL);
    recorder.end();
    objects.assert_gone();
    let left: Vec<u32> = children_of(std::process::id());
    let names = left.iter().filter(|pid| !before.contains(pid));
    let names: Vec<_> = names
        .map(|pid| fs::read_to_string(format!("/proc/{pid}/comm")))
        .collect();
    assert!(
        names
            .iter()
            .all(|n| n.as_ref().is_ok_and(|n| n == "sleep\n")),
        "{names:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn control_c_ends_a_recording_of_others_cleanly() {
    let folder = Scratch::new();
    let mut target = mixed(&folder);
    let pid = target.pid().to_string();
    // One signal for the whole system: what is recorded and how it ends know nothing of each other, and names of
    // everything take long.
    for (args, signal) in [
        (&["-p", &pid][..], libc::SIGINT),
        (&["-p", &pid], libc::SIGTERM),
        (&["-p", &pid], libc::SIGHUP),
        (&["-a"], libc::SIGINT),
    ] {
        let mut recorder = recorder(&folder, args);
        attached(&mut recorder);
        std::thread::sleep(Duration::from_millis(500));
        recorder.signal(signal);
        let ran = recorder.end().good();
        assert!(
            ran.stderr.contains("dwell report"),
            "says what to do next: {}",
            ran.stderr
        );
        let tables = load(folder.join("x.dwell"));
        assert!(tables.meta.complete && !tables.symbols.is_empty());
        assert_closed(&tables);
        assert!(target.is_alive());
    }
}

/// What was started by nohup goes on when its terminal hangs up.
#[test]
#[ignore = "needs root"]
fn a_recorder_that_is_to_outlive_its_terminal_does() {
    let folder = Scratch::new();
    let target = mixed(&folder);
    let mut command = dwell();
    command.current_dir(folder.path());
    command.args(["record", "-q", "-o", "x.dwell", "-p"]);
    command.arg(target.pid().to_string());
    // SAFETY: a system call on the process to be.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        });
    }
    let mut recorder = Process::start(&mut command);
    attached(&mut recorder);
    recorder.signal(libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(500));
    assert!(recorder.is_alive());
    recorder.signal(libc::SIGTERM);
    recorder.end().good();
    assert!(load(folder.join("x.dwell")).meta.complete);
}

/// When the last sums of a recording were read.
fn known_until(tables: &Tables) -> u64 {
    tables.threads.iter().map(|t| t.until_ns).max().unwrap_or(0)
}

/// Killed at any instant: it opens, says what it is, and lacks at most its last second.
#[test]
#[ignore = "needs root"]
fn a_killed_recorder_leaves_a_recording_short_of_a_second() {
    // A segment is closed every 0.9 s, and the ring is read every 0.1 s. The rest is for a machine
    // on which the recorder itself has to wait for a processor.
    const MOST_NS: u64 = 1_300_000_000;
    let folder = Scratch::new();
    let mut target = mixed(&folder);
    let pid = target.pid().to_string();
    let mut random = Random::new();
    for round in 0..10 {
        let mut recorder = recorder(&folder, &["-p", &pid]);
        let objects = attached(&mut recorder);
        // Before that instant nothing was recorded, so nothing is missing.
        let began = boottime_ns();
        std::thread::sleep(Duration::from_millis(random.below(2_500)));
        recorder.signal(libc::SIGKILL);
        let killed = boottime_ns();
        recorder.end();
        objects.assert_gone();
        let tables = load(folder.join("x.dwell"));
        assert!(!tables.meta.complete);
        assert_closed(&tables);
        let known = known_until(&tables).max(began);
        let missing_ms = killed.saturating_sub(known) / 1_000_000;
        eprintln!(
            "round {round}: {missing_ms} ms missing, {} samples",
            tables.samples.len()
        );
        assert!(
            killed.saturating_sub(known) <= MOST_NS,
            "round {round}: {missing_ms} ms missing"
        );
        let ran = run_in(&folder, &["report", "x.dwell"]).good();
        let all = format!("{}{}", ran.text(), ran.stderr);
        assert!(all.contains("cut short"), "{all}");
        if tables.samples.len() > 100 {
            // The names are written at the end, which it did not reach: reading finds them.
            assert!(ran.text().contains("solve_equations"), "{all}");
        }
        // In turn: each looks for the names anew.
        let format = ["folded", "svg", "pprof"][round % 3];
        let name = format!("x.{format}");
        run_in(&folder, &["export", "x.dwell", "--to", format, "-o", &name]).good();
    }
    assert!(target.is_alive());
}

/// The same of threads that never switch, of which the kernel has nothing to report.
#[test]
#[ignore = "needs root"]
fn a_killed_recorder_knows_of_threads_that_slept_throughout() {
    let folder = Scratch::new();
    let mut target = Process::start(Command::new(program("sleepers")).arg("60"));
    target.wait_for_output("}");
    let mut recorder = recorder(&folder, &["-p", &target.pid().to_string()]);
    let objects = attached(&mut recorder);
    std::thread::sleep(Duration::from_millis(4_000));
    recorder.signal(libc::SIGKILL);
    let killed = boottime_ns();
    recorder.end();
    objects.assert_gone();
    let tables = load(folder.join("x.dwell"));
    assert_eq!(tables.threads.len(), 8);
    for thread in &tables.threads {
        let missing = killed - thread.until_ns;
        assert!(
            missing < 3 * NS_PER_SECOND / 2,
            "{}: {missing} ns missing",
            thread.name
        );
    }
}

/// A small file system of its own, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(folder: &Scratch, kib: u32) -> Self {
        let path = folder.join("disk");
        fs::create_dir(&path).expect("a folder");
        let size = format!("size={kib}k");
        let mount = ["-t", "tmpfs", "-o", &size, "dwell-test"];
        run(Command::new("mount").args(mount).arg(&path)).good();
        SmallDisk(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root"]
fn a_full_disk_is_told_and_harms_nobody() {
    let folder = Scratch::new();
    // Room for the first second, with all its stacks, and for little more.
    let disk = SmallDisk::new(&folder, 800);
    let (output, truth) = (disk.0.join("x.dwell"), folder.join("truth.json"));
    let mut command = dwell();
    command.args(["record", "-o"]).arg(&output).arg("--");
    command
        .arg(program("waits"))
        .args(["--duration", "6", "--dir"]);
    command.arg(folder.path()).arg("--json").arg(&truth);
    let ran = run(&mut command);
    // The target ran to its end and has its answer.
    let text = fs::read_to_string(&truth).expect("the target wrote its answer");
    serde_json::from_str::<serde_json::Value>(&text).expect("a whole answer");
    let ran = ran.told("No space left on device");
    assert!(
        ran.stderr.contains("free space"),
        "no remedy: {}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("read"),
        "what of the rest? {}",
        ran.stderr
    );
    // What was written opens, and says what it lacks.
    assert!(
        !ran.stderr.contains("dwell: recorded"),
        "as if all was well: {}",
        ran.stderr
    );
    assert_eq!(ran.stderr.matches("can be read").count(), 1);
    let tables = load(&output);
    assert!(!tables.threads.is_empty() && !tables.samples.is_empty());
    assert_closed(&tables);
    let losses = &tables.meta.losses;
    let not_written = |table: &str| losses.get(&dwell_recording::lost_rows(table)).copied();
    assert!(not_written("samples") > Some(0), "{losses:?}");
    // The exact sums are there all the same, up to the end: none of the seconds is missing.
    assert!(tables.meta.complete);
    for table in ["threads", "processes", "sites", "site_times"] {
        assert_eq!(not_written(table), None, "{table}: {losses:?}");
    }
    assert!(tables.threads.iter().all(|t| t.ended), "all have ended");
    let blocked: u64 = tables.threads.iter().map(|t| t.blocked_ns).sum();
    let at_sites: u64 = tables.site_times.iter().map(|s| s.blocked_ns).sum();
    assert!(
        at_sites.abs_diff(blocked) < blocked / 100,
        "{at_sites} of {blocked} ns asleep are at sites"
    );
    let ran = run(dwell().arg("report").arg(&output)).good();
    assert!(!ran.text().contains("Nothing was lost."), "{}", ran.text());
}

/// A disk that has no room for even the first file.
#[test]
#[ignore = "needs root"]
fn a_disk_that_is_full_from_the_start_is_told() {
    let folder = Scratch::new();
    let disk = SmallDisk::new(&folder, 16);
    fs::write(disk.0.join("filler"), vec![0; 12 << 10]).expect("write");
    let mut command = dwell();
    command.args(["record", "-o"]).arg(disk.0.join("x.dwell"));
    let ran = run(command.args(["--", "echo", "ran"]));
    ran.told("No space left on device");
}

/// A process that ends while it is being attached, at any instant: recorded or told, never a hang.
#[test]
#[ignore = "needs root"]
fn targets_that_vanish() {
    let folder = Scratch::new();
    let mut random = Random::new();
    let (mut recorded, mut refused) = (0, 0);
    // How long it takes from the start of dwell to the attached target, here and now.
    let mut idle = Process::start(Command::new("sleep").arg("60"));
    let begun = Instant::now();
    let mut first = recorder(
        &folder,
        &["-p", &idle.pid().to_string(), "--duration", "1ms"],
    );
    first.end().good();
    let span = begun.elapsed().as_millis() as u64;
    assert!(idle.is_alive());
    for round in 0..30 {
        let (sleep, threads) = (random.below(span * 3 / 2), 20);
        let seconds = format!("{}", sleep as f64 / 1e3);
        // In turn: a process that sleeps, one with threads, one with children.
        let mut command = match round % 3 {
            0 => Command::new("sleep"),
            1 => {
                let mut command = Command::new(program("manythreads"));
                command.args(["pool", &threads.to_string()]);
                command
            }
            _ => Command::new(program("forkstorm")),
        };
        let mut target = Process::start(command.arg(&seconds));
        let pid = target.pid().to_string();
        // Somebody has to reap it, else it stays as a zombie, which is a case of its own.
        let reaper = std::thread::spawn(move || target.end());
        let begun = Instant::now();
        let mut recorder = recorder(&folder, &["-q", "-p", &pid]);
        let ran = recorder.end();
        assert!(begun.elapsed() < Duration::from_secs(10), "round {round}");
        reaper.join().expect("the target ends");
        if ran.code() == 0 {
            recorded += 1;
            let tables = load(folder.join("x.dwell"));
            assert!(tables.meta.complete);
            assert_closed(&tables);
            fs::remove_dir_all(folder.join("x.dwell")).expect("remove");
        } else {
            refused += 1;
            ran.told(&format!("process {pid}"));
        }
    }
    eprintln!("{recorded} recorded, {refused} refused");
    let zombie = Process::start(&mut Command::new("true"));
    until("a zombie", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", zombie.pid()));
        stat.is_ok_and(|s| s.contains(") Z "))
    });
    let ran = recorder(
        &folder,
        &["-p", &zombie.pid().to_string(), "--duration", "5s"],
    )
    .end();
    assert!(ran.code() == 1 || ran.code() == 0, "{}", ran.stderr);
    let dead = zombie.pid();
    drop(zombie);
    let ran = recorder(&folder, &["-p", &dead.to_string()])
        .end()
        .told(&format!("process {dead}"));
    assert!(ran.stderr.contains("pgrep"), "no remedy: {}", ran.stderr);
}

/// A process that becomes another program while it is attached, and later.
#[test]
#[ignore = "needs root"]
fn exec_during_attach() {
    let folder = Scratch::new();
    let mut random = Random::new();
    for round in 0..8 {
        let mut target = Process::start(Command::new(program("execer")).arg("12"));
        std::thread::sleep(Duration::from_millis(random.below(700)));
        let mut recorder = recorder(&folder, &["-q", "-p", &target.pid().to_string()]);
        recorder.end().good();
        let said = target.end().good().text();
        let ended = boottime_ns();
        assert_eq!(said.lines().count(), 12, "the target was disturbed: {said}");
        let tables = load(folder.join("x.dwell"));
        assert!(tables.meta.complete);
        assert_closed(&tables);
        assert_eq!(
            tables.processes.len(),
            1,
            "round {round}: {:?}",
            tables.processes
        );
        // The main thread's life has no gap, whoever it was at the time: a thread that executes takes
        // over the process' id, so the lives of two rows with that id overlap a little.
        let pid = target.pid();
        let main = tables.threads.iter().filter(|t| t.tid == pid);
        let mut lives: Vec<_> = main.map(|t| (t.start_ns, t.until_ns)).collect();
        lives.sort_unstable();
        let mut known_until = tables.meta.start_ns;
        let mut gaps = 0;
        for (start, end) in lives {
            gaps += start.saturating_sub(known_until);
            known_until = known_until.max(end);
        }
        let window = known_until - tables.meta.start_ns;
        assert!(
            gaps < window / 1_000,
            "round {round}: {gaps} of {window} ns are missing"
        );
        // Up to half a second at the end is the test's way of noticing.
        let missing = ended.saturating_sub(known_until);
        assert!(
            missing < NS_PER_SECOND / 2,
            "round {round}: {missing} ns missing"
        );
        // Whole generations were recorded by their true names.
        let named = |name: &str| tables.symbols.iter().any(|s| s.function == name);
        assert!(
            named("compute_in_stage") && named("sleep_in_stage"),
            "round {round}"
        );
        assert!(named("stage_even") && named("stage_odd"), "round {round}");
        fs::remove_dir_all(folder.join("x.dwell")).expect("remove");
    }
}

const MANY: usize = 10_000;

/// Checks a recording of the pool: each of its threads once, all of the time, little memory.
fn assert_holds_the_pool(tables: &Tables, how: &str) {
    let pools = tables
        .processes
        .iter()
        .filter(|p| p.exe.ends_with("/manythreads"));
    let pools: Vec<u32> = pools.map(|p| p.process).collect();
    assert_eq!(pools.len(), 1, "{how}");
    let threads: Vec<_> = tables
        .threads
        .iter()
        .filter(|t| t.process == pools[0])
        .collect();
    // The pool, and the main thread.
    assert_eq!(threads.len(), MANY + 1, "{how}: {:?}", tables.meta.losses);
    assert!(threads.iter().all(|t| t.ns_tid == t.tid), "{how}");
    assert_closed(tables);
    assert_eq!(lost_beyond_stacks(tables), []);
    let memory = tables.meta.recorder.peak_rss_bytes;
    eprintln!(
        "{how}: {} MiB, {} ms of CPU time in {} ms",
        memory >> 20,
        tables.meta.recorder.cpu_ns / 1_000_000,
        (tables.meta.end_ns - tables.meta.start_ns) / 1_000_000
    );
    assert!(memory < MEMORY_LIMIT, "{how}: {} MiB", memory >> 20);
}

#[test]
#[ignore = "needs root"]
fn ten_thousand_threads_are_all_counted() {
    let folder = Scratch::new();
    let many = MANY.to_string();
    {
        let mut command = Command::new(program("manythreads"));
        let mut target = Process::start(command.args(["pool", &many, "60"]));
        target.wait_for_output("ready");
        let pid = target.pid().to_string();
        recorder(&folder, &["-q", "-p", &pid, "--duration", "3s"])
            .end()
            .good();
        let tables = load(folder.join("x.dwell"));
        assert_holds_the_pool(&tables, "attached");
        // Each of them lived through the whole window.
        let window = tables.meta.end_ns - tables.meta.start_ns;
        let partial = tables
            .threads
            .iter()
            .filter(|t| (t.until_ns - t.start_ns).abs_diff(window) > window / 20);
        assert_eq!(
            partial.count(),
            0,
            "threads with less than the whole window"
        );
        assert!(target.is_alive());
    }
    fs::remove_dir_all(folder.join("x.dwell")).expect("remove");
    let pool = program("manythreads");
    recorder(&folder, &["-q", "--", &pool, "pool", &many, "3"])
        .end()
        .good();
    let tables = load(folder.join("x.dwell"));
    assert_holds_the_pool(&tables, "launched");
    assert!(tables.threads.iter().all(|t| t.ended), "all have ended");
}

/// Threads that are born and die all the time, by the thousand.
#[test]
#[ignore = "needs root"]
fn a_storm_of_threads_is_counted() {
    let folder = Scratch::new();
    let storm = program("manythreads");
    let mut recorder = recorder(&folder, &["-q", "--", &storm, "storm", "50", "8"]);
    let grown = growth(&recorder);
    let ran = recorder.end().good();
    let born = number(&ran.text(), "born");
    let each = grown / (born / 2);
    assert!(each < 300, "{each} bytes of every thread there was");
    let tables = load(folder.join("x.dwell"));
    assert_closed(&tables);
    let seen = tables.threads.len() as u64;
    eprintln!("{born} born, {seen} seen, {:?}", tables.meta.losses);
    assert_eq!(lost_beyond_stacks(&tables), []);
    assert_eq!(seen, born + 1, "and the main thread");
}

/// By how much the recorder's memory grows between its fourth and its eighth second, bytes.
fn growth(recorder: &Process) -> u64 {
    std::thread::sleep(Duration::from_secs(4));
    let resident = || size(recorder.pid() as i32, "VmRSS");
    let before = resident();
    std::thread::sleep(Duration::from_millis(3900));
    resident().saturating_sub(before)
}

/// A build, as it were: one process after the other.
#[test]
#[ignore = "needs root"]
fn processes_that_are_over_take_no_memory() {
    let folder = Scratch::new();
    let build = "end=$((SECONDS + 9)); while [ $SECONDS -lt $end ]; do /bin/true; done";
    let mut recorder = recorder(&folder, &["-q", "--", "bash", "-c", build]);
    let grown = growth(&recorder);
    recorder.end().good();
    let tables = load(folder.join("x.dwell"));
    let each = grown / (tables.processes.len() as u64 / 2);
    assert!(each < 1500, "{each} bytes of every process there was");
}

/// A number in the JSON lines that a program printed, by the first key that contains `name`.
fn number(text: &str, name: &str) -> u64 {
    let values = text
        .lines()
        .filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
    let mut fields = values.filter_map(|v| v.as_object().cloned()).flatten();
    let field = fields.find(|(key, value)| key.contains(name) && value.is_u64());
    field
        .and_then(|f| f.1.as_u64())
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
#[ignore = "needs root"]
fn a_storm_of_processes_is_followed() {
    let folder = Scratch::new();
    let storm = program("forkstorm");
    let before = stolen_ns();
    let mut recorder = recorder(&folder, &["-q", "--", &storm, "3", "8"]);
    let ran = recorder.end().good();
    let stolen = stolen_ns() - before;
    let (born, executed) = (number(&ran.text(), "born"), number(&ran.text(), "exec"));
    let cpu = serde_json::from_str::<serde_json::Value>(&ran.text()).expect("JSON");
    let cpu = (cpu["children_cpu_s"].as_f64().expect("a number") * 1e9) as u64;
    let tables = load(folder.join("x.dwell"));
    assert!(tables.meta.complete);
    assert_closed(&tables);
    assert_eq!(lost_beyond_stacks(&tables), []);
    assert!(tables.meta.recorder.peak_rss_bytes < MEMORY_LIMIT);
    assert_eq!(tables.processes.len() as u64, born + 1);
    let first = tables
        .processes
        .iter()
        .min_by_key(|p| p.start_ns)
        .expect("the command");
    let children: Vec<_> = tables
        .processes
        .iter()
        .filter(|p| p.process != first.process)
        .collect();
    for child in &children {
        assert_eq!(child.parent_pid, first.pid, "{child:?}");
        assert_eq!(child.exit_status, Some(0), "{child:?}");
        assert!(
            child.end_ns.is_some_and(|end| end > child.start_ns),
            "{child:?}"
        );
    }
    let named = children.iter().filter(|p| p.name == "true").count() as u64;
    assert_eq!(named, executed, "children that executed another program");
    // Processor time of the children, by the kernel's own count (getrusage). It also counts what a
    // child spends after its last switch and within its own creation: some 10 us of 700. What the host stole it
    // does not count.
    let of_child: HashSet<u32> = children.iter().map(|p| p.process).collect();
    let threads = tables
        .threads
        .iter()
        .filter(|t| of_child.contains(&t.process));
    let running: u64 = threads.map(|t| t.running_ns).sum();
    eprintln!("{born} born, running {running} ns, getrusage {cpu} ns, stolen {stolen} ns");
    assert!(
        running > cpu - cpu / 20 && running < cpu + cpu / 20 + stolen,
        "running {running} ns, getrusage {cpu} ns"
    );
}

/// Attached to the parent in the middle of it.
#[test]
#[ignore = "needs root"]
fn a_storm_of_processes_is_followed_from_its_middle() {
    let folder = Scratch::new();
    let mut target = Process::start(Command::new(program("forkstorm")).args(["30", "8"]));
    std::thread::sleep(Duration::from_millis(200));
    let pid = target.pid();
    recorder(&folder, &["-q", "-p", &pid.to_string(), "--duration", "2s"])
        .end()
        .good();
    assert!(target.is_alive(), "{}", target.stderr());
    let tables = load(folder.join("x.dwell"));
    assert_closed(&tables);
    assert_eq!(lost_beyond_stacks(&tables), []);
    let window = (tables.meta.start_ns, tables.meta.end_ns);
    let children: Vec<_> = tables.processes.iter().filter(|p| p.pid != pid).collect();
    assert!(children.len() > 100, "only {} children", children.len());
    assert!(children.iter().all(|c| c.parent_pid == pid));
    // Whoever was born and died in the window has a whole life, an end and a status.
    let ended: Vec<_> = children.iter().filter(|c| c.end_ns.is_some()).collect();
    assert!(
        children.len() - ended.len() <= 8,
        "at most 8 live at a time"
    );
    assert!(ended.iter().all(|c| c.exit_status == Some(0)));
    assert!(
        children
            .iter()
            .all(|c| c.start_ns >= window.0 && c.end_ns.unwrap_or(0) <= window.1)
    );
}

/// A parallel build: make, its shells, and their children.
#[test]
#[ignore = "needs root"]
fn a_parallel_build_is_followed() {
    const TARGETS: usize = 200;
    let folder = Scratch::new();
    let names: Vec<String> = (0..TARGETS).map(|i| format!("t{i}")).collect();
    // Each recipe: a shell with a pipeline of two processes, and a status of its own.
    let makefile = format!(
        "all: {0}\n{0}:\n\t@echo $@ | (read name; exit 0) || exit 3; exec /bin/true\n",
        names.join(" ")
    );
    fs::write(folder.join("Makefile"), makefile).expect("write");
    recorder(&folder, &["-q", "--", "make", "-s", "-j", "8"])
        .end()
        .good();
    let tables = load(folder.join("x.dwell"));
    assert_closed(&tables);
    assert_eq!(lost_beyond_stacks(&tables), []);
    // make, and for each target its shell and the two sides of the pipeline.
    assert_eq!(tables.processes.len(), 1 + 3 * TARGETS);
    assert!(tables.processes.iter().all(|p| p.exit_status == Some(0)));
    let make = tables
        .processes
        .iter()
        .find(|p| p.name == "make")
        .expect("make");
    let shells = tables.processes.iter().filter(|p| p.parent_pid == make.pid);
    let shells: Vec<_> = shells.collect();
    assert_eq!(shells.len(), TARGETS);
    // Each shell ended as /bin/true.
    assert!(shells.iter().all(|s| s.name == "true"));
}

/// A program whose file is gone, or another one by now: still recorded, and no wrong names.
#[test]
#[ignore = "needs root"]
fn deleted_programs() {
    let folder = Scratch::new();
    let file = fs::read(program("deleted")).expect("read");
    let build_id = build_id_of(&file);
    let symbols = Path::new(&program(".debug")).join("deleted.debug");
    let symbols = Command::new("nm").arg(symbols).output();
    let begins = String::from_utf8(symbols.expect("nm").stdout).expect("nm's list");
    let begins: HashSet<&str> = begins
        .lines()
        .filter_map(|line| Some(line.split_once(' ')?.0.trim_start_matches('0')))
        .collect();
    for mode in ["delete", "replace"] {
        let mut command = Command::new(program("deleted"));
        let mut target = Process::start(command.args([mode, "4"]).arg(folder.path()));
        let gone = || {
            let exe = fs::read_link(format!("/proc/{}/exe", target.pid()));
            exe.is_ok_and(|path| path.to_string_lossy().ends_with("(deleted)"))
        };
        until("the program to be deleted", gone);
        let pid = target.pid().to_string();
        recorder(&folder, &["-q", "-p", &pid, "--duration", "1500ms"])
            .end()
            .good();
        assert!(target.is_alive());
        let tables = load(folder.join("x.dwell"));
        assert_closed(&tables);
        let weight = |wanted: &dyn Fn(&str) -> bool| -> u64 {
            let of_stack = |stack: u32| tables.stacks.iter().find(|s| s.stack == stack);
            let samples = tables.samples.iter();
            let samples = samples.filter(|s| of_stack(s.stack).is_some_and(|s| wanted(&s.end)));
            samples.map(|s| s.weight_ns).sum()
        };
        let (whole, all) = (weight(&|end| end == "complete"), weight(&|_| true));
        // In so short a recording one stack is a percent.
        assert!(
            whole > all / 100 * 95,
            "{mode}: {whole} of {all} ns have whole stacks"
        );
        let text = run_in(&folder, &["report", "x.dwell"]).good().text();
        assert!(text.contains("sleep clock_nanosleep"), "{mode}: {text}");
        // The file is gone and with it the way to its debug information: the frames keep the place in
        // the file and its build id, and never get names from what lies at the path now.
        let place = folder.path().to_string_lossy().into_owned();
        let own = |f: &&FrameRow| f.module.contains(&place);
        let own: Vec<_> = tables.frames.iter().filter(own).collect();
        assert!(!own.is_empty(), "{mode}: no frame of the program itself");
        assert!(
            own.iter().all(|f| f.build_id == build_id),
            "{mode}: {own:?}"
        );
        let named = tables
            .symbols
            .iter()
            .filter(|s| own.iter().any(|f| f.frame == s.frame));
        let wrong = |s: &&SymbolRow| {
            let name = s.function.as_str();
            // Without a name it is called by the place where it begins, in the file that was recorded.
            let begin = name
                .split_once("+0x")
                .map(|(_, at)| at.trim_end_matches(']'));
            !TRUE_NAMES.contains(&name) && !begin.is_some_and(|at| begins.contains(at))
        };
        let wrong: Vec<_> = named.filter(wrong).collect();
        assert!(wrong.is_empty(), "{mode}: {wrong:?}");
    }
}

/// The build id in a file, in hex: the note's name is `GNU`, its type 3, its length 20.
fn build_id_of(file: &[u8]) -> String {
    let head = [4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0];
    let at = file
        .windows(head.len())
        .position(|w| w == head)
        .expect("a build id");
    let id = &file[at + head.len()..][..20];
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Functions of `deleted.c`, and what a compiler and linker add.
const TRUE_NAMES: [&str; 10] = [
    "compute_after_deletion",
    "sleep_after_deletion",
    "work_after_deletion",
    "spin_cpu_ns",
    "sleep_ns",
    "thread_cpu_ns",
    "clock_gettime@plt",
    "nanosleep@plt",
    "main",
    "_start",
];

/// Output that cannot be written, or is something else, is refused before anything is recorded.
#[test]
#[ignore = "needs root"]
fn outputs_that_cannot_be() {
    let folder = Scratch::new();
    fs::create_dir(folder.join("data")).expect("a folder");
    fs::write(folder.join("data/thesis.tex"), "chapter 1").expect("write");
    fs::write(folder.join("file"), "text").expect("write");
    let marker = folder.join("marker");
    let touch = ["--", "touch", marker.to_str().expect("UTF-8")];
    for (output, cause) in [
        ("data", "thesis.tex"),
        ("file", "file"),
        ("file/x.dwell", "file"),
        ("/proc/x.dwell", "/proc/x.dwell"),
        ("/sys/x.dwell", "/sys/x.dwell"),
    ] {
        let ran = run_in(&folder, &[&["record", "-o", output][..], &touch].concat()).told(cause);
        assert!(
            ran.stderr.matches("os error").count() <= 1,
            "said twice: {}",
            ran.stderr
        );
        assert!(
            !marker.exists(),
            "{output}: the command ran although nothing could be recorded"
        );
    }
    assert_eq!(
        fs::read_to_string(folder.join("data/thesis.tex")).expect("read"),
        "chapter 1"
    );
    assert_eq!(fs::read_dir(folder.join("data")).expect("read").count(), 1);
    assert_eq!(
        fs::read_to_string(folder.join("file")).expect("read"),
        "text"
    );
}

/// A recording in the place of an earlier, larger one has nothing of it.
#[test]
#[ignore = "needs root"]
fn an_earlier_recording_is_replaced_whole() -> io::Result<()> {
    let folder = Scratch::new();
    let (storm, path) = (program("forkstorm"), folder.join("x.dwell"));
    recorder(&folder, &["-q", "--", &storm, "2"]).end().good();
    let (before, files) = (load(&path), count(&path)?);
    recorder(&folder, &["-q", "--", "true"]).end().good();
    let after = load(&path);
    assert!(before.processes.len() > 10 && after.processes.len() == 1);
    assert_eq!(after.meta.target, "true");
    assert!(count(&path)? < files);
    Ok(())
}

fn count(folder: &Path) -> io::Result<usize> {
    Ok(fs::read_dir(folder)?.count())
}
