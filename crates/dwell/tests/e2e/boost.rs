//! The daemon of `dwell boost` at work on programs made here: switched, watched, taken back. Everything is in a
//! temporary folder, and nothing of the machine is switched. Needs root.

use crate::boost_support::{Machine, SOON, child_of, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
#[ignore = "needs root"]
fn a_program_is_switched_and_taken_back() {
    let mut machine = Machine::new("switch");
    let stock = fs::read(machine.prog()).expect("there");
    let output = machine.run(&["activate", "prog"]);
    assert!(
        text(&output.stderr).contains("no daemon is running"),
        "{}",
        text(&output.stderr)
    );
    machine.start();
    machine.wait_for("1 1 boosted");
    let status = machine.status();
    let program = &status["programs"][0];
    assert_eq!(program["state"], "boosted", "{status}");
    assert_eq!(program["libraries"], serde_json::json!(["libsay.so"]));
    assert_eq!(program["path"], machine.prog().to_str().expect("UTF-8"));
    let ratio = program["gain"]["ratio"].as_f64().expect("a ratio");
    assert!(ratio > 0.05 && ratio < 20.0, "{ratio}");
    assert_eq!(
        status["daemon"],
        machine.daemon.as_ref().expect("runs").id()
    );
    assert_eq!(status["crashes_not_seen"], Value::Null);

    // Variables that name other libraries have the stock program run.
    let preloaded = machine
        .starts_prog()
        .arg("maps")
        .env("LD_PRELOAD", "libm.so.6")
        .output();
    assert_eq!(text(&preloaded.expect("runs").stdout), "1 1 stock\n");

    let output = machine.run(&["rollback", "prog"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(machine.says(), "1 1 stock");
    machine.nothing_is_left();
    assert!(!machine.config().exists());
    assert_eq!(machine.status()["programs"][0]["state"], "rolled-back");

    let output = machine.run(&["activate", machine.prog().to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(machine.says(), "1 1 boosted");
    machine.signal(libc::SIGTERM);
    assert_eq!(machine.says(), "1 1 stock");
    machine.nothing_is_left();
    assert!(
        machine.config().exists(),
        "it is boosted again with the next daemon"
    );
    assert!(
        fs::read(machine.prog()).expect("there") == stock,
        "the stock file is what it was"
    );
}

#[test]
#[ignore = "needs root"]
fn a_changed_library_means_stock_within_a_second() {
    let mut machine = Machine::new("library");
    machine.start();
    machine.wait_for("1 1 boosted");
    machine.library("app", 2);
    let start = Instant::now();
    machine.wait_until("it answers as before", || machine.says().starts_with("1 2"));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    machine.wait_for("1 2 boosted");
}

#[test]
#[ignore = "needs root"]
fn a_broken_boosted_file_is_rolled_back_within_a_second() {
    let mut machine = Machine::new("broken");
    let main = machine.main_offset();
    machine.start();
    machine.wait_for("1 1 boosted");
    machine.break_at(main);
    let start = Instant::now();
    let output = machine.starts_prog().arg("maps").output().expect("it runs");
    assert_eq!(output.status.code(), None, "it crashes");
    machine.wait_until("it crashes", || {
        machine
            .starts_prog()
            .output()
            .is_ok_and(|o| o.status.code() == Some(3))
    });
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let aside = machine.path("config/prog.toml.rolled-back");
    let why = || fs::read_to_string(&aside).unwrap_or_default();
    machine.wait_until("the configuration is set aside, with the reason", || {
        why().contains("SIGILL") && why().contains("prog maps")
    });
    let status = machine.status();
    assert_eq!(status["programs"][0]["state"], "rolled-back", "{status}");
    machine.nothing_is_left();
    // The same program is not tried again; another one is.
    machine.program("app", 1);
    std::thread::sleep(SOON);
    assert_eq!(machine.says(), "1 1 stock");
    machine.program("app", 2);
    machine.wait_for("2 1 boosted");
}

/// What others send is not the program's fault; what it does to itself may be.
#[test]
#[ignore = "needs root"]
fn signals_from_outside_are_no_crash() {
    let mut machine = Machine::new("signals");
    machine.start();
    machine.wait_for("1 1 boosted");
    let mut paused = machine.starts_prog().arg("pause").spawn().expect("runs");
    let boosted = fs::metadata(machine.prog()).expect("there").ino();
    machine.wait_until("it does not start", || {
        fs::metadata(format!("/proc/{}/exe", paused.id())).is_ok_and(|m| m.ino() == boosted)
    });
    assert_eq!(machine.status()["programs"][0]["processes"], 1);
    // SAFETY: kill(2) takes numbers; the child is ours and not yet waited for.
    unsafe { libc::kill(paused.id() as i32, libc::SIGSEGV) };
    paused.wait().expect("ends");
    std::thread::sleep(SOON);
    assert_eq!(machine.says(), "1 1 boosted");
    machine.starts_prog().arg("abort").status().expect("runs");
    let took = machine.wait_for("1 1 stock");
    assert!(took < SOON, "{took:?}");
}

#[test]
#[ignore = "needs root"]
fn a_killed_daemon_leaves_stock_programs() {
    let mut machine = Machine::new("killed");
    let stock = fs::read(machine.prog()).expect("there");
    // At any instant: before, while and after it is made and switched.
    for round in 0..14 {
        machine.start();
        if round == 0 {
            machine.wait_for("1 1 boosted");
        } else {
            std::thread::sleep(Duration::from_millis(round * 23));
        }
        machine.says();
        machine.signal(libc::SIGKILL);
        let took = machine.wait_for("1 1 stock");
        assert!(took < SOON, "{took:?}");
        machine.wait_until("the journal is not empty", || {
            fs::read_dir(machine.path("state/active"))
                .into_iter()
                .flatten()
                .count()
                == 0
        });
        assert!(
            fs::read(machine.prog()).expect("there") == stock,
            "round {round}"
        );
    }
    machine.start();
    machine.wait_for("1 1 boosted");
    assert!(!text(&machine.run(&["rollback", "--all"]).stdout).is_empty());
    machine.nothing_is_left();
}

/// The watchdog is killed, too: a reboot, or anybody, has the stock program run; `rollback --all` restores.
#[test]
#[ignore = "needs root"]
fn without_a_watchdog_the_guard_decides() {
    let mut machine = Machine::new("guard");
    machine.start();
    machine.wait_for("1 1 boosted");
    let daemon = machine.daemon.as_ref().expect("runs").id();
    let watchdog = child_of(daemon);
    let send = |pid: i32, signal: i32| {
        // SAFETY: kill(2) takes numbers; the daemon is our child, and not waited for, and the other is its child.
        unsafe { libc::kill(pid, signal) };
    };
    // Stopped, it does not start another one.
    send(daemon as i32, libc::SIGSTOP);
    send(watchdog, libc::SIGKILL);
    machine.signal(libc::SIGKILL);
    assert_eq!(machine.says(), "1 1 boosted");
    // What a reboot takes away.
    fs::remove_dir_all(machine.path("run")).expect("removed");
    assert_eq!(machine.says(), "1 1 stock", "by the hidden name");
    assert!(machine.run(&["rollback", "--all"]).status.success());
    assert_eq!(machine.says(), "1 1 stock");
    machine.nothing_is_left();
}

#[test]
#[ignore = "needs root"]
fn a_second_daemon_says_so() {
    let mut machine = Machine::new("second");
    machine.start();
    machine.wait_for("1 1 boosted");
    let second = machine.run(&["daemon"]);
    assert!(!second.status.success());
    let pid = machine.daemon.as_ref().expect("runs").id();
    let said = text(&second.stderr);
    assert!(
        said.contains(&format!("another one is running (process {pid})")),
        "{said}"
    );
    assert_eq!(machine.says(), "1 1 boosted");
}

#[test]
#[ignore = "needs root"]
fn wrong_configurations_are_told_and_others_work() {
    let mut machine = Machine::new("wrong");
    let config = |name: &str, text: &str| {
        fs::write(machine.path("config").join(name), text).expect("written")
    };
    config("bad.toml", "elf_path = \"/bin/true\"\nlevl = 1\n");
    config("gone.toml", "elf_path = \"/none/there\"\n");
    config("twice.toml", &format!("elf_path = {:?}\n", machine.prog()));
    machine.start();
    machine.wait_for("1 1 boosted");
    machine.wait_until("nothing is said of it", || {
        machine.log().contains("/none/there")
    });
    let status = machine.status().to_string();
    assert!(
        status.contains("bad.toml:2: unknown field `levl`"),
        "{status}"
    );
    assert!(status.contains("no such program"), "{status}");
    assert!(status.contains("remove one of them"), "{status}");
}

/// The address at which a file begins in memory, by its first loaded range.
fn begins(file: &Path) -> String {
    let output = Command::new("readelf").arg("-lW").arg(file).output();
    let listed = text(&output.expect("readelf runs").stdout);
    let load = listed.lines().find(|l| l.trim_start().starts_with("LOAD"));
    let address = load.and_then(|l| l.split_whitespace().nth(2));
    address.expect("a loaded range").to_owned()
}

/// With the loader in it the program does the same; each daemon, and so each boot, gives it other addresses. A program
/// that takes connections keeps its random ones, unless that is asked for.
#[test]
#[ignore = "needs root"]
fn levels_2_and_3_give_one_address_per_daemon() {
    let mut machine = Machine::new("levels");
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let level = match text(&output.expect("getconf runs").stdout).contains("glibc 2.36") {
        true => "mode = \"static\"\nlevel = 3",
        false => "level = 2",
    };
    let server = machine.path("app/server");
    fs::write(
        machine.path("server.c"),
        "#include <sys/socket.h>\nint say(void);\nint main(int c, char **v) { return c > 9 ? listen(0, 1) : say(); }\n",
    )
    .expect("written");
    let libs = ["-lsay", "-Wl,-rpath,$ORIGIN", "-Wl,--build-id"];
    machine.gcc(&[&["server.c", "-Lapp"], &libs[..]].concat(), "app/server");
    let folder = machine.folder.clone();
    let configure = |name: &str, program: &Path, more: &str| {
        let text = format!("elf_path = {program:?}\ntest = [\"x\"]\n{level}\n{more}");
        fs::write(folder.join("new"), text).expect("written");
        fs::rename(folder.join("new"), folder.join(name)).expect("renamed");
    };
    configure("config/prog.toml", &machine.prog(), "");
    configure("config/server.toml", &server, "");
    machine.start();
    machine.wait_for("1 1 boosted");
    machine.wait_until("the server is not refused", || {
        let status = machine.status().to_string();
        status.contains("calls listen") && status.contains("fixed_addresses = true")
    });
    let first = begins(&machine.prog());
    configure("config/server.toml", &server, "fixed_addresses = true\n");
    machine.wait_until("the server is not boosted", || {
        let status = machine.status();
        let programs = status["programs"].as_array().expect("programs").iter();
        programs.filter(|p| p["state"] == "boosted").count() == 2
    });
    machine.wait_for("1 1 boosted");
    machine.signal(libc::SIGTERM);
    assert_eq!(machine.says(), "1 1 stock");
    machine.nothing_is_left();
    machine.start();
    machine.wait_for("1 1 boosted");
    assert_ne!(begins(&machine.prog()), first);
    machine.signal(libc::SIGTERM);
    machine.nothing_is_left();
}

/// With dpkg itself: a package is upgraded, downgraded and removed while its program is boosted.
#[test]
#[ignore = "needs root"]
fn packages_are_upgraded_as_ever() {
    let mut machine = Machine::new("dpkg");
    let root = machine.path("root");
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    fs::write(root.join("var/lib/dpkg/status"), "").expect("written");
    for version in [1, 2] {
        machine.package(version, "opt/app");
    }
    let folder = machine.folder.clone();
    let dpkg = |args: &[&str]| {
        let mut command = Command::new("dpkg");
        let root = format!("--root={}", root.display());
        let output = command
            .args([&root, "--force-not-root"])
            .args(args)
            .current_dir(&folder)
            .output();
        let output = output.expect("dpkg runs");
        assert!(
            output.status.success(),
            "{args:?}: {}",
            text(&output.stderr)
        );
        let said = text(&output.stderr);
        // The hidden file keeps a folder from being removed with its last package.
        let expected = ["downgrading", "not empty so not removed"];
        let warned =
            |line: &str| line.contains("warning") && !expected.iter().any(|e| line.contains(e));
        assert!(!said.lines().any(warned), "{said}");
    };
    dpkg(&["-i", "1.deb"]);
    fs::remove_dir_all(machine.path("app")).expect("removed");
    std::os::unix::fs::symlink(root.join("opt/app"), machine.path("app")).expect("linked");
    machine.start();
    for (from, to) in [(1, 2), (2, 1), (1, 2)] {
        machine.wait_for(&format!("{from} {from} boosted"));
        dpkg(&["-i", &format!("{to}.deb")]);
        assert!(
            machine.says().starts_with(&format!("{to} {to}")),
            "the new one runs at once"
        );
    }
    machine.wait_for("2 2 boosted");
    dpkg(&["-r", "--force-remove-essential", "dwelltest"]);
    machine.wait_until("the stock program stays behind", || {
        !root.join("opt/app/.prog.dwell-stock").exists()
    });
    assert!(!root.join("opt/app/prog").exists());
}
