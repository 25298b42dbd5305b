//! Stacks of real programs: nearly all of the weight reaches the outermost frame, on and off the
//! processor, launched and attached; and the frames are those that the program is known to have.

use crate::stacks_support::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

// ---- completeness: our programs ----

/// Records a launched test program and checks that its stacks are complete.
fn complete_program(name: &str, args: &[&str]) -> Recorded {
    let path = program(name);
    let recorded = launch(&[&[path.as_str()], args].concat());
    check_complete(&format!("{name} {}", args.join(" ")), &recorded);
    recorded
}

/// The same for a process that runs already.
fn complete_attached(name: &str, args: &[&str], seconds: f64) -> Recorded {
    let path = program(name);
    let running = Running::start(Command::new(&path).args(args));
    std::thread::sleep(Duration::from_millis(300));
    let recorded = attach(&[running.pid()], seconds);
    check_complete(&format!("{name} {} (attached)", args.join(" ")), &recorded);
    recorded
}

/// A script that runs for as many seconds as its argument says, launched and attached to.
fn complete_script(path: &str, flag: &str, script: &str) {
    if installed(path) {
        check_complete(path, &launch(&[path, flag, script, "2"]));
        let running = Running::start(Command::new(path).args([flag, script, "20"]));
        std::thread::sleep(Duration::from_millis(600));
        check_complete(
            &format!("{path} (attached)"),
            &attach(&[running.pid()], 2.0),
        );
    }
}

/// Every stack that holds `leaf` has these names, outermost first (others may lie between); and
/// `leaf` has at least `seconds` of the weight.
fn check_frames(recorded: &Recorded, leaf: &str, wanted: &[&str], seconds: f64) {
    let index = Index::of(&recorded.tables);
    let mut seen = 0;
    let mut wrong = 0;
    let mut example = Vec::new();
    for (stack, weight) in index.weights() {
        let names = index.user_names(stack);
        if !names.iter().any(|n| n == leaf) {
            continue;
        }
        seen += weight;
        // How many stacks are cut short is checked elsewhere; what such a one still has must be right.
        let cut = index.stack(stack).end != "complete";
        let there = wanted
            .iter()
            .position(|f| cut && names.first().is_some_and(|n| n == f));
        let wanted = &wanted[there.unwrap_or(0)..];
        if !in_order(&names, wanted) {
            wrong += weight;
            example = names;
        }
    }
    println!(
        "    {leaf}: {:.3} s, of it wrong {:.6} s",
        seen as f64 / 1e9,
        wrong as f64 / 1e9
    );
    assert!(
        seen as f64 / 1e9 >= seconds,
        "{leaf} has {:.3} s only",
        seen as f64 / 1e9
    );
    assert!(
        wrong as f64 <= seen as f64 * (1.0 - COMPLETE),
        "{leaf}: {wrong} of {seen} ns are not below {wanted:?}; the last: {example:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn deep_recursion_down_to_the_start() {
    let recorded = complete_program("deep", &["recursion", "2"]);
    let index = Index::of(&recorded.tables);
    let mut checked = 0;
    for (stack, weight) in index.weights() {
        let names = index.user_names(stack);
        let deep = names.iter().filter(|n| is_function(n, "descend")).count();
        let at_bottom = |f: &str| names.iter().any(|n| is_function(n, f));
        if at_bottom("compute_at_bottom") || at_bottom("sleep_at_bottom") {
            assert_eq!(deep, 1000, "{:?} …", &names[..names.len().min(8)]);
            assert!(names[0].contains("clone3"), "{:?}", &names[..3]);
            assert_eq!(index.stack(stack).end, "complete");
            checked += weight;
        }
    }
    assert!(checked > 1_000_000_000, "only {checked} ns at the bottom");
}

/// A C++ name with its arguments, or without them.
fn is_function(name: &str, function: &str) -> bool {
    let bare = name.split('(').next().unwrap_or(name);
    bare.rsplit("::").next() == Some(function)
}

#[test]
#[ignore = "needs root"]
fn deep_wide_frames_exceptions_and_alloca() {
    for mode in ["frames", "exceptions", "alloca"] {
        complete_program("deep", &[mode, "2"]);
    }
}

#[test]
#[ignore = "needs root"]
fn signal_handlers_and_what_they_interrupt() {
    for mode in ["normal", "altstack", "nested", "asleep"] {
        let recorded = complete_program("signals", &[mode, "1.5"]);
        let interrupted = if mode == "asleep" {
            "sleep_interrupted"
        } else {
            "interrupted_compute"
        };
        let below = ["run_target", interrupted, "__restore_rt", "on_signal"];
        for leaf in ["compute_in_handler", "sleep_in_handler"] {
            let wanted = [&below[..], &[leaf]].concat();
            check_frames(&recorded, leaf, &wanted, 0.02);
        }
    }
}

#[test]
#[ignore = "needs root"]
fn callbacks_from_libc() {
    let recorded = complete_program("qsort", &["2"]);
    let below = [
        "_start",
        "main",
        "sort_numbers",
        "~qsort_r",
        "compare_numbers",
    ];
    check_frames(&recorded, "compare_numbers", &below, 0.2);
    let rest = [&below[..], &["rest_in_comparison"]].concat();
    check_frames(&recorded, "rest_in_comparison", &rest, 0.1);
}

#[test]
#[ignore = "needs root"]
fn the_vdso() {
    let recorded = complete_program("vdso", &["2"]);
    let index = Index::of(&recorded.tables);
    let (mut in_vdso, mut total) = (0, 0);
    for (stack, weight) in index.weights() {
        total += weight;
        let frames = &index.stack(stack).frames;
        if frames.iter().any(|&f| index.frame(f).module == "[vdso]") {
            let names = index.user_names(stack);
            if in_order(&names, &["_start", "main", "read_clock"]) {
                in_vdso += weight;
                continue;
            }
            // It reads a clock before and after that, too: a sample may meet it there.
            let once = names.iter().any(|n| n == "clock_read_ns");
            assert!(once && in_order(&names, &["_start", "main"]), "{names:?}");
        }
    }
    // The program says: nearly all of its time.
    assert!(in_vdso * 2 > total, "{in_vdso} of {total} ns in the vDSO");
}

#[test]
#[ignore = "needs root"]
fn linkage_stubs_and_lazy_binding() {
    let recorded = complete_program("plt", &["hot", "2"]);
    let index = Index::of(&recorded.tables);
    let mut in_stub = 0;
    for (stack, weight) in index.weights() {
        let names = index.user_names(stack);
        if names
            .last()
            .is_some_and(|n| n.starts_with("plt_call_") && n.ends_with("@plt"))
        {
            in_stub += weight;
        }
    }
    // How much it is differs from processor to processor: some samples are enough to look at.
    assert!(in_stub > 20_000_000, "only {in_stub} ns in linkage stubs");
    check_frames(
        &recorded,
        "call_through_plt",
        &["_start", "main", "call_through_plt"],
        1.0,
    );
    complete_program("plt", &["resolve", "2"]);
}

#[test]
#[ignore = "needs root"]
fn realigned_stacks() {
    let recorded = complete_program("realign", &["2"]);
    let pair = ["aligned_locals", "aligned_many_arguments"];
    let mut below = vec!["_start", "main"];
    (0..8).for_each(|_| below.extend([pair[1]]));
    check_frames(
        &recorded,
        "sleep_aligned",
        &[&below[..], &["sleep_aligned"]].concat(),
        0.3,
    );
    check_frames(
        &recorded,
        "compute_aligned",
        &[&below[..], &["compute_aligned"]].concat(),
        0.3,
    );
}

#[test]
#[ignore = "needs root"]
fn children_that_share_memory_or_live_shortly() {
    let recorded = complete_program("vfork", &["2"]);
    let stack = ["_start", "main", "run_child"];
    for leaf in ["sleep_in_child", "compute_in_child"] {
        check_frames(&recorded, leaf, &[&stack[..], &[leaf]].concat(), 0.2);
    }
    let recorded = complete_program("spawn", &["2"]);
    for leaf in ["compute_as_spawned", "sleep_as_spawned"] {
        check_frames(&recorded, leaf, &["_start", "main", leaf], 0.2);
    }
    complete_program("forkstorm", &["2"]);
    complete_program("execer", &["4"]);
}

#[test]
#[ignore = "needs root"]
fn code_that_comes_and_goes() {
    let recorded = complete_program("dlopen", &["2"]);
    for (leaf, helper) in [("late_a", "late_a_sleeps"), ("late_b", "late_b_sleeps")] {
        check_frames(
            &recorded,
            helper,
            &["_start", "main", "call_late", leaf, helper],
            0.2,
        );
    }
    let recorded = complete_program("jit", &["2"]);
    let below = [
        "_start",
        "main",
        "call_jitted",
        "jitted_outer",
        "jitted_inner",
    ];
    check_frames(&recorded, "jitted_inner", &below, 0.5);
    check_frames(
        &recorded,
        "from_jit",
        &[&below[..], &["from_jit"]].concat(),
        0.2,
    );
}

#[test]
#[ignore = "needs root"]
fn other_runtimes() {
    complete_program("tokio-mix", &["2"]);
    complete_program("gohot", &["2"]);
    let recorded = complete_program("static_musl", &["2"]);
    let below = vec!["dig"; 20];
    check_frames(
        &recorded,
        "sleep_statically",
        &[&below[..], &["sleep_statically"]].concat(),
        0.5,
    );
}

#[test]
#[ignore = "needs root"]
fn a_service_and_its_waits() {
    let scratch = Scratch::new();
    let dir = scratch.path().to_string_lossy().into_owned();
    complete_program("mixed", &["--seconds", "3", "--dir", &dir]);
    complete_program("waits", &["--duration", "2", "--dir", &dir]);
}

/// What a kernel before 6.15 gives: stacks taken before their waits.
#[test]
#[ignore = "needs root"]
fn waits_where_the_kernel_does_not_tell_of_their_end() {
    let scratch = Scratch::new();
    let dir = scratch.path().to_string_lossy().into_owned();
    let waits = program("waits");
    let mut dwell = Command::new(env!("CARGO_BIN_EXE_dwell"));
    dwell.env("DWELL_STACKS_BEFORE", "1");
    let command = ["--", &waits, "--duration", "3", "--dir", &dir];
    let recorded = record_with(Scratch::new(), dwell, &command);
    let share = Share::of(&recorded.tables);
    share.print("waits, stacks taken before", &recorded.tables);
    assert!(share.complete() >= 0.97, "{}", share.complete());
    check_frames(
        &recorded,
        "wait_condvar",
        &["worker_main", "wait_condvar"],
        1.0,
    );
    check_frames(
        &recorded,
        "wait_pipe_read",
        &["worker_main", "wait_pipe_read"],
        1.0,
    );
}

#[test]
#[ignore = "needs root"]
fn attached_to_our_programs() {
    complete_attached("tokio-mix", &["20"], 1.5);
    complete_attached("gohot", &["20"], 1.5);
    complete_attached("static_musl", &["20"], 1.5);
    complete_attached("deep", &["recursion", "20"], 1.5);
    complete_attached("signals", &["nested", "20"], 1.5);
    complete_attached("jit", &["20"], 1.5);
    complete_attached("vfork", &["20"], 1.5);
    complete_attached("dlopen", &["20"], 1.5);
}

/// The kernel side knows what an attached process had mapped: its stacks need not be copied.
#[test]
#[ignore = "needs root"]
fn attached_stacks_are_walked_in_the_kernel() {
    few_are_copied(&complete_attached("tokio-mix", &["20"], 1.5));
}

/// Children that are forked before it is known what their parent has mapped, and then compute.
#[test]
#[ignore = "needs root"]
fn stacks_of_early_children_are_walked_in_the_kernel() {
    few_are_copied(&complete_program("pingpong", &["latency", "2"]));
}

fn few_are_copied(recorded: &Recorded) {
    let copied = recorded.tables.meta.recorder.copied_stacks;
    let samples = recorded.tables.samples.len();
    assert!(
        copied * 20 <= samples as u64,
        "{copied} stacks were copied, for {samples} samples"
    );
}

/// Threads that never switch have one stack each, taken at the end.
#[test]
#[ignore = "needs root"]
fn attached_to_sleepers() {
    let mut command = Command::new(program("sleepers"));
    let (running, _) = Running::start_ready(command.arg("20"));
    let recorded = attach(&[running.pid()], 1.0);
    check_complete_of("sleepers (attached)", &recorded, 8);
    for name in [
        "pause",
        "nanosleep",
        "futex",
        "pipe_read",
        "socket_read",
        "poll",
        "epoll",
    ] {
        let function = format!("sleep_in_{name}");
        check_frames(
            &recorded,
            &function,
            &["~clone3", "start_thread", &function],
            0.9,
        );
    }
}

// ---- completeness: programs of the distribution, stripped and without frame pointers ----

#[test]
#[ignore = "needs root"]
fn stockfish() {
    let path = "/usr/games/stockfish";
    if installed(path) {
        check_complete("stockfish", &launch(&[path, "bench", "16", "2", "13"]));
        let mut engine = Running::start(Command::new(path).args(["bench", "16", "2", "99"]));
        std::thread::sleep(Duration::from_millis(200));
        check_complete("stockfish (attached)", &attach(&[engine.pid()], 2.0));
        engine.wait_at_most(Duration::ZERO);
    }
}

const PYTHON: &str = r#"
import sys, time, threading, json, re, sqlite3, hashlib, zlib
seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2
end = time.time() + seconds
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def compute():
    while time.time() < end:
        fib(17)
        sorted(range(3000), key=lambda x: -x)
        json.loads(json.dumps([{"a": i, "b": str(i)} for i in range(300)]))
        re.sub(r"(\d+)x", r"\1y", "12x34x" * 300)
        hashlib.sha256(b"x" * 100000).hexdigest()
        zlib.compress(b"hello" * 10000)
def wait():
    while time.time() < end:
        time.sleep(0.003)
threads = [threading.Thread(target=f) for f in (compute, wait)]
[t.start() for t in threads]
[t.join() for t in threads]
"#;

#[test]
#[ignore = "needs root"]
fn python() {
    complete_script("/usr/bin/python3", "-c", PYTHON);
}

/// What the large files of a folder hold, by their names: others may be kept or not, by how long they happen to take.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let content = |e: fs::DirEntry| {
        let name = e.file_name().to_string_lossy().into_owned();
        (name, fs::read(e.path()).expect("a file"))
    };
    let large = |(_, bytes): &(_, Vec<u8>)| bytes.len() > 50_000;
    entries.map(content).filter(large).collect()
}

#[test]
#[ignore = "needs root"]
fn tables_are_kept_for_the_next_recording() {
    let cache = Scratch::new();
    let kept = cache.path().join("dwell/unwind");
    let record = |what: &str| {
        let mut dwell = Command::new(env!("CARGO_BIN_EXE_dwell"));
        dwell.env("XDG_CACHE_HOME", cache.path());
        let command = ["--", "/usr/bin/python3", "-c", PYTHON, "1"];
        let recorded = record_with(Scratch::new(), dwell, &command);
        let share = Share::of(&recorded.tables);
        share.print(what, &recorded.tables);
        assert!(share.complete() >= 0.995, "{what}: {}", share.complete());
    };
    record("compiled");
    let first = contents(&kept);
    assert!(!first.is_empty());
    record("kept");
    assert_eq!(contents(&kept), first, "nothing was written");
    for name in first.keys() {
        fs::write(kept.join(name), b"dwelltab, but not whole").expect("write");
    }
    record("damaged");
    assert_eq!(contents(&kept), first, "compiled again");
}

const PERL: &str = r#"
use Time::HiRes qw(time sleep);
my $end = time + shift;
sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
while (time < $end) {
    fib(14);
    my @s = sort { $b <=> $a } map { ($_ * 7919) % 10007 } 1 .. 3000;
    my $t = "ab12cd34" x 200; $t =~ s/([a-z]+)(\d+)/$2$1/g;
    sleep 0.005;
}
"#;

#[test]
#[ignore = "needs root"]
fn perl() {
    complete_script("/usr/bin/perl", "-e", PERL);
}

/// Compiled while it runs, by frame pointer; V8's own code between it and C++ has no call frame information.
const JAVASCRIPT: &str = r#"
const { Worker, isMainThread, workerData } = require('worker_threads');
const end = Date.now() + 1000 * Number(process.argv[1] || 1);
if (isMainThread) {
    const shared = new SharedArrayBuffer(8);
    for (let i = 0; i < 2; i++) new Worker(process._eval, { eval: true, workerData: { shared, end } });
    const text = require('fs').readFileSync('/etc/services', 'latin1');
    const turn = () => { text.split('\n').map((l) => l.split(/\s+/)).sort(); if (Date.now() < end) setTimeout(turn, 1); };
    turn();
} else {
    const lock = new Int32Array(workerData.shared);
    let sum = 0;
    while (Date.now() < workerData.end) {
        while (Atomics.compareExchange(lock, 0, 0, 1) !== 0) Atomics.wait(lock, 0, 1, 10);
        for (let i = 0; i < 100000; i++) sum += Math.sqrt(i);
        Atomics.store(lock, 0, 0);
        Atomics.notify(lock, 0, 1);
    }
}
"#;

#[test]
#[ignore = "needs root"]
fn node() {
    complete_script("/usr/bin/node", "-e", JAVASCRIPT);
}

#[test]
#[ignore = "needs root"]
fn sqlite() {
    let path = "/usr/bin/sqlite3";
    if installed(path) {
        let scratch = Scratch::new();
        let script = "PRAGMA journal_mode=wal; CREATE TABLE t(a INTEGER, b TEXT);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<600000)
            INSERT INTO t SELECT i, hex(randomblob(16)) FROM n;
            CREATE INDEX x ON t(b);
            SELECT count(*), max(length(b)) FROM t GROUP BY a % 7 ORDER BY 1;
            SELECT count(*) FROM t AS p JOIN t AS q ON p.b = q.b;";
        let recorded = launch(&[path, &scratch.file("it.db"), script]);
        check_complete("sqlite3", &recorded);
    }
}

#[test]
#[ignore = "needs root"]
fn a_cxx_compiler() {
    let path = "/usr/bin/g++";
    if installed(path) {
        let scratch = Scratch::new();
        let source = scratch.file("it.cpp");
        let mut text = String::from(
            "#include <regex>\n#include <map>\n#include <iostream>\n#include <algorithm>\n",
        );
        for i in 0..3 {
            text += &format!(
                "int f{i}(const std::string &s) {{ std::regex r(\"a{i}(b|c)*\"); std::map<std::string, int> m; \
                 m[s] = {i}; std::cout << m.size(); return std::regex_match(s, r); }}\n"
            );
        }
        std::fs::write(&source, text).expect("write the source");
        let recorded = launch(&[path, "-O2", "-c", &source, "-o", &scratch.file("it.o")]);
        check_complete("g++ -O2", &recorded);
        let names: Vec<_> = recorded
            .tables
            .processes
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        assert!(names.contains(&"cc1plus"), "{names:?}");
    }
}

/// Sends a redis server the work of redis-benchmark; true when it could.
fn redis_load(port: &str, seconds: f64) -> Running {
    let script = format!(
        "end=$(($(date +%s%N) + {})); while [ $(date +%s%N) -lt $end ]; do \
         redis-benchmark -q -p {port} -n 20000 -c 20 -t set,get,lpush,lrange_100,mset; done",
        (seconds * 1e9) as u64
    );
    Running::start(Command::new("sh").args(["-c", &script]))
}

fn answers(port: &str) -> bool {
    std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()
}

#[test]
#[ignore = "needs root"]
fn redis() {
    let path = "/usr/bin/redis-server";
    if !installed(path) || !installed("/usr/bin/redis-benchmark") {
        return;
    }
    let scratch = Scratch::new();
    let port = free_port().to_string();
    let dir = scratch.path().to_string_lossy().into_owned();
    let options = [
        "--port",
        &port,
        "--save",
        "",
        "--bind",
        "127.0.0.1",
        "--dir",
        &dir,
    ];
    let server = Running::start(Command::new(path).args(options));
    until("redis answers", || answers(&port));
    let load = redis_load(&port, 10.0);
    std::thread::sleep(Duration::from_millis(300));
    let recorded = attach(&[server.pid(), load.pid()], 2.5);
    check_complete("redis-server and redis-benchmark (attached)", &recorded);
    drop((load, server));

    let clients = std::thread::spawn({
        let port = port.clone();
        move || {
            until("redis answers", || answers(&port));
            redis_load(&port, 1.5).wait();
            let stop = ["-p", &port, "shutdown", "nosave"];
            Running::start(Command::new("redis-cli").args(stop)).wait();
        }
    });
    let recorded = launch(&[&[path], &options[..]].concat());
    clients.join().expect("the load");
    check_complete("redis-server", &recorded);
}

#[test]
#[ignore = "needs root"]
fn nginx() {
    let path = "/usr/sbin/nginx";
    if !installed(path) || !installed("/usr/bin/curl") {
        return;
    }
    let scratch = Scratch::new();
    let port = free_port();
    let dir = scratch.path().display();
    std::fs::write(scratch.path().join("page.html"), "x".repeat(30_000)).expect("a page");
    let configuration = format!(
        "worker_processes 2; daemon off; pid {dir}/pid; error_log {dir}/error.log;
         events {{ worker_connections 256; }}
         http {{ access_log {dir}/access.log; gzip on; gzip_types text/html; gzip_min_length 1;
           client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;
           uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
           server {{ listen 127.0.0.1:{port}; root {dir}; }} }}"
    );
    let file = scratch.file("nginx.conf");
    std::fs::write(&file, configuration).expect("the configuration");
    let address = port.to_string();
    let load = |seconds: u32| {
        let script = format!(
            "end=$(($(date +%s) + {seconds})); while [ $(date +%s) -lt $end ]; do \
             curl -s --compressed -o /dev/null 'http://127.0.0.1:{port}/page.html?[1-300]'; done"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    };
    let recorded = std::thread::scope(|scope| {
        scope.spawn(|| {
            until("nginx answers", || answers(&address));
            load(2).status().expect("curl");
            let stop = ["-c", &file, "-p", &scratch.file(""), "-s", "quit"];
            Command::new(path)
                .args(stop)
                .output()
                .expect("nginx -s quit");
        });
        launch(&[path, "-c", &file, "-p", &scratch.file("")])
    });
    check_complete("nginx", &recorded);

    let server = Running::start(Command::new(path).args(["-c", &file, "-p", &scratch.file("")]));
    until("nginx answers", || answers(&address));
    let children = format!("/proc/{0}/task/{0}/children", server.pid());
    let children = std::fs::read_to_string(children).expect("children");
    let mut pids = vec![server.pid()];
    pids.extend(
        children
            .split_whitespace()
            .map(|p| p.parse::<u32>().expect("a pid")),
    );
    // Work without end: a busy machine takes its time to attach.
    let work = Running::start(&mut load(600));
    let recorded = attach(&pids, 2.0);
    drop(work);
    check_complete("nginx (attached)", &recorded);
}

/// A program of postgres, in the newest version that is installed.
fn postgres_program(name: &str) -> Option<String> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut paths: Vec<_> = versions
        .filter_map(|v| Some(v.ok()?.path().join("bin").join(name)))
        .filter(|p| p.exists())
        .collect();
    paths.sort();
    Some(paths.pop()?.to_string_lossy().into_owned())
}

#[test]
#[ignore = "needs root"]
fn postgres() {
    let (Some(initdb), Some(server), Some(pgbench)) = (
        postgres_program("initdb"),
        postgres_program("postgres"),
        postgres_program("pgbench"),
    ) else {
        installed("/usr/lib/postgresql");
        return;
    };
    let scratch = Scratch::new();
    let dir = scratch.path().to_string_lossy().into_owned();
    let as_postgres = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        command
            .args(words)
            .current_dir(&dir)
            .env("PGHOST", &dir)
            .env("LC_ALL", "C");
        command
    };
    let port = free_port().to_string();
    Command::new("chown")
        .args(["postgres", &dir])
        .status()
        .expect("chown");
    let data = scratch.file("data");
    let made = as_postgres(&[&initdb, "-D", &data, "-U", "postgres", "--no-sync"]).output();
    let made = made.expect("initdb");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let words = [
        &server,
        "-D",
        &data,
        "-k",
        &dir,
        "-p",
        &port,
        "-c",
        "listen_addresses=",
    ];
    let server = Running::start(&mut as_postgres(&words));
    let socket = scratch.path().join(format!(".s.PGSQL.{port}"));
    until("postgres answers", || {
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    let bench = |words: &[&str]| {
        let words = [
            &[pgbench.as_str(), "-U", "postgres", "-p", &port],
            words,
            &["postgres"],
        ];
        as_postgres(&words.concat())
    };
    until("pgbench fills its tables", || {
        bench(&["-i", "-q", "-s", "2"])
            .output()
            .is_ok_and(|o| o.status.success())
    });
    let load = Running::start(&mut bench(&["-c", "4", "-j", "2", "-T", "10"]));
    std::thread::sleep(Duration::from_millis(500));
    let children = format!("/proc/{0}/task/{0}/children", server.pid());
    let children = std::fs::read_to_string(children).expect("children");
    let mut pids = vec![server.pid(), load.pid()];
    pids.extend(
        children
            .split_whitespace()
            .map(|p| p.parse::<u32>().expect("a pid")),
    );
    let recorded = attach(&pids, 3.0);
    check_complete("postgres and pgbench (attached)", &recorded);
    drop(load);
    let words = ["-c", "2", "-T", "2"];
    let mut options = vec!["--".to_owned()];
    let command = bench(&words);
    options.extend(
        std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|w| w.to_string_lossy().into_owned()),
    );
    let mut dwell = Command::new(env!("CARGO_BIN_EXE_dwell"));
    dwell
        .current_dir(&dir)
        .env("PGHOST", &dir)
        .env("LC_ALL", "C");
    check_complete("pgbench", &record_with(Scratch::new(), dwell, &options));
    drop(server);
}
