//! One script from its first record to its end.
use super::aggregations::{Cleared, Sums};
use super::names::{Kept, Known};
use super::output::Output;
use super::target::Target;
use dwell_script::codegen::{ERROR_CLAUSE, ErrorRecord};
use dwell_script::output::messages::{self, Drop, Fault, Where};
use dwell_script::output::{Layout, Options, Outcome, Printer, World};
use dwell_script::schema::{ProbeName, RecordHeader};
use dwell_script::types::Types;
use dwell_trace::{Drops, Session};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at what else can end the script.
const LOOK: Duration = Duration::from_millis(20);

/// Whether Ctrl-C was pressed, or we were told to end.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn interrupted(_signal: i32) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// How a script is run.
pub struct Manner<'a> {
    /// In front of messages: `dtrace`.
    pub program: &'a str,
    /// How often records are printed.
    pub switch_every: Duration,
    /// Losses are told with dtrace's tags.
    pub tags: bool,
}

/// The option that says how often records are printed.
const SWITCH_RATE: &str = "switchrate";

/// How often records are printed: dtrace's once a second where nothing is said.
pub fn switch_every(options: &dwell_script::Options) -> Duration {
    let period = options.number(SWITCH_RATE);
    period.map_or(Duration::from_secs(1), |ns| {
        Duration::from_nanos(ns.max(1) as u64)
    })
}

/// What has been printed of a script, and how it goes on.
struct Printed<'c> {
    printer: Printer<'c>,
    kept: Kept,
    cleared: Cleared,
    output: Output,
    drops: Drops,
    /// It was told that the process' probes rest.
    rests: bool,
    status: Option<i32>,
    /// How often records are printed.
    switch_every: Duration,
}

/// Runs a session to its end: its exit status.
pub fn run(
    session: &mut Session<'_>,
    types: &Types,
    options: Options,
    target: &mut Target,
    output: Output,
    manner: &Manner<'_>,
) -> anyhow::Result<i32> {
    take_signals();
    let (clauses, aggregations) = (session.clauses().to_vec(), session.aggregations().to_vec());
    let layout = Layout {
        clauses: &clauses,
        aggregations: &aggregations,
        types,
    };
    let mut printed = Printed {
        printer: Printer::new(layout, options)?,
        kept: Kept::default(),
        cleared: Cleared::default(),
        output,
        drops: Drops::default(),
        rests: false,
        status: None,
        switch_every: manner.switch_every,
    };
    session.start()?;
    if let Some(pid) = target.pid {
        printed.kept.read_process(pid);
    }
    target.begin()?;
    let mut next = Instant::now();
    while printed.status.is_none() && !INTERRUPTED.load(Ordering::Relaxed) {
        let urgent = session.wait(LOOK)?;
        let ended = target.has_ended();
        if ended || urgent || Instant::now() >= next {
            printed.print(session, manner)?;
            next = Instant::now() + printed.switch_every;
        }
        if ended {
            break;
        }
    }
    session.stop()?;
    printed.print(session, manner)?;
    printed.finish(session)?;
    Ok(printed.status.unwrap_or(0))
}

impl Printed<'_> {
    /// Prints the records there are, and tells of losses.
    fn print(&mut self, session: &Session<'_>, manner: &Manner<'_>) -> anyhow::Result<()> {
        let mut failure = None;
        session.drain(&mut |bytes| {
            if failure.is_none() {
                failure = self.record(session, bytes, manner).err();
            }
        })?;
        self.output.flush()?;
        self.tell_drops(session, manner)?;
        if !self.rests && session.rests() {
            self.rests = true;
            eprintln!(
                "{}: the process has forbidden itself system calls (seccomp); probes inside it rest from then on\n  \
                 remedy: --engine kernel",
                manner.program
            );
        }
        failure.map_or(Ok(()), Err)
    }

    fn record(
        &mut self,
        session: &Session<'_>,
        bytes: &[u8],
        manner: &Manner<'_>,
    ) -> anyhow::Result<()> {
        let Some((header, data)) = header(bytes) else {
            anyhow::bail!("a record of {} bytes", bytes.len());
        };
        if header.clause == ERROR_CLAUSE {
            self.output.flush()?;
            eprintln!(
                "{}: {}",
                manner.program,
                error_message(session, &header, data)
            );
            return Ok(());
        }
        let outcome = self.with_world(session, |printer, world| {
            printer.record(&header, data, world)
        })?;
        self.follow(outcome, manner);
        Ok(())
    }

    fn follow(&mut self, outcome: Outcome, manner: &Manner<'_>) {
        // As in dtrace END's comes last, and counts.
        self.status = outcome.exit.or(self.status);
        for (name, value) in &outcome.options {
            self.set_option(name, value);
        }
        for message in outcome.messages {
            eprintln!("{}: {message}", manner.program);
        }
    }

    /// An option that `setopt()` changes and that is not the printer's.
    fn set_option(&mut self, name: &str, value: &str) {
        let mut options = dwell_script::Options::default();
        if name == SWITCH_RATE && options.set(name, Some(value)).is_ok() {
            self.switch_every = switch_every(&options);
        }
    }

    fn with_world<R, E: Into<anyhow::Error>>(
        &mut self,
        session: &Session<'_>,
        action: impl FnOnce(&mut Printer<'_>, &mut World<'_>) -> Result<R, E>,
    ) -> anyhow::Result<R> {
        let mut names = Known {
            session,
            kept: &mut self.kept,
        };
        let mut aggregations = Sums {
            session,
            cleared: &mut self.cleared,
            failure: None,
        };
        let mut world = World {
            out: &mut self.output,
            names: &mut names,
            aggregations: &mut aggregations,
        };
        let result = action(&mut self.printer, &mut world).map_err(Into::into);
        aggregations
            .failure
            .map_or(result, |failure| Err(failure.into()))
    }

    fn finish(&mut self, session: &Session<'_>) -> anyhow::Result<()> {
        self.with_world(session, |printer, world| printer.finish(world))
    }

    fn tell_drops(&mut self, session: &Session<'_>, manner: &Manner<'_>) -> anyhow::Result<()> {
        let now = session.drops()?;
        let before = std::mem::replace(&mut self.drops, now);
        // Programs that found no memory for themselves left no record either.
        let records = now.records + now.firings + now.errors
            - before.records
            - before.firings
            - before.errors;
        let lost = [
            (Drop::Principal { cpu: 0 }, records),
            (
                Drop::Aggregation { cpu: 0 },
                now.aggregations - before.aggregations,
            ),
            (Drop::Dynamic, now.variables - before.variables),
            (Drop::DoubleError, now.double_errors - before.double_errors),
            (
                Drop::SpeculationUnavailable,
                now.speculations - before.speculations,
            ),
            (Drop::Speculation, self.printer.take_speculation_drops()),
        ];
        for (what, count) in lost.into_iter().filter(|(_, count)| *count > 0) {
            eprintln!("{}: {}", manner.program, what.message(count, manner.tags));
        }
        Ok(())
    }
}

/// The header of a record, and its data.
fn header(bytes: &[u8]) -> Option<(RecordHeader, &[u8])> {
    let (header, data) = bytes.split_at_checked(size_of::<RecordHeader>())?;
    let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let header = RecordHeader {
        clause: word(0),
        probe: word(4),
        cpu: word(8),
        pid: word(12),
        tid: word(16),
        speculation: word(20),
        done: u64::from(word(24)) | u64::from(word(28)) << 32,
    };
    Some((header, data))
}

fn error_message(session: &Session<'_>, header: &RecordHeader, data: &[u8]) -> String {
    let unknown = ProbeName::default();
    let probe = (
        header.probe,
        session.probe(header.probe).unwrap_or(&unknown),
    );
    let Some(error) = ErrorRecord::from_bytes(data) else {
        return messages::error(0, probe, "unknown error");
    };
    let fault = match error.fault {
        4 => Fault::DivisionByZero,
        5 => Fault::Scratch,
        _ => Fault::Address(Some(error.address)),
    };
    let place = match error.action {
        0 => Where::Predicate { offset: 0 },
        number => Where::Action {
            number: number.into(),
            offset: 0,
        },
    };
    messages::fault(error.clause, probe, fault, place)
}

fn take_signals() {
    INTERRUPTED.store(false, Ordering::Relaxed);
    for signal in dwell_collector::ending_signals() {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, interrupted as *const () as libc::sighandler_t) };
    }
}
