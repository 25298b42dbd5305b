//! Programs linked in every way, and how long many threads are held.
mod common;
#[path = "../../../tests/programs/stolen.rs"]
mod stolen;

use common::{Puppet, assert_pristine, at_entry, from_environment, percentiles, program};
use dwell_patch::plan::Place;
use dwell_patch::process::FunctionAt;
use dwell_patch::{Attachment, Hook, PatchError, Probe, Refusal};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use stolen::StolenMeter;

const FUNCTIONS: [&str; 3] = ["add", "walk", "pthread_mutex_lock"];
/// The project's own bound for holding 100 threads.
const PAUSE_LIMIT: Duration = Duration::from_millis(20);

/// Counts entries and returns of each function: both must be what the program says.
fn count_exactly(name: &str) {
    let mut target = Puppet::start(name, &["6"]);
    let probe = |function: &str, place, hook| Probe {
        file: String::new(),
        function: FunctionAt::Name(function.to_owned()),
        place,
        hook,
    };
    let mut probes = FUNCTIONS
        .map(|f| probe(f, Place::Entry, Hook::Count))
        .to_vec();
    // The return of `walk` is the target of a jump and has no room behind it: refused, rightly.
    let handler = Hook::Call(dwell_agent::COUNT_OFFSET);
    probes.push(probe(FUNCTIONS[0], Place::Returns, handler));
    for _ in 0..5 {
        let attachment = Attachment::new(target.pid(), &probes).expect("it can be attached to");
        let before = target.park();
        let counts_before = attachment.counts().expect("it runs");
        target.run();
        std::thread::sleep(Duration::from_millis(20));
        let after = target.park();
        let counts_after = attachment.counts().expect("it runs");
        let mut counted = vec![0; probes.len()];
        for (index, spot) in attachment.spots().iter().enumerate() {
            assert_eq!(spot.refusal, None, "{name}: {:?}", probes[spot.probe]);
            counted[spot.probe] += counts_after[index] - counts_before[index];
        }
        for (index, count) in counted.iter().enumerate() {
            let function = FUNCTIONS[index % FUNCTIONS.len()];
            let truth = after[function] - before[function];
            // libc may take locks of its own while the program is told what to do.
            let own = if function == "pthread_mutex_lock" {
                16
            } else {
                0
            };
            assert!(
                (truth..=truth + own).contains(count),
                "{name}: {function}: {count}, not {truth}"
            );
        }
        target.run();
        let restored = attachment.detach().expect("it can be let go of");
        assert_eq!(
            (restored.arenas_left, restored.foreign),
            (0, 0),
            "{name}: {restored:?}"
        );
    }
    assert_pristine(target.pid());
    target.finish();
}

#[test]
#[ignore = "needs root"]
fn linked_dynamically() {
    count_exactly("counted");
    count_exactly("counted-nopie");
    count_exactly("counted-cet");
}

#[test]
#[ignore = "needs root"]
fn linked_statically() {
    count_exactly("counted-static");
    count_exactly("counted-static-pie");
}

#[test]
#[ignore = "needs root"]
fn linked_with_musl() {
    count_exactly("counted-musl");
}

/// Go is refused by name, not patched and not harmed.
#[test]
#[ignore = "needs root"]
fn go_is_refused() {
    let target = Running::start(&mut Command::new(program("gohot")));
    std::thread::sleep(Duration::from_millis(100));
    let probe = Probe {
        file: "/gohot".into(),
        function: FunctionAt::Address(0x40_1000),
        place: Place::Entry,
        hook: Hook::Count,
    };
    let attachment = Attachment::new(target.pid(), &[probe]).expect("it can be looked at");
    assert_eq!(attachment.spots()[0].refusal, Some(Refusal::Go));
    attachment.detach().expect("there is nothing to undo");
}

#[test]
#[ignore = "needs root"]
fn a_process_that_is_not_there() {
    let mut child = Command::new("true").spawn().expect("it starts");
    child.wait().expect("it ends");
    let attached = Attachment::new(child.id() as i32, &[at_entry("", "main", Hook::Count)]);
    assert!(matches!(attached, Err(PatchError::Ended(_))));
}

/// A stopped process (SIGSTOP) is patched, and stays stopped.
#[test]
#[ignore = "needs root"]
fn a_stopped_process_stays_stopped() {
    let target = Puppet::start("counted", &["4"]);
    let pid = target.pid();
    // SAFETY: the process is ours.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    std::thread::sleep(Duration::from_millis(50));
    let attachment =
        Attachment::new(pid, &[at_entry("/counted", "add", Hook::Count)]).expect("attaches");
    std::thread::sleep(Duration::from_millis(20));
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    assert!(state.contains(") T "), "{state}");
    // SAFETY: as above.
    unsafe { libc::kill(pid, libc::SIGCONT) };
    within_ten_seconds("it calls nothing", || {
        attachment.counts().expect("it runs")[0] > 0
    });
    attachment.detach().expect("it can be let go of");
    target.finish();
}

/// The first thread is a zombie until all others have ended: it cannot stop, and nobody is told of it.
#[test]
#[ignore = "needs root"]
fn the_first_thread_has_ended() {
    let text = "import ctypes, threading, time\n\
        def sleep():\n    while True: time.sleep(0.001)\n\
        threading.Thread(target=sleep).start()\n\
        ctypes.CDLL(None).pthread_exit(0)";
    let target = Running::start(Command::new("python3").args(["-c", text]));
    let pid = target.pid();
    let is_zombie =
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| s.contains(") Z "));
    within_ten_seconds("its first thread goes on", is_zombie);
    let probe = at_entry("/libc.so.6", "clock_nanosleep", Hook::Count);
    let attachment = Attachment::new(pid, &[probe]).expect("it can be attached to");
    assert_eq!(attachment.pause().threads, 1);
    within_ten_seconds("it calls nothing", || {
        attachment.counts().expect("it runs")[0] > 100
    });
    attachment.detach().expect("it can be let go of");
}

/// A program that is killed when the test ends.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.spawn().expect("it starts"))
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn within_ten_seconds(otherwise: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "{otherwise}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[ignore = "needs root"]
fn pause_of_a_hundred_threads() {
    let cycles = from_environment("DWELL_PAUSE_CYCLES", 100);
    let target = Puppet::start("counted", &["100"]);
    let mut pauses = Vec::new();
    let stolen = StolenMeter::start();
    for _ in 0..cycles {
        let attachment = Attachment::new(target.pid(), &[at_entry("/counted", "add", Hook::Count)])
            .expect("it can be attached to");
        assert_eq!(attachment.pause().threads, 101);
        pauses.push(attachment.pause().longest);
        pauses.push(
            attachment
                .detach()
                .expect("it can be let go of")
                .pause
                .longest,
        );
    }
    target.finish();
    let [median, p99, max] = percentiles(&mut pauses);
    let stolen = stolen.share();
    println!(
        "pause of 101 threads: p50 {median:.2?}, p99 {p99:.2?}, max {max:.2?}; {stolen:.2} stolen"
    );
    // Where the host of a virtual machine takes a share of its processors, everything takes longer by it, and one
    // pause may be as long as they are away.
    let limit = PAUSE_LIMIT.div_f64(1.0 - stolen);
    assert!(median <= limit, "{median:?}");
    assert!(max <= PAUSE_LIMIT || stolen > 0.02, "{max:?}");
}
