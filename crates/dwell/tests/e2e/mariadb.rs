//! MariaDB under load: the locks that cost most are named, with the stacks of those who waited and of those who let
//! them go; it serves on, and has its code back.

use crate::common::*;
use crate::puppets::assert_pristine;
use dwell_report::{LocksAnswer, Options};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server with a data directory of its own.
struct Server {
    running: Running,
    socket: String,
}

impl Server {
    fn start(scratch: &Scratch) -> Server {
        let data = format!("--datadir={}", scratch.file("data"));
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--user=root", &data]);
        install.arg("--auth-root-authentication-method=normal");
        let installed = install.output().expect("it runs");
        assert!(installed.status.success(), "{installed:?}");
        let socket = scratch.file("socket");
        let mut command = Command::new("mariadbd");
        command.args(["--no-defaults", "--user=root", "--skip-networking", &data]);
        command
            .arg(format!("--socket={socket}"))
            .stderr(Stdio::null());
        let mut running = Running::start(&mut command);
        let begin = Instant::now();
        while !Path::new(&socket).exists() {
            assert!(begin.elapsed() < Duration::from_secs(60) && !running.ended());
            std::thread::sleep(Duration::from_millis(20));
        }
        Server { running, socket }
    }

    fn sysbench(&self, args: &[&str]) -> Child {
        let mut command = Command::new("sysbench");
        command.args(["oltp_update_index", "--mysql-user=root", "--mysql-db=mysql"]);
        command.args(["--tables=1", "--table-size=1000"]);
        command.arg(format!("--mysql-socket={}", self.socket));
        let command = command.args(args).stdout(Stdio::piped());
        command.spawn().expect("it starts")
    }
}

#[test]
#[ignore = "needs root"]
fn the_worst_locks_of_a_busy_mariadb_are_told_while_it_serves() {
    if !installed("mariadbd") || !installed("sysbench") {
        return;
    }
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch);
    let prepared = server.sysbench(&["prepare"]).wait_with_output();
    assert!(prepared.expect("it ends").status.success());
    let busy = server.sysbench(&["--threads=8", "--time=7", "run"]);
    std::thread::sleep(Duration::from_secs(1));
    let pid = server.running.pid();
    let options = ["--locks", "--duration", "3s", "-p", &pid.to_string()];
    let recorded = record(&scratch, &options);
    assert_pristine(pid as i32);
    let served = busy.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&served.stdout);
    assert!(served.status.success(), "{said}");
    assert!(
        said.contains("ignored errors:                      0"),
        "{said}"
    );
    assert!(!server.running.ended());

    let counted = &recorded.tables.meta.counted[0];
    println!("held: {:?}, {:?}", counted.attach, counted.detach);
    assert!(!counted.missed.iter().any(|m| m.contains("no room")));
    let answer = LocksAnswer::build(&recorded.tables, &Options::default());
    let counts = answer.lock_counts.as_ref().expect("counted");
    assert!(
        counts.acquired > 10_000 && counts.contended > 0,
        "{counts:?}"
    );
    // Its own locks (InnoDB's) and those of libc alike.
    let worst = &answer.locks[0];
    assert!(!worst.waiters[0].frames.is_empty() && !worst.blame[0].frames.is_empty());
    assert!(near(answer.blamed_ns, answer.waited_ns, 0.01, 0));
    // Those of libc have owners.
    let owned = &answer.contended[0];
    println!("{} {:?} {:?}", owned.name, owned.wait, owned.hold);
    assert!(owned.wait.count > 0 && owned.kind == "mutex");
    let is_its = |frames: &[dwell_report::answer::Frame]| {
        let named = |name: &str| name.contains("mariadbd") || name.contains("THD");
        frames.iter().any(|f| named(&f.function))
    };
    assert!(owned.waiters.iter().any(|w| is_its(&w.frames)), "{owned:?}");
    let worst = &owned.owners[0];
    assert!(
        worst.function.is_some() && !worst.frames.is_empty(),
        "{owned:?}"
    );
    let blamed: u64 = owned.owners.iter().map(|o| o.waited_ns).sum();
    assert!(blamed + owned.unclaimed_ns <= owned.wait.sum_ns);
}
