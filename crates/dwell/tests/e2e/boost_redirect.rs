//! The other ways in which `dwell boost daemon` puts a boosted program in its place: with dpkg told of it, by a database of
//! its own; and by a mount for one service, under a systemd that is process 1 of namespaces of its own. Needs root.

use crate::boost_support::{Machine, SOON, text};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// dpkg with the machine's own database, and what it printed.
fn dpkg(machine: &Machine, command: &str, args: &[&str]) -> String {
    let output = Command::new(command)
        .args(args)
        .envs(machine.variables.iter().map(|(name, value)| (name, value)))
        .current_dir(&machine.folder)
        .output()
        .expect("it runs");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{command} {args:?}: {said}");
    text(&output.stdout)
}

/// A program of a package that dpkg knows, configured to be diverted.
fn packaged(name: &str) -> Machine {
    let mut machine = Machine::new(name);
    let admin = machine.path("dpkg");
    for folder in ["info", "updates"] {
        fs::create_dir_all(admin.join(folder)).expect("a folder");
    }
    fs::write(admin.join("status"), "").expect("written");
    machine.variables.push(("DPKG_ADMINDIR", admin));
    let app = machine.path("app");
    let app = app.to_str().expect("UTF-8").trim_start_matches('/');
    for version in [1, 2] {
        machine.package(version, app);
    }
    dpkg(&machine, "dpkg", &["-i", "1.deb"]);
    machine.configure_with("redirect = \"divert\"\n");
    machine
}

fn diversions(machine: &Machine) -> String {
    dpkg(machine, "dpkg-divert", &["--list", "*"])
}

#[test]
#[ignore = "needs root"]
fn a_diverted_program_is_upgraded_and_removed_by_dpkg() {
    let mut machine = packaged("divert");
    machine.start();
    for (from, to) in [(1, 2), (2, 1), (1, 2)] {
        machine.wait_for(&format!("{from} {from} boosted"));
        let program = &machine.status()["programs"][0];
        assert_eq!(program["redirect"], "divert");
        let list = diversions(&machine);
        assert!(list.contains("app/.prog.dwell-stock"), "{list}");
        // dpkg looks where the stock program is.
        assert_eq!(dpkg(&machine, "dpkg", &["--verify", "dwelltest"]), "");
        dpkg(&machine, "dpkg", &["-i", &format!("{to}.deb")]);
        let took = machine.wait_until("the old one runs on", || {
            machine.says().starts_with(&format!("{to} {to}"))
        });
        assert!(took < SOON, "{took:?}");
    }
    machine.wait_for("2 2 boosted");
    dpkg(&machine, "dpkg", &["-r", "dwelltest"]);
    machine.wait_until("the boosted program stays behind", || {
        !machine.prog().exists() && !machine.path("state/active/prog.json").exists()
    });
    assert_eq!(diversions(&machine), "");
    machine.nothing_is_left();
}

#[test]
#[ignore = "needs root"]
fn a_diverted_program_is_taken_back() {
    let mut machine = packaged("divert-back");
    machine.start();
    machine.wait_for("1 1 boosted");
    machine.starts_prog().arg("abort").status().expect("runs");
    let took = machine.wait_for("1 1 stock");
    assert!(took < SOON, "{took:?}");
    machine.wait_until("it is not forgotten", || {
        !machine.path("state/active/prog.json").exists()
    });
    assert_eq!(diversions(&machine), "");
    machine.nothing_is_left();
    assert!(machine.run(&["activate", "prog"]).status.success());
    assert_eq!(machine.says(), "1 1 boosted");

    // While a dpkg is at work its list is left alone, and the stock program runs all the same.
    let lock = fs::File::options()
        .write(true)
        .open(machine.path("dpkg/lock"))
        .expect("dpkg has made it");
    hold(&lock);
    machine.signal(libc::SIGKILL);
    let took = machine.wait_for("1 1 stock");
    assert!(took < SOON, "{took:?}");
    std::thread::sleep(SOON);
    assert!(!diversions(&machine).is_empty());
    drop(lock);
    machine.wait_until("it is not forgotten", || {
        !machine.path("state/active/prog.json").exists()
    });
    assert_eq!(diversions(&machine), "");
    assert_eq!(machine.says(), "1 1 stock");
    machine.nothing_is_left();
}

/// As dpkg does.
fn hold(lock: &fs::File) {
    use std::os::fd::AsRawFd;
    let wanted = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: F_SETLK reads one `flock`, which outlives the call; the descriptor is open.
    let held = unsafe { libc::fcntl(lock.as_raw_fd(), libc::F_SETLK, &raw const wanted) };
    assert_eq!(held, 0, "nobody has it");
}

/// A systemd that sees the machine's files, and has units, processes, control groups and a `/run` of its own.
struct Booted {
    outer: Child,
    within: Vec<String>,
}

const SYSTEMD: &str = "/lib/systemd/systemd";

/// Units that others need are empty.
const BOOT: &str = "set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
mount -t tmpfs tmpfs /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for unit in test sysinit basic shutdown multi-user; do
    printf '[Unit]\\nDefaultDependencies=no\\n' > /run/systemd/system/$unit.target
done
cp \"$UNITS\"/*.service /run/systemd/system
exec env -i container=test PATH=\"$PATH\" SYSTEMD_UNIT_PATH=/run/systemd/system \\
    /lib/systemd/systemd --system --unit=test.target --show-status=no --log-target=null
";

impl Booted {
    /// With the units of this folder.
    fn new(units: &Path) -> Self {
        let mut outer = Command::new("unshare")
            .args([
                "-m",
                "-p",
                "-i",
                "-u",
                "-C",
                "-f",
                "--kill-child",
                "sh",
                "-c",
                BOOT,
            ])
            .env("UNITS", units)
            .stdin(Stdio::null())
            .spawn()
            .expect("unshare runs");
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let ended = outer.try_wait().expect("ours");
            assert!(
                ended.is_none() && end > std::time::Instant::now(),
                "no systemd"
            );
            let Ok(children) =
                fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.id()))
            else {
                continue;
            };
            let first = children.trim();
            if Path::new(&format!("/proc/{first}/root/run/systemd/private")).exists() {
                let words = ["nsenter", "-t", first, "-m", "-p", "-C", "--"];
                let within = words.map(str::to_owned).to_vec();
                return Booted { outer, within };
            }
        }
    }

    fn run(&self, words: &[&str]) -> Output {
        let output = Command::new(&self.within[0])
            .args(&self.within[1..])
            .args(words)
            .env_remove("LD_LIBRARY_PATH")
            .output();
        output.expect("nsenter runs")
    }

    fn systemctl(&self, words: &[&str]) -> String {
        let output = self.run(&[&["systemctl"], words].concat());
        assert!(
            output.status.success(),
            "{words:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout).trim().to_owned()
    }

    /// Starts the program with these arguments as a process of the service would.
    fn in_service(&self, machine: &Machine, arg: &str) -> String {
        let main = self.systemctl(&["show", "-P", "MainPID", "prog.service"]);
        let prog = machine.prog();
        let prog = prog.to_str().expect("UTF-8");
        let output = self.run(&["nsenter", "-t", &main, "-m", "--", prog, arg]);
        text(&output.stdout).trim().to_owned()
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        let _ = self.outer.kill();
        let _ = self.outer.wait();
    }
}

/// A service that runs the program, and the program's configuration for it; none where there is no systemd.
fn service(name: &str) -> Option<(Booted, Machine)> {
    if !Path::new(SYSTEMD).exists() {
        println!("systemd is not installed");
        return None;
    }
    let mut machine = Machine::new(name);
    let prog = machine.prog();
    let unit = format!(
        "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart={} pause\n",
        prog.display()
    );
    fs::create_dir_all(machine.path("units")).expect("a folder");
    fs::write(machine.path("units/prog.service"), unit).expect("written");
    machine.configure_with("redirect = \"bind\"\nunit = \"prog.service\"\n");
    let booted = Booted::new(&machine.path("units"));
    machine.within.clone_from(&booted.within);
    Some((booted, machine))
}

fn is_boosted(machine: &Machine) -> bool {
    machine.status()["programs"][0]["state"] == "boosted"
}

#[test]
#[ignore = "needs root"]
fn a_service_alone_runs_the_boosted_program() {
    let Some((booted, mut machine)) = service("bind") else {
        return;
    };
    let restarted = |machine: &Machine| {
        machine.wait_until("not boosted", || is_boosted(machine));
        booted.systemctl(&["restart", "prog.service"]);
        let said = booted.in_service(machine, "maps");
        assert!(said.ends_with("boosted"), "{said}\n{}", machine.log());
    };
    let soon = |machine: &Machine, wanted: &str| {
        let took = machine.wait_until("the boosted one runs on", || {
            booted.in_service(machine, "maps") == wanted
        });
        assert!(took < SOON, "{took:?}");
    };
    machine.start();
    restarted(&machine);
    assert_eq!(machine.says(), "1 1 stock", "all others run the stock one");
    let program = &machine.status()["programs"][0];
    assert_eq!(
        (&program["redirect"], &program["processes"]),
        (&"bind".into(), &1.into())
    );

    // An upgrade renames over the program, and ends the mount with that.
    machine.program("app", 2);
    soon(&machine, "2 1 stock");
    restarted(&machine);
    // A changed library leaves the mount: the guard decides.
    machine.library("app", 2);
    soon(&machine, "2 2 stock");
    restarted(&machine);
    // A file that is still mounted stays stock when a newer one may run.
    machine.library("app", 3);
    soon(&machine, "2 3 stock");
    machine.wait_until("not boosted", || is_boosted(&machine));
    assert_eq!(booted.in_service(&machine, "maps"), "2 3 stock");
    restarted(&machine);
    booted.in_service(&machine, "abort");
    soon(&machine, "2 3 stock");
    machine.wait_until("it is not told", || {
        machine.status()["programs"][0]["state"] == "rolled-back"
    });
    nothing_is_left(&booted, &machine);

    assert!(machine.run(&["activate", "prog"]).status.success());
    restarted(&machine);
    machine.signal(libc::SIGKILL);
    soon(&machine, "2 3 stock");
    machine.wait_until("it is not forgotten", || {
        !machine.path("state/active/prog.json").exists()
    });
    nothing_is_left(&booted, &machine);
    booted.systemctl(&["restart", "prog.service"]);
    assert_eq!(booted.in_service(&machine, "maps"), "2 3 stock");
}

fn nothing_is_left(booted: &Booted, machine: &Machine) {
    machine.nothing_is_left();
    let bound = fs::read_dir(machine.path("state/bound")).expect("there");
    assert_eq!(bound.count(), 0, "the boosted file");
    let drop_ins = booted.systemctl(&["show", "-P", "DropInPaths", "prog.service"]);
    assert_eq!(drop_ins, "");
    assert!(
        !booted
            .run(&["test", "-e", "/run/systemd/system/prog.service.d"])
            .status
            .success()
    );
}

/// Without a systemd that could do it, it is told.
#[test]
#[ignore = "needs root"]
fn a_mount_for_a_service_needs_systemd() {
    if Path::new("/run/systemd/system").exists() {
        return println!("systemd runs here");
    }
    let mut machine = Machine::new("bind-without");
    machine.configure_with("redirect = \"bind\"\nunit = \"prog.service\"\n");
    machine.start();
    machine.wait_until("it is not told", || {
        machine.status()["programs"][0]["why"]
            .to_string()
            .contains("does not run here")
    });
    assert_eq!(machine.says(), "1 1 stock");
}

/// The packaged unit, but for its folders: started, killed and stopped by systemd.
#[test]
#[ignore = "needs root"]
fn systemd_runs_the_daemon() {
    if !Path::new(SYSTEMD).exists() {
        return println!("systemd is not installed");
    }
    let mut machine = Machine::new("unit");
    let unit = text(&machine.run(&["daemon", "--unit"]).stdout);
    let folders =
        ["config", "state", "run"].map(|f| format!(" --{f}-dir {}", machine.path(f).display()));
    let folders = folders.concat();
    let unit = unit.replace("boost daemon\n", &format!("boost daemon{folders}\n"));
    let unit = unit.replace("boost restore\n", &format!("boost restore{folders}\n"));
    assert_eq!(unit.matches("--config-dir").count(), 2, "{unit}");
    // Folders of the machine itself are not to be made.
    let unit = unit.replace("StateDirectory=dwell/boost\n", "");
    fs::create_dir_all(machine.path("units")).expect("a folder");
    fs::write(machine.path("units/dwell-boost.service"), unit).expect("written");
    let booted = Booted::new(&machine.path("units"));
    machine.within.clone_from(&booted.within);
    booted.systemctl(&["start", "dwell-boost"]);
    assert_eq!(booted.systemctl(&["is-active", "dwell-boost"]), "active");
    machine.wait_for("1 1 boosted");
    booted.systemctl(&["kill", "-s", "KILL", "dwell-boost"]);
    let took = machine.wait_for("1 1 stock");
    assert!(took < SOON, "{took:?}");
    // Restart=on-failure.
    machine.wait_for("1 1 boosted");
    booted.systemctl(&["stop", "dwell-boost"]);
    assert_eq!(machine.says(), "1 1 stock");
    machine.nothing_is_left();
}
