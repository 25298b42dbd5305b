//! A program with its library and a daemon of `dwell boost`, in a temporary folder: nothing of the machine is switched.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Says what its library answers, its own version, and with `maps` whether the library is a file of its own.
const PROGRAM: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nint say(void);\n\
    int main(int argc, char **argv) {\n\
    if (argc > 1 && !strcmp(argv[1], \"abort\")) abort();\n\
    if (argc > 1 && !strcmp(argv[1], \"pause\")) for (;;) pause();\n\
    int apart = 0; char line[4096]; FILE *maps = fopen(\"/proc/self/maps\", \"r\");\n\
    while (fgets(line, sizeof line, maps)) apart |= strstr(line, \"libsay.so\") != 0;\n\
    printf(\"%d %d\", VERSION, say());\n\
    if (argc > 1 && !strcmp(argv[1], \"maps\")) printf(\" %s\", apart ? \"stock\" : \"boosted\");\n\
    puts(\"\"); return 3; }\n";

/// A folder with `app/prog`, which needs `app/libsay.so`, a configuration for it, and perhaps a daemon.
pub struct Machine {
    pub folder: PathBuf,
    pub daemon: Option<Child>,
    /// What all commands of dwell are run by, where they are to be in other namespaces.
    pub within: Vec<String>,
    /// More variables of theirs.
    pub variables: Vec<(&'static str, PathBuf)>,
}

impl Machine {
    pub fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("dwell-e2e-boost-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("app")).expect("a folder");
        fs::create_dir_all(folder.join("config")).expect("a folder");
        let machine = Machine {
            folder,
            daemon: None,
            within: Vec::new(),
            variables: Vec::new(),
        };
        machine.library("app", 1);
        machine.program("app", 1);
        machine.configure(&machine.prog());
        machine
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn prog(&self) -> PathBuf {
        self.path("app/prog")
    }

    /// The program, without variables that name other libraries: under those the stock one would run, and test
    /// harnesses set them.
    pub fn starts_prog(&self) -> Command {
        let mut command = Command::new(self.prog());
        for name in ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"] {
            command.env_remove(name);
        }
        command
    }

    pub fn config(&self) -> PathBuf {
        self.path("config/prog.toml")
    }

    pub fn configure(&self, program: &Path) {
        self.write_config(program, "");
    }

    /// The program's configuration with further lines.
    pub fn configure_with(&self, more: &str) {
        self.write_config(&self.prog(), more);
    }

    fn write_config(&self, program: &Path, more: &str) {
        let text = format!("elf_path = {program:?}\ntest = [\"x\"]\n{more}");
        fs::write(self.path("new"), text).expect("written");
        fs::rename(self.path("new"), self.config()).expect("renamed");
    }

    pub fn library(&self, folder: &str, answer: u32) {
        // Addresses of functions that the loader looks up at every start, so that merging gains more than any noise:
        // the daemon takes back what is slower in its own trial.
        let functions: String = (0..4000).map(|n| format!("F({n}) ")).collect();
        let text = format!(
            "int say(void) {{ return {answer}; }}\n\
             #define F(n) int looked_up_##n(void) {{ return n; }}\n{functions}\n#undef F\n\
             #define F(n) looked_up_##n,\nint (*table[])(void) = {{ {functions} }};\n"
        );
        fs::write(self.path("say.c"), text).expect("written");
        let to = format!("{folder}/libsay.so");
        self.gcc(
            &[
                "-shared",
                "-fPIC",
                "say.c",
                "-Wl,-soname,libsay.so",
                "-Wl,--build-id",
            ],
            &to,
        );
    }

    pub fn program(&self, folder: &str, version: u32) {
        fs::write(self.path("prog.c"), PROGRAM).expect("written");
        let version = format!("-DVERSION={version}");
        let link = format!("-L{folder}");
        let to = format!("{folder}/prog");
        let libs = ["-lsay", "-Wl,-rpath,$ORIGIN", "-Wl,--build-id"];
        self.gcc(&[&["prog.c", &version, &link], &libs[..]].concat(), &to);
    }

    /// `VERSION.deb` with the program and its library of that version in this folder.
    pub fn package(&self, version: u32, app: &str) {
        let folder = format!("package{version}");
        let app = format!("{folder}/{app}");
        fs::create_dir_all(self.path(&app)).expect("a folder");
        fs::create_dir_all(self.path(&folder).join("DEBIAN")).expect("a folder");
        self.library(&app, version);
        self.program(&app, version);
        let control = format!(
            "Package: dwelltest\nVersion: {version}\nArchitecture: all\nMaintainer: none <none@localhost>\nDescription: test\n"
        );
        fs::write(self.path(&folder).join("DEBIAN/control"), control).expect("written");
        let built = Command::new("dpkg-deb")
            .args(["-b", &folder, &format!("{version}.deb")])
            .current_dir(&self.folder)
            .output();
        let built = built.expect("dpkg-deb runs");
        assert!(built.status.success(), "{}", text(&built.stderr));
    }

    /// Compiles and renames, as installers do.
    pub fn gcc(&self, args: &[&str], to: &str) {
        let new = format!("{to}.new");
        let mut command = Command::new("gcc");
        let status = command
            .args(args)
            .args(["-o", &new])
            .current_dir(&self.folder)
            .status();
        assert!(status.expect("gcc runs").success(), "gcc {args:?}");
        fs::rename(self.path(&new), self.path(to)).expect("renamed");
    }

    pub fn dwell(&self, args: &[&str]) -> Command {
        let own = env!("CARGO_BIN_EXE_dwell").to_owned();
        let mut words = self.within.iter().chain([&own]);
        let mut command = Command::new(words.next().expect("a program"));
        command
            .args(words)
            .arg("boost")
            .args(args)
            .env("TMPDIR", &self.folder)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env_remove("LD_LIBRARY_PATH");
        for (option, folder) in [
            ("--config-dir", "config"),
            ("--state-dir", "state"),
            ("--run-dir", "run"),
        ] {
            command.arg(option).arg(self.path(folder));
        }
        command
    }

    /// Starts the daemon; its messages go to the file `log`.
    pub fn start(&mut self) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .expect("a file");
        let child = self
            .dwell(&["daemon"])
            .stderr(log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        self.daemon = Some(child.expect("the daemon starts"));
    }

    pub fn signal(&mut self, signal: i32) {
        let mut daemon = self.daemon.take().expect("a daemon");
        let id = match self.within.is_empty() {
            true => daemon.id() as i32,
            false => child_of(daemon.id()),
        };
        // SAFETY: kill(2) takes numbers; the child is ours and not yet waited for, and so is its one.
        unsafe { libc::kill(id, signal) };
        daemon.wait().expect("it ends");
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Where the program's `main` is in its file.
    pub fn main_offset(&self) -> u64 {
        let symbols = Command::new("nm").arg(self.prog()).output();
        let symbols = text(&symbols.expect("nm runs").stdout);
        let main = symbols.lines().find(|l| l.ends_with(" T main"));
        let main = main.expect("a main function");
        u64::from_str_radix(&main[..16], 16).expect("an address")
    }

    /// Breaks the boosted file (ud2), with its time set back: as if it had been made so.
    pub fn break_at(&self, offset: u64) {
        let state = fs::metadata(self.prog()).expect("there");
        let file = fs::File::options().write(true).open(self.prog());
        let file = file.expect("opened");
        file.write_all_at(&[0x0f, 0x0b], offset).expect("written");
        file.set_modified(state.modified().expect("a time"))
            .expect("set");
        drop(file);
        let now = fs::metadata(self.prog()).expect("there").ino();
        assert_eq!(now, state.ino(), "still the boosted file");
    }

    /// What the program prints.
    pub fn says(&self) -> String {
        let output = self.starts_prog().arg("maps").output().expect("it runs");
        assert_eq!(output.status.code(), Some(3), "{}", self.log());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Waits until the program says so; gives how long that took.
    pub fn wait_for(&self, wanted: &str) -> Duration {
        let start = Instant::now();
        loop {
            let said = self.says();
            if said == wanted {
                return start.elapsed();
            }
            let patient = start.elapsed() < Duration::from_secs(60);
            assert!(patient, "{said} instead of {wanted}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn status(&self) -> Value {
        let output = self.dwell(&["status", "--json"]).output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.dwell(args).output().expect("it runs")
    }

    pub fn nothing_is_left(&self) {
        let hidden = self.path("app/.prog.dwell-stock");
        assert!(!hidden.exists(), "{}", self.log());
        let files = fs::read_dir(self.path("app")).expect("there").flatten();
        let mut names: Vec<String> = files
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.retain(|name| name.starts_with('.') && !name.ends_with(".dwell-new"));
        assert!(names.is_empty(), "{names:?}");
        let records = fs::read_dir(self.path("state/active"))
            .into_iter()
            .flatten()
            .count();
        assert_eq!(records, 0, "the journal is not empty");
    }

    pub fn wait_until(&self, what: &str, condition: impl Fn() -> bool) -> Duration {
        let start = Instant::now();
        while !condition() {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{what}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        start.elapsed()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.daemon.is_some() {
            self.signal(libc::SIGTERM);
        }
        let _ = self.run(&["rollback", "--all"]);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The first child of a process.
pub fn child_of(process: u32) -> i32 {
    let children = format!("/proc/{process}/task/{process}/children");
    let children = fs::read_to_string(children).expect("there");
    let first = children.split_whitespace().next();
    first.expect("a child").parse().expect("a number")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub const SOON: Duration = Duration::from_secs(1);
