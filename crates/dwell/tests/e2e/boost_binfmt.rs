//! `dwell boost daemon` has the kernel start a boosted program (binfmt_misc), also in other mount namespaces and other
//! roots. The programs have headers that no program of the machine has, so nothing of it is switched. Needs root.

use crate::boost_support::{Machine, SOON, child_of, text};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const CONFIG: &str = "mode = \"static\"\nlevel = 3\nredirect = \"binfmt\"\n";
/// Variables under which the stock program would run; test harnesses set them.
const VARIABLES: [&str; 3] = ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"];

/// Gives a program a header of its own (`e_flags`).
fn mark(program: &Path, mark: u32) {
    let file = fs::File::options().write(true).open(program);
    let file = file.expect("opened");
    file.write_all_at(&mark.to_le_bytes(), 48).expect("written");
}

/// `made/prog`: the program in this version, with the header that this process gives to all of them. It finds its library
/// by a path.
fn make(machine: &Machine, version: u32) -> PathBuf {
    fs::create_dir_all(machine.path("made")).expect("a folder");
    let (version, path) = (format!("-DVERSION={version}"), machine.path("app"));
    let path = format!("-Wl,-rpath,{}", path.display());
    let args = [
        "prog.c",
        &version,
        "-Lapp",
        "-lsay",
        &path,
        "-Wl,--build-id",
    ];
    machine.gcc(&args, "made/prog");
    mark(&machine.path("made/prog"), std::process::id());
    machine.path("made/prog")
}

fn install(machine: &Machine, version: u32) {
    fs::rename(make(machine, version), machine.prog()).expect("renamed");
}

/// A machine with a program to be registered.
fn registered(name: &str) -> Machine {
    let machine = Machine::new(name);
    install(&machine, 1);
    machine.configure_with(CONFIG);
    machine
}

/// Whether the program runs boosted; not with another C library than the one that can be merged.
fn is_boosted(machine: &Machine) -> bool {
    let refused = || {
        let status = machine.status();
        let program = &status["programs"][0];
        let stock = program["state"] == "stock" && !status["daemon"].is_null();
        stock.then(|| program["why"].to_string())
    };
    machine.wait_until("neither boosted nor refused", || {
        refused().is_some() || machine.status()["programs"][0]["state"] == "boosted"
    });
    let why = refused();
    assert!(why.iter().all(|why| why.contains("glibc")), "{why:?}");
    why.iter().for_each(|why| println!("{why}"));
    why.is_none()
}

fn run(command: &mut Command) -> Output {
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.output().expect("it runs")
}

fn said(command: &mut Command) -> String {
    let output = run(command);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

/// Another root, in a mount namespace of its own.
enum Root {
    /// The machine's files, seen elsewhere.
    Seen(PathBuf),
    /// Copies of some of them.
    Copied(PathBuf),
}

impl Root {
    fn seen(machine: &Machine) -> Self {
        fs::create_dir_all(machine.path("seen")).expect("a folder");
        Root::Seen(machine.path("seen"))
    }

    /// With glibc, terminals' library, and this program and library of the machine.
    fn copied(machine: &Machine, files: &[PathBuf]) -> Self {
        const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
        let root = machine.path("copied");
        for folder in [LIBRARIES, "usr/lib64", "proc", "dev", "tmp"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        symlink("usr/lib", root.join("lib")).expect("linked");
        symlink("usr/lib64", root.join("lib64")).expect("linked");
        let libraries = ["libc.so.6", "libtinfo.so.6", "ld-linux-x86-64.so.2"];
        let libraries = libraries.map(|name| Path::new("/").join(LIBRARIES).join(name));
        let loader = PathBuf::from("/usr/lib64/ld-linux-x86-64.so.2");
        for file in libraries.iter().chain([&loader]).chain(files) {
            let to = root.join(file.strip_prefix("/").expect("absolute"));
            fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            fs::copy(file, to).expect("copied");
        }
        Root::Copied(root)
    }

    fn path(&self) -> &Path {
        match self {
            Root::Seen(path) | Root::Copied(path) => path,
        }
    }

    /// A command in it.
    fn command(&self, words: &[&str]) -> Command {
        let mount = match self {
            Root::Seen(_) => "mount --rbind / \"$0\"",
            Root::Copied(_) => "mount -t proc proc \"$0/proc\"",
        };
        let script = format!("{mount} && exec chroot \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).arg(self.path());
        command.args(words);
        command
    }

    fn says(&self, program: &Path) -> String {
        said(&mut self.command(&[utf8(program), "maps"]))
    }
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Entries that lead to files of the machine.
fn entries(machine: &Machine) -> String {
    let mounted = machine.path("binfmt");
    fs::create_dir_all(&mounted).expect("a folder");
    let script = "mount -t binfmt_misc none \"$0\" && { grep -l -F \"$1\" \"$0\"/* || true; }";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .args([&mounted, &machine.folder])
        .output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn nothing_is_left(machine: &Machine) {
    assert_eq!(entries(machine), "");
    machine.nothing_is_left();
    let files = fs::read_dir(machine.path("state/binfmt")).expect("there");
    assert_eq!(files.count(), 0, "the boosted file");
}

#[test]
#[ignore = "needs root"]
fn other_roots_run_the_boosted_program_too() {
    let mut machine = registered("binfmt");
    let prog = machine.prog();
    let library = machine.path("app/libsay.so");
    machine.start();
    if !is_boosted(&machine) {
        return;
    }
    assert_eq!(machine.says(), "1 1 boosted");
    assert_ne!(entries(&machine), "");
    let program = &machine.status()["programs"][0];
    assert_eq!(program["redirect"], "binfmt");
    for (variable, value) in [("LD_PRELOAD", "libm.so.6"), ("LD_LIBRARY_PATH", "/none")] {
        let output = machine
            .starts_prog()
            .arg("maps")
            .env(variable, value)
            .output();
        assert_eq!(
            text(&output.expect("runs").stdout),
            "1 1 stock\n",
            "{variable}"
        );
    }
    // libc chooses other functions than those that are called directly.
    let mut tuned = machine.starts_prog();
    tuned.env(
        "GLIBC_TUNABLES",
        "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM,-AVX_Fast_Unaligned_Load,-SSE4_1",
    );
    assert_eq!(said(tuned.arg("maps")), "1 1 stock");

    assert_eq!(Root::seen(&machine).says(&prog), "1 1 boosted");
    let root = Root::copied(&machine, &[prog.clone(), library.clone()]);
    assert_eq!(root.says(&prog), "1 1 boosted");
    // Other programs with the same header, at another place and at the same one.
    let within = |path: &Path| root.path().join(path.strip_prefix("/").expect("absolute"));
    let elsewhere = make(&machine, 2);
    assert_eq!(said(Command::new(&elsewhere).arg("maps")), "2 1 stock");
    let header = |path: &Path| fs::read(path).expect("there")[..256].to_vec();
    assert_eq!(header(&elsewhere), header(&prog));
    fs::copy(&elsewhere, within(&prog)).expect("copied");
    assert_eq!(root.says(&prog), "2 1 stock");
    fs::copy(&prog, within(&prog)).expect("copied");
    assert_eq!(root.says(&prog), "1 1 boosted");
    // Another library.
    machine.library("made", 7);
    fs::copy(machine.path("made/libsay.so"), within(&library)).expect("copied");
    assert_eq!(root.says(&prog), "1 7 stock");
    fs::remove_file(within(&library)).expect("removed");
    let output = run(&mut root.command(&[utf8(&prog), "maps"]));
    assert_eq!(output.status.code(), Some(127), "the loader misses it");
    // Libraries that are to be loaded before all others.
    fs::copy(&library, within(&library)).expect("copied");
    fs::create_dir(within(Path::new("/etc"))).expect("a folder");
    fs::write(within(Path::new("/etc/ld.so.preload")), "").expect("written");
    assert_eq!(root.says(&prog), "1 1 stock");

    // A program that would miss its libraries in a copy is refused.
    machine.program("app", 1);
    machine.wait_until("it is not refused", || {
        let why = machine.status()["programs"][0]["why"].to_string();
        why.contains("$ORIGIN")
    });
    install(&machine, 1);
    machine.wait_for("1 1 boosted");
    // An upgrade, with the same header.
    install(&machine, 2);
    let now = machine.says();
    assert!(now.starts_with("2 1"), "{now}");
    machine.wait_for("2 1 boosted");
    machine.library("app", 3);
    let now = machine.says();
    assert!(now.starts_with("2 3"), "{now}");
    machine.wait_for("2 3 boosted");
}

#[test]
#[ignore = "needs root"]
fn no_entry_stays_behind() {
    let mut machine = registered("binfmt-back");
    machine.start();
    if !is_boosted(&machine) {
        return;
    }
    // Where it is mounted, entries outlive who made them.
    let kept = machine.path("kept");
    fs::create_dir_all(&kept).expect("a folder");
    let keeper = Keeper::start(&kept);
    let registered = || machine_has_entry(keeper.0.id(), &kept);
    machine.wait_until("it is not mounted", registered);

    machine.starts_prog().arg("abort").status().expect("runs");
    let took = machine.wait_for("1 1 stock");
    assert!(took < SOON, "{took:?}");
    machine.wait_until("it is not told", || {
        machine.status()["programs"][0]["state"] == "rolled-back"
    });
    nothing_is_left(&machine);
    assert!(machine.run(&["activate", "prog"]).status.success());
    assert_eq!(machine.says(), "1 1 boosted");

    machine.signal(libc::SIGKILL);
    let took = machine.wait_for("1 1 stock");
    assert!(took < SOON, "{took:?}");
    machine.wait_until("it is not forgotten", || {
        !machine.path("state/active/prog.json").exists()
    });
    nothing_is_left(&machine);

    // Both killed at once: it stays until somebody takes it back.
    machine.start();
    machine.wait_for("1 1 boosted");
    let daemon = machine.daemon.as_ref().expect("runs").id();
    // SAFETY: kill(2) takes numbers; the daemon is ours, and its only child is its second process.
    unsafe { libc::kill(child_of(daemon), libc::SIGSTOP) };
    let watchdog = child_of(daemon);
    machine.signal(libc::SIGKILL);
    // SAFETY: as above; it is stopped, so it has not ended.
    unsafe { libc::kill(watchdog, libc::SIGKILL) };
    machine.wait_until("the second process lives", || has_ended(watchdog));
    assert_eq!(machine.says(), "1 1 boosted");
    let output = machine.run(&["restore"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(machine.says(), "1 1 stock");
    nothing_is_left(&machine);

    machine.start();
    machine.wait_for("1 1 boosted");
    assert!(machine.run(&["rollback", "--all"]).status.success());
    assert_eq!(machine.says(), "1 1 stock");
    nothing_is_left(&machine);
}

/// Sleeps where binfmt_misc is mounted once more, until this is dropped.
struct Keeper(Child);

impl Keeper {
    fn start(mount: &Path) -> Self {
        let script = "mount -t binfmt_misc none \"$0\" && exec sleep 1000";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).arg(mount);
        // It would keep the test's own output open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Keeper(command.spawn().expect("it runs"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.kill().expect("ours");
        self.0.wait().expect("ours");
    }
}

/// Whether a process is gone, or only waits for its parent to look.
fn has_ended(process: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    !status.contains("State:") || status.contains("State:\tZ")
}

/// Whether an entry of ours is seen in the mount of another process.
fn machine_has_entry(process: u32, mount: &Path) -> bool {
    let seen = format!("/proc/{process}/root{}", mount.display());
    let mut entries = fs::read_dir(seen).into_iter().flatten().flatten();
    let ours = |e: fs::DirEntry| e.file_name().to_string_lossy().starts_with("dwell-boost-");
    entries.any(ours)
}

/// What a shell sees of its arguments, and others of it.
const SAYS: &str = "echo \"$0 $# $* $BASH\"; printf '<%s>' \"$@\"; tr '\\0' '|' < /proc/$$/cmdline; cat /proc/$$/comm; \
    (cd /proc/$$/fd && echo *); echo $LANG; type -t cd; [[ abc =~ b ]] && echo $((6 * 7))";
/// Whether a shell is the boosted one.
const WHICH: &str = "while read -r line; do [[ $line == */state/binfmt/* ]] && echo boosted && exit; done < /proc/$$/maps";

/// A script for this shell, beside it.
fn script(shell: &Path) -> PathBuf {
    let path = shell.with_file_name("script");
    fs::write(&path, format!("#!{} -e\n{SAYS}\n", shell.display())).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    path
}

/// What a shell does with arguments, how it ends, and what it calls itself, without its folder's name.
fn does(shell: &Path, root: Option<&Root>) -> Vec<String> {
    let (script, long) = (script(shell), "x".repeat(100_000));
    let (shell, script) = (utf8(shell), utf8(&script));
    let named = format!("exec -a name {shell} -c \"$0\" zero one");
    let again = "\"$BASH\" -c 'echo again $0'";
    let all: [&[&str]; 9] = [
        &[shell, "-c", SAYS, "zero", "one", "", "three three", "ä\n"],
        &[shell, "-c", "echo $0; echo ${#1}", "a", &long],
        &[shell, "-c", &named, SAYS],
        &[shell, "-c", "exit 7"],
        &[shell, "-c", "kill -TERM $$"],
        &[shell, "--version"],
        &[shell, "--none"],
        &[shell, "-c", again],
        &[script, "one", "two two"],
    ];
    let folder = script.trim_end_matches("/script");
    let told = all.iter().map(|words| {
        let mut command = match root {
            None => Command::new(words[0]),
            Some(root) => root.command(&words[..1]),
        };
        let output = run(command.args(&words[1..]).env("LANG", "C.UTF-8"));
        let said = text(&[output.stdout, output.stderr].concat());
        format!("{:?} {}", output.status, said.replace(folder, "FOLDER"))
    });
    told.collect()
}

#[test]
#[ignore = "needs root"]
fn bash_is_the_same_started_by_the_kernel() {
    let mut machine = Machine::new("binfmt-bash");
    let (bash, stock) = (machine.path("app/bash"), machine.path("same/bash"));
    fs::create_dir_all(machine.path("same")).expect("a folder");
    for (path, flags) in [(&bash, std::process::id()), (&stock, 0)] {
        fs::copy("/usr/bin/bash", path).expect("copied");
        mark(path, flags);
    }
    let config = format!("elf_path = {bash:?}\nfixed_addresses = true\n{CONFIG}");
    fs::write(machine.config(), config).expect("written");
    let copied = Root::copied(&machine, &[bash.clone(), stock.clone()]);
    let seen = Root::seen(&machine);
    machine.start();
    if !is_boosted(&machine) {
        return;
    }
    for root in [None, Some(&seen), Some(&copied)] {
        let which = |shell: &Path| {
            let mut command = match root {
                None => Command::new(shell),
                Some(root) => root.command(&[utf8(shell)]),
            };
            text(&run(command.args(["-c", WHICH])).stdout)
        };
        assert_eq!(which(&bash), "boosted\n");
        assert_eq!(which(&stock), "");
    }
    for root in [None, Some(&seen)] {
        let before = does(&stock, root);
        assert!(before[0].contains("<three three>"), "{}", before[0]);
        for (ours, before) in does(&bash, root).iter().zip(&before) {
            assert_eq!(ours, before);
        }
    }

    // A copy that gives rights gives them still, to its stock self.
    let within = copied
        .path()
        .join(bash.strip_prefix("/").expect("absolute"));
    fs::set_permissions(&within, fs::Permissions::from_mode(0o4755)).expect("set");
    let mut command = Command::new("chroot");
    command.arg("--userspec=65534:65534").arg(copied.path());
    let rights = "echo $UID $EUID $0 $@";
    command.args([utf8(&bash), "-p", "-c", rights, "a", "b"]);
    assert_eq!(text(&run(&mut command).stdout), "65534 0 a b\n");
}
