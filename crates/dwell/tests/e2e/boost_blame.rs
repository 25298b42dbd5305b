//! Whose fault a crash of a boosted program was: replayed on the stock one, where nothing that it does can matter.
//! Needs root.

use crate::boost_support::{Machine, SOON, text};
use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Does what a replay must not do, and says by its end what of it could be done; crashes where nothing could.
const HARMFUL: &str = r#"
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int harm = open(argv[1], O_CREAT | O_WRONLY, 0666) >= 0;
    harm |= (connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&to, sizeof to) == 0) << 1;
    harm |= (kill(atoi(argv[3]), 0) == 0) << 2;
    harm |= (setuid(0) == 0) << 3;
    harm |= (access("/dev/tty", F_OK) == 0) << 4;
    if (fork() == 0) for (;;) pause();
    if (harm == 0) abort();
    return harm;
}
"#;

/// Processes of this executable that run.
fn running(program: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let exe = |e: fs::DirEntry| fs::read_link(e.path().join("exe")).ok();
    entries
        .filter_map(exe)
        .filter(|exe| exe.to_string_lossy().contains(program))
        .count()
}

#[test]
#[ignore = "needs root"]
fn a_replay_harms_nobody() {
    let machine = Machine::new("harmless");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    fs::write(machine.path("harmful.c"), HARMFUL).expect("written");
    machine.gcc(&["harmful.c"], "harmful");
    let program = machine.path("harmful");
    let name = program.to_str().expect("UTF-8");
    let made = machine.path("app/made");
    let victim = std::process::id().to_string();
    let args = [made.to_str().expect("UTF-8"), &port, &victim];

    // Where it may, it does all of that.
    let mut outside = Command::new(&program);
    let mut outside = outside
        .args(args)
        .process_group(0)
        .spawn()
        .expect("it runs");
    let status = outside.wait().expect("it ends");
    // SAFETY: kill(2) takes numbers; the group is that of the child, of which a process is left.
    unsafe { libc::kill(-(outside.id() as i32), libc::SIGKILL) };
    assert_eq!(status.code(), Some(0b11111));
    fs::remove_file(&made).expect("it was made");
    machine.wait_until("all of it ends", || running(name) == 0);

    let replay = [&["daemon", "--replay", name][..]].concat();
    let mut command = machine.dwell(&replay);
    let output = command.arg("--").arg("harmful").args(args).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(80), "{}", text(&output.stderr));
    assert!(!made.exists());
    machine.wait_until("nothing of it goes on", || running(name) == 0);
}

#[test]
#[ignore = "needs root"]
fn a_crash_that_the_stock_program_has_too_is_its_own() {
    let mut machine = Machine::new("own-crash");
    machine.configure_with("replay = true\n");
    machine.start();
    machine.wait_for("1 1 boosted");
    let crash = || {
        let status = machine
            .starts_prog()
            .arg("abort")
            .status()
            .expect("it runs");
        assert_eq!(status.code(), None, "it crashes");
    };
    machine.wait_until("it is found out", || {
        crash();
        machine.log().contains("crashes as well")
    });
    machine.wait_for("1 1 boosted");
    machine.wait_until("it is told", || {
        machine.status()["programs"][0]["why"][0]
            .as_str()
            .is_some_and(|why| {
                why.contains("as the stock program does") && why.ends_with("prog abort")
            })
    });
    // The next one of the same kind changes nothing.
    crash();
    std::thread::sleep(SOON);
    assert_eq!(machine.says(), "1 1 boosted");
    assert!(!machine.path("config/prog.toml.rolled-back").exists());
}

#[test]
#[ignore = "needs root"]
fn a_crash_that_only_the_boosted_program_has_is_told_so() {
    for (replayed, told) in [
        ("replay = true\n", "the stock program does not crash"),
        ("", "SIGILL"),
    ] {
        let mut machine = Machine::new("its-crash");
        machine.configure_with(replayed);
        let main = machine.main_offset();
        machine.start();
        machine.wait_for("1 1 boosted");
        machine.break_at(main);
        // One, however soon after the switch.
        let crash = machine.starts_prog().arg("maps").output();
        assert_eq!(crash.expect("it starts").status.code(), None);
        machine.wait_until("it is told", || {
            let aside = fs::read_to_string(machine.path("config/prog.toml.rolled-back"));
            aside.is_ok_and(|text| text.contains(told))
        });
        let status = machine.status();
        assert_eq!(status["programs"][0]["state"], "rolled-back", "{status}");
        assert!(
            status["programs"][0]["why"].to_string().contains(told),
            "{status}"
        );
        std::thread::sleep(SOON);
        assert_eq!(machine.says(), "1 1 stock");
        let replays = !replayed.is_empty();
        assert_eq!(
            machine.log().contains("replayed"),
            replays,
            "{}",
            machine.log()
        );
    }
}

/// As systemd starts it (`Type=notify`): it tells when programs are looked after, and that it ends.
#[test]
#[ignore = "needs root"]
fn the_daemon_tells_systemd() {
    let machine = Machine::new("notify");
    let socket = UnixDatagram::bind(machine.path("notify")).expect("a socket");
    let patience = Duration::from_secs(60);
    socket.set_read_timeout(Some(patience)).expect("set");
    let heard = || {
        let mut buffer = [0; 64];
        let len = socket.recv(&mut buffer).expect("it tells");
        text(&buffer[..len])
    };
    let mut command = machine.dwell(&["daemon"]);
    command.env("NOTIFY_SOCKET", machine.path("notify"));
    let mut daemon: Child = command.stderr(Stdio::null()).spawn().expect("it starts");
    assert_eq!(heard(), "READY=1");
    assert_eq!(machine.status()["daemon"], daemon.id());
    // SAFETY: kill(2) takes numbers; the child is ours and not yet waited for.
    unsafe { libc::kill(daemon.id() as i32, libc::SIGTERM) };
    assert_eq!(heard(), "STOPPING=1");
    assert!(daemon.wait().expect("it ends").success());
    machine.nothing_is_left();
}

/// The unit is one that systemd takes.
#[test]
#[ignore = "needs root"]
fn the_unit_is_right() {
    let machine = Machine::new("unit");
    let output = machine.run(&["daemon", "--unit"]);
    let file = machine.path("dwell-boost.service");
    fs::write(&file, &output.stdout).expect("written");
    assert!(text(&output.stdout).contains(env!("CARGO_BIN_EXE_dwell")));
    let checked = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&file)
        .output();
    let Ok(checked) = checked else {
        return println!("systemd-analyze is not installed: nothing was checked");
    };
    let said = text(&checked.stderr);
    let ours: Vec<&str> = said.lines().filter(|l| l.contains("dwell-boost")).collect();
    assert!(checked.status.success() && ours.is_empty(), "{said}");
}
