//! An ordinary user traces processes of his own, inside them. Starting as somebody else needs root; and
//! DWELL_TEST_PROGRAMS.
use dwell_patch::process::AtEntry;
use dwell_script::schema::AggregationId;
use dwell_script::{Bare, Input, Macros, compile};
use dwell_trace::{Engine, Session, Settings};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Where what the user runs lies, told to the test that is run as him.
const FOLDER: &str = "DWELL_TEST_FOLDER";
const NOBODY: &str = "65534";
/// Calls of `early` in a round of the program `parity`.
const CALLS: i64 = 21;

const SCRIPT: &str = "pid$target:parity:early:entry { @ = count(); self->n = (int)arg0; }
    pid$target:parity:early:return { @sum = sum((int)arg1 - self->n); }
    pid$target:parity:look:entry { trace(execname); }
    parity$target:::guarded { @watched = count(); }";

/// The program and this test, where anybody may run them.
#[test]
#[ignore = "needs root"]
fn one_needs_no_root_for_ones_own_processes() {
    let programs = PathBuf::from(
        std::env::var("DWELL_TEST_PROGRAMS").expect("DWELL_TEST_PROGRAMS names the test programs"),
    );
    let folder = std::env::temp_dir().join(format!("dwell-user-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&folder, readable).expect("it is ours");
    let here = std::env::current_exe().expect("a path");
    for (from, name) in [(here, "tests"), (programs.join("parity"), "parity")] {
        std::fs::copy(from, folder.join(name)).expect("a copy");
    }
    let run = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .arg(folder.join("tests"))
        .args(["--ignored", "--exact", "as_a_user", "--nocapture"])
        .env(FOLDER, &folder)
        .output();
    std::fs::remove_dir_all(&folder).expect("it was made");
    let run = run.expect("setpriv is there");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}\n{errors}");
    assert!(said.contains("1 passed"), "{said}");
}

/// Run by the other one.
#[test]
#[ignore = "needs root"]
fn as_a_user() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return; // run by itself, there is nothing to do
    };
    // SAFETY: asks for a number.
    assert_ne!(unsafe { libc::geteuid() }, 0);
    let program = format!("{folder}/parity");
    running_already(&program);
    from_its_start(&program);
}

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does a round, or waits for the end of the first one.
fn round(child: &mut Child, begin: bool) {
    if begin {
        let input = child.stdin.as_mut().expect("it is piped");
        input.write_all(b"g").expect("it reads");
    }
    let output = child.stdout.as_mut().expect("it is piped");
    output.read_exact(&mut [0]).expect("it lives");
}

/// Traces while `act` goes on.
fn trace(pid: u32, act: impl FnOnce()) {
    let input = Input {
        source: SCRIPT,
        macros: Macros {
            arguments: vec!["test"],
            variables: vec![("target", pid.into())],
        },
        ..Input::default()
    };
    let (script, _) = compile(&input, &Bare).expect("it is right");
    let settings = Settings {
        engine: Engine::Process,
        ..Settings::default()
    };
    let session = Session::new(&script, &settings, &mut Vec::new());
    let mut session = session.unwrap_or_else(|error| panic!("{error}"));
    session.start().expect("it starts");
    act();
    session.stop().expect("it is detached");
    let mut records = 0;
    session.drain(&mut |_| records += 1).expect("records");
    assert_eq!(records, CALLS);
    let sum = |id| -> i64 {
        let rows = session.rows(AggregationId(id)).expect("rows");
        rows.iter().map(|row| row.values[0]).sum()
    };
    assert_eq!(sum(0), CALLS);
    // early(n) gives -1, 0 or 2n, for n from -3 to 17.
    let expected: i64 = (-3..18).map(|n: i64| if n < 0 { -1 - n } else { n }).sum();
    assert_eq!(sum(1), expected);
    assert_eq!(sum(2), 6);
}

fn running_already(program: &str) {
    let child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Ends(child.expect("it starts"));
    round(&mut child.0, false);
    let pid = child.0.id();
    for _ in 0..2 {
        trace(pid, || round(&mut child.0, true));
    }
    // It goes on without us.
    round(&mut child.0, true);
}

fn from_its_start(program: &str) {
    let child = Command::new("sh")
        .args(["-c", &format!("echo; read go; exec {program}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Ends(child.expect("sh starts"));
    round(&mut child.0, false);
    let expected = AtEntry::expect(child.0.id() as i32).expect("it can be traced");
    let input = child.0.stdin.as_mut().expect("it is piped");
    input.write_all(b"go\n").expect("it reads");
    let held = expected.held().expect("it is traced").expect("it is held");
    let pid = child.0.id();
    trace(pid, || {
        held.begin().expect("it begins");
        round(&mut child.0, false);
    });
}
