//! Hundreds of scripts, each in the kernel and inside the process, on a program that does the same each time: the same
//! records, byte by byte, and the same sums. Needs root, and DWELL_TEST_PROGRAMS.
use dwell_debuginfo::{Known, Process};
use dwell_script::codegen::Limits;
use dwell_script::schema::{AggregationId, Row};
use dwell_script::{Compiled, Input, Macros, Options, compile_all};
use dwell_trace::{Drops, Engine, Session, Settings};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The scripts: paragraphs.
const SCRIPTS: &[(&str, &str)] = &[
    ("operators", include_str!("parity/operators.d")),
    ("places", include_str!("parity/places.d")),
    ("memory", include_str!("parity/memory.d")),
    ("text", include_str!("parity/text.d")),
    ("variables", include_str!("parity/variables.d")),
    ("aggregations", include_str!("parity/aggregations.d")),
];

/// What a record's header says of the processor.
const CPU: std::ops::Range<usize> = 8..12;

/// The program, which does a round when it is told to.
struct Target {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Target {
    fn start() -> Target {
        let programs = std::env::var("DWELL_TEST_PROGRAMS")
            .expect("DWELL_TEST_PROGRAMS names the test programs");
        let mut child = Command::new(format!("{programs}/parity"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("make programs");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut target = Target {
            child,
            input: input.expect("it is piped"),
            output: output.expect("it is piped"),
        };
        target.await_end();
        target
    }

    fn await_end(&mut self) {
        self.output.read_exact(&mut [0]).expect("it lives");
    }

    fn round(&mut self) {
        self.input.write_all(b"g").expect("it reads");
        self.await_end();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The scripts of a file, as they are compiled.
fn scripts(text: &str) -> Vec<String> {
    let script = |paragraph: &str| {
        let lines = paragraph.lines().filter(|l| !l.starts_with("# "));
        let text = lines.collect::<Vec<_>>().join("\n");
        (!text.trim().is_empty()).then(|| expanded(&text))
    };
    text.split("\n\n").filter_map(script).collect()
}

/// With the place that `P:` stands for.
fn expanded(text: &str) -> String {
    let mut whole = String::new();
    for (at, part) in text.split("P:").enumerate() {
        if at > 0 {
            let joins = whole.ends_with(|c: char| c.is_ascii_alphanumeric());
            whole += if joins { "P:" } else { "pid$target:parity:" };
        }
        whole += part;
    }
    whole
}

/// What a script came to.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    records: Vec<Vec<u8>>,
    rows: Vec<Vec<Row>>,
    drops: Drops,
}

impl Outcome {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.rows.iter().all(Vec::is_empty)
    }
}

fn compiled(text: &str, pid: u32, process: &Process) -> Result<Compiled, String> {
    let input = Input {
        source: text,
        macros: Macros {
            arguments: vec!["test"],
            variables: vec![("target", pid.into())],
        },
        ..Input::default()
    };
    // Types are numbered for one script.
    compile_all(&[input], &Known::new(Some(process))).map_err(|(_, error)| error.to_string())
}

fn settings(engine: Engine, options: &Options) -> Settings {
    let number = |name: &str| options.number(name);
    let mut limits = Limits::default();
    limits.strsize = number("strsize").map_or(limits.strsize, |n| n as u32);
    limits.dynvarsize = number("dynvarsize").map_or(limits.dynvarsize, |n| n as u32);
    limits.nspec = number("nspec").map_or(limits.nspec, |n| n as u32);
    Settings {
        limits,
        engine,
        ..Settings::default()
    }
}

fn run(compiled: &Compiled, engine: Engine, target: &mut Target) -> Result<Outcome, String> {
    let script = &compiled.script;
    let session = Session::new(
        script,
        &settings(engine, &compiled.options),
        &mut Vec::new(),
    );
    let mut session = session.map_err(|error| error.to_string())?;
    session.start().map_err(|error| error.to_string())?;
    target.round();
    session.stop().map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    let drained = session.drain(&mut |record| records.push(record.to_vec()));
    drained.map_err(|error| error.to_string())?;
    for record in &mut records {
        record[CPU].fill(0);
    }
    let rows = |id| {
        let mut rows = session.rows(AggregationId(id)).expect("rows");
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        rows
    };
    Ok(Outcome {
        records,
        rows: (0..script.aggregations.len() as u32).map(rows).collect(),
        drops: session.drops().expect("they are read"),
    })
}

/// What is wrong with a script, if anything is.
fn compare(text: &str, target: &mut Target, process: &Process) -> Result<(), String> {
    let compiled = compiled(text, target.child.id(), process)?;
    let kernel = run(&compiled, Engine::Kernel, target).map_err(|e| format!("kernel: {e}"))?;
    let inside = run(&compiled, Engine::Process, target).map_err(|e| format!("inside: {e}"))?;
    if kernel.is_empty() {
        return Err("it shows nothing".into());
    }
    if kernel == inside {
        return Ok(());
    }
    let (mut kernel, mut inside) = (format!("{kernel:?}"), format!("{inside:?}"));
    let same = kernel.bytes().zip(inside.bytes());
    let same = same.take_while(|(a, b)| a == b).count().saturating_sub(60);
    for text in [&mut kernel, &mut inside] {
        *text = text.chars().skip(same).take(300).collect();
    }
    Err(format!("from {same}\nkernel: {kernel}\ninside: {inside}"))
}

#[test]
#[ignore = "needs root"]
fn the_engines_agree() {
    let mut target = Target::start();
    let process = Process::read(target.child.id()).expect("it lives");
    let only = std::env::var("DWELL_TEST_SCRIPTS").unwrap_or_default();
    let (mut tried, mut wrong) = (0, Vec::new());
    for (file, text) in SCRIPTS {
        for script in scripts(text).iter().filter(|s| s.contains(&only)) {
            tried += 1;
            if let Err(why) = compare(script, &mut target, &process) {
                wrong.push(format!("{file}: {script}\n{why}\n"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(tried >= 300 || !only.is_empty(), "{tried} scripts");
}

/// Functions on strings; `#` is the number of the call, `TEXT` a string at the first.
const FUNCTIONS: &[&str] = &[
    "strtok(TEXT, \", ;,\")",
    "substr(copyinstr(arg0), #, 3)",
    "strjoin(copyinstr(arg0), \"#\")",
    "strstr(copyinstr(arg0), \"l#\")",
    "strstr(copyinstr(arg0), strchr(\"hello\", 'l'))",
    "strchr(copyinstr(arg0), 97 + #)",
    "strrchr(copyinstr(arg0), 97 + #)",
    "index(copyinstr(arg0), \"l\", #)",
    "rindex(copyinstr(arg0), \"l\", #)",
    "index(copyinstr(arg0), lltostr(#))",
    "basename(copyinstr(arg0))",
    "dirname(copyinstr(arg0))",
    "cleanpath(copyinstr(arg0))",
    "tolower(copyinstr(arg0))",
    "toupper(copyinstr(arg0))",
    "lltostr(arg1 * 123456789 - #)",
    "lltostr(arg1 * 123456789 + #, 16)",
    "strtoll(copyinstr(arg0))",
    "strlen(copyinstr(arg0))",
    "inet_ntoa((ipaddr_t *)&`table)",
    "inet_ntoa6((struct in6_addr *)&`table)",
    "inet_ntop(AF_INET6, &`table)",
    "argstr(arg0, 5)",
];

/// The kernel's verifier follows each loop of these only once or twice.
#[test]
#[ignore = "needs root"]
fn many_functions_on_strings_are_one_clause() {
    const TIMES: u32 = 30;
    let mut target = Target::start();
    let process = Process::read(target.child.id()).expect("it lives");
    let mut wrong = Vec::new();
    for function in FUNCTIONS {
        let one = |n: u32| {
            let text = if n > 0 { "NULL" } else { "copyinstr(arg0)" };
            let call = function.replace("TEXT", text);
            format!("trace({});", call.replace('#', &n.to_string()))
        };
        let all: String = (0..TIMES).map(one).collect();
        let script = format!("pid$target:parity:speak:entry {{ {all} }}");
        if let Err(why) = compare(&script, &mut target, &process) {
            wrong.push(format!("{function}: {why}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
