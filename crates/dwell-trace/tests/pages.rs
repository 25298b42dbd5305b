//! What scripts read of a program's memory, on a program that takes pages of it away. Needs root, and
//! DWELL_TEST_PROGRAMS.
use dwell_script::schema::AggregationId;
use dwell_script::{Bare, Input, Macros, compile};
use dwell_trace::{Drops, Engine, Session, Settings};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// By which ways a page goes.
const WAYS: [&str; 8] = [
    "mprotect", "syscall", "munmap", "fixed", "mremap", "guard", "truncate", "dlclose",
];

/// Reads what may be gone, in clauses that then end.
const TEXT: &str = "
    pid$target:pages:hit:entry { @calls = count(); }
    pid$target:pages:hit:entry { this->value = *(int *)arg0; @read = count(); @sum = sum(this->value); }
    pid$target:pages:hit:entry /copyinstr(arg0 + sizeof(int)) == \"a text\"/ { @texts = count(); }
    pid$target:pages:hit:entry { @stays = sum(*(int *)arg1); }
    ERROR { @faults = count(); }";

/// The program's own answer, and the script's aggregations.
struct Said {
    calls: i64,
    readable: i64,
    sums: Vec<i64>,
}

fn start(way: &str, rounds: u32) -> Child {
    let programs = std::env::var("DWELL_TEST_PROGRAMS");
    let programs = programs.expect("DWELL_TEST_PROGRAMS names the test programs");
    Command::new(format!("{programs}/pages"))
        .args([way, &rounds.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("pages starts")
}

fn run(text: &str, engine: Engine, way: &str, rounds: u32) -> Said {
    let mut child = start(way, rounds);
    let input = Input {
        source: text,
        macros: Macros {
            arguments: vec!["test"],
            variables: vec![("target", child.id().into())],
        },
        ..Input::default()
    };
    let (script, _) = compile(&input, &Bare).unwrap_or_else(|error| panic!("{text}: {error}"));
    let settings = Settings {
        engine,
        ..Settings::default()
    };
    // It is executed, and has not begun.
    std::thread::sleep(Duration::from_millis(50));
    let session = Session::new(&script, &settings, &mut Vec::new());
    let mut session = session.unwrap_or_else(|error| panic!("{way}: {error}"));
    assert_eq!(session.engine(), engine);
    session.start().expect("it starts");
    let mut told = child.stdin.take().expect("it is piped");
    told.write_all(b"\n").expect("it listens");
    let mut output = child.stdout.take().expect("it is piped");
    let mut said = String::new();
    output.read_to_string(&mut said).expect("it ends");
    let status = child.wait().expect("it is ours");
    assert!(status.success(), "{way}, {engine:?}: {status}");
    session.stop().expect("it is detached");
    assert_eq!(session.drops().expect("drops"), Drops::default());
    let sum = |id| {
        let rows = session.rows(AggregationId(id)).expect("rows");
        rows.first().map_or(0, |row| row.values[0])
    };
    let mut numbers = said.split_whitespace().skip(1);
    let mut number = || numbers.next().and_then(|n| n.parse().ok());
    Said {
        calls: number().expect("calls"),
        readable: number().expect("readable"),
        sums: (0..script.aggregations.len() as u32).map(sum).collect(),
    }
}

/// The program goes on as if nobody looked, and what is not there is an error of the script.
#[test]
#[ignore = "needs root"]
fn pages_that_go_away_are_errors() {
    for way in WAYS {
        for engine in [Engine::Process, Engine::Kernel] {
            // In later rounds the pages are not known any more.
            for rounds in [1, 3] {
                let said = run(TEXT, engine, way, rounds);
                let n = i64::from(rounds);
                if way == "guard" && said.calls == said.readable {
                    continue; // no such pages before Linux 6.13
                }
                assert_eq!((said.calls, said.readable), (3 * n, 2 * n), "{way}");
                let expected = [3 * n, 2 * n, 14 * n, 2 * n, 15 * n, 2 * n];
                assert_eq!(said.sums, expected, "{way}, {engine:?}");
            }
        }
    }
}

/// Variables of the program are read without asking the kernel, as long as they are all there.
#[test]
#[ignore = "needs root"]
fn the_kernel_is_not_asked_for_variables() {
    let text = "pid$target:pages:hit:entry { @calls = count(); @stays = sum(*(int *)arg1); }
        syscall::process_vm_readv:entry /pid == $target/ { @asked = count(); }";
    let calls = 3_000_000;
    let said = run(text, Engine::Auto, "none", 1_000_000);
    assert_eq!(said.calls, calls);
    assert_eq!(said.sums[..2], [calls, 5 * calls]);
    // Once for each thread, when it fires for the first time.
    assert!(said.sums[2] <= 2, "{:?}", said.sums);
    // From the first page that goes on, it is asked each time.
    let said = run(text, Engine::Auto, "mprotect", 1000);
    assert_eq!(said.sums[..2], [3000, 15_000]);
    assert!((2999..3005).contains(&said.sums[2]), "{:?}", said.sums);
}
