//! Whatever attaches is killed at random instants: the target must not notice, and the next to come
//! must find it restorable.
mod common;

use common::{Puppet, assert_pristine, at_entry, from_environment};
use dwell_agent::layout::{Header, Link, MAGIC, STATE_DISTANCE};
use dwell_patch::process::AtEntry;
use dwell_patch::{Attachment, Hook, recover};
use std::fs::File;
use std::io::{Read, Write};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FUNCTIONS: [&str; 6] = [
    "leaf",
    "catcher",
    "recursive",
    "tiny",
    "calls_first",
    "coroutine_step",
];
const PID: &str = "DWELL_TEST_ATTACH_TO";
const PAGE: usize = 4096;

/// What is killed: attaches and lets go for as long as it lives.
#[test]
#[ignore = "needs root"]
fn attacher() {
    let Ok(pid) = std::env::var(PID) else {
        return; // run by itself, there is nothing to attach to
    };
    let pid = pid.parse().expect("a number");
    let probes: Vec<_> = FUNCTIONS
        .iter()
        .map(|f| at_entry("/torture", f, Hook::Call(dwell_agent::COUNT_OFFSET)))
        .collect();
    loop {
        let attachment = Attachment::new(pid, &probes).expect("it can be attached to");
        std::thread::sleep(Duration::from_millis(50));
        attachment.detach().expect("it can be let go of");
    }
}

/// The test above as a process of its own.
struct Attacher(Child);

impl Attacher {
    fn kill(&mut self) {
        let _ = self.0.kill();
        self.0.wait().expect("it is dead");
    }
}

impl Drop for Attacher {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn_attacher(pid: i32) -> Attacher {
    let child = Command::new(std::env::current_exe().expect("a path"))
        .args(["attacher", "--exact", "--ignored", "--nocapture"])
        .env(PID, pid.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("this program starts");
    Attacher(child)
}

#[test]
#[ignore = "needs root"]
fn killed_at_any_instant() {
    let rounds = from_environment("DWELL_KILLS", 40);
    // Fewer threads than processors would rather be: the attacher shall get far.
    let mut target = Puppet::start("torture", &["18"]);
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut found_patched = 0;
    for _ in 0..rounds {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let mut attacher = spawn_attacher(target.pid());
        std::thread::sleep(Duration::from_micros(20_000 + seed % 400_000));
        attacher.kill();
        // Nobody traces it and every thread runs: all of them can be parked.
        target.park();
        target.run();
        let restored = recover(target.pid()).expect("it can be restored");
        assert_eq!(
            (restored.foreign, restored.arenas_left),
            (0, 0),
            "{restored:?}"
        );
        found_patched += usize::from(restored.windows > 0);
    }
    // What remains of a kill in the middle of a system call by a borrowed thread: bytes that nobody
    // runs, behind the end of a file's code. An attachment that ends well takes them back.
    let probe = [at_entry("/torture", "leaf", Hook::Count)];
    let attachment = Attachment::new(target.pid(), &probe).expect("it can be attached to");
    attachment.detach().expect("it can be let go of");
    target.park();
    target.run();
    target.finish();
    println!("{rounds} kills, {found_patched} of them while patched");
    assert!(found_patched > 0, "no kill came while it was patched");
}

/// The sum of all counters of the arena in a process, none when there is no finished one. Read as the
/// next dwell would find it: the handles of the one that made it are gone.
fn arena_total(pid: i32) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("memory");
    let word = |address: u64| {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, address).expect("mapped");
        u64::from_le_bytes(bytes)
    };
    let starts = maps
        .lines()
        .filter(|l| l.contains(" r-xp 00000000 00:00 0 "))
        .map(|l| {
            let start = l.split('-').next().expect("a range");
            u64::from_str_radix(start, 16).expect("hexadecimal")
        });
    let field = |start, offset| word(start + offset as u64);
    let arena = starts
        .into_iter()
        .find(|&start| word(start) == MAGIC && field(start, offset_of!(Header, windows)) > 0)?;
    let counters = arena + field(arena, offset_of!(Header, code_len));
    // Behind them, at the end of a page: it says where they are.
    let mut links = (counters..)
        .step_by(PAGE)
        .map(|page| page + PAGE as u64 - STATE_DISTANCE);
    let link = links.find(|&link| field(link, offset_of!(Link, counters)) == counters)?;
    let bytes = field(link, offset_of!(Link, stride)) << field(link, offset_of!(Link, stripe_bits));
    Some((0..bytes / 8).map(|n| word(counters + n * 8)).sum())
}

/// A handler counts nothing from the instant its dwell is gone, and the target goes on.
#[test]
#[ignore = "needs root"]
fn quiet_without_an_owner() {
    let mut target = Puppet::start("torture", &["18"]);
    let mut attacher = spawn_attacher(target.pid());
    let deadline = Instant::now() + Duration::from_secs(60);
    // Kills it when it has counted; there may still come its own detaching in between.
    let total = loop {
        assert!(Instant::now() < deadline, "it never counted");
        let total = arena_total(target.pid()).unwrap_or(0);
        if total > 0 {
            attacher.kill();
            // A handler that was under way is through after this.
            target.park();
            target.run();
            if let Some(total) = arena_total(target.pid()).filter(|&t| t > 0) {
                break total;
            }
            attacher = spawn_attacher(target.pid());
        }
    };
    // Each of these parks lets every thread do some more.
    for _ in 0..3 {
        target.park();
        target.run();
    }
    assert_eq!(arena_total(target.pid()), Some(total), "it still counts");
    let restored = recover(target.pid()).expect("it can be restored");
    assert_eq!(restored.arenas_left, 0);
    target.park();
    assert_pristine(target.pid());
    target.run();
    target.finish();
}

const LEAD: &str = "DWELL_TEST_LEAD_TO_ENTRY";

/// What is killed: leads a process to the entry of what it executes, and keeps it there.
#[test]
#[ignore = "needs root"]
fn leader() {
    let Ok(pid) = std::env::var(LEAD) else {
        return; // run by itself, there is nobody to lead
    };
    let expected = AtEntry::expect(pid.parse().expect("a number")).expect("it can be traced");
    println!("expects");
    let held = expected.held().expect("it can be led");
    assert!(held.is_some());
    std::thread::sleep(Duration::from_secs(600));
}

/// A program whose dwell is killed at any instant from its exec on begins all the same, if a nap later.
#[test]
#[ignore = "needs root"]
fn killed_on_the_way_to_the_entry() {
    let rounds = from_environment("DWELL_KILLS", 40) as u64;
    let one = |round: u64| {
        let mut program = Command::new("sh")
            .args(["-c", "read go; exec /bin/echo begun"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut leader = Command::new(std::env::current_exe().expect("a path"))
            .args(["leader", "--exact", "--ignored", "--nocapture"])
            .env(LEAD, program.id().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts");
        let mut said = Vec::new();
        let mut output = leader.stdout.take().expect("piped");
        while !said.ends_with(b"expects\n") {
            let mut byte = [0];
            output.read_exact(&mut byte).expect("it expects");
            said.extend(byte);
        }
        let mut input = program.stdin.take().expect("piped");
        input.write_all(b"go\n").expect("it reads");
        // Close together at first, where most happens; the last ones come when it naps for certain.
        std::thread::sleep(Duration::from_micros(round * round * 100));
        leader.kill().expect("it runs");
        leader.wait().expect("it is dead");
        let begin = Instant::now();
        let mut text = String::new();
        let mut output = program.stdout.take().expect("piped");
        output.read_to_string(&mut text).expect("text");
        let status = program.wait().expect("it ends");
        assert!(status.success(), "after {round}: {status}");
        assert_eq!(text, "begun\n", "after {round}");
        begin.elapsed()
    };
    // Beside each other: some nap.
    let late = std::thread::scope(|scope| {
        let all: Vec<_> = (0..rounds)
            .map(|round| scope.spawn(move || one(round)))
            .collect();
        let took = all.into_iter().map(|t| t.join().expect("it begins"));
        took.filter(|took| *took > Duration::from_secs(2)).count()
    });
    println!("{rounds} kills, {late} of them while it napped");
    assert!(late > 0, "no kill came while it napped");
}
