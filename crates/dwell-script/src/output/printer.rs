//! The printer: a record to its lines.

use std::io::Write;

use super::actions::Firing;
use super::flow::Flow;
use super::format::{Format, parse};
use super::options::Options;
use super::printa::States;
use super::speculations::Speculations;
use super::{Layout, OutputError, World};
use crate::schema::{Action, ActionKind, ClauseSchema, RecordHeader};

/// Prints records and, at the end, aggregations.
pub struct Printer<'s> {
    pub(super) layout: Layout<'s>,
    pub(super) options: Options,
    pub(super) states: States,
    /// The formats of each clause's actions.
    formats: Vec<Vec<Option<Format>>>,
    speculations: Speculations,
    flow: Flow,
    /// Whether the columns' names were printed.
    headed: bool,
}

/// What is left to the caller to do after a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The script ends with this status.
    pub exit: Option<i32>,
    /// Options that are not the printer's, to be set.
    pub options: Vec<(Box<str>, Box<str>)>,
    /// Messages for standard error, without the program's name in front.
    pub messages: Vec<String>,
}

impl<'s> Printer<'s> {
    /// A printer for a script. Fails if one of its formats is none, which the checker has refused before.
    pub fn new(layout: Layout<'s>, options: Options) -> Result<Printer<'s>, OutputError> {
        let formats = layout.clauses.iter().map(formats);
        Ok(Printer {
            layout,
            options,
            states: States::default(),
            formats: formats.collect::<Result<_, _>>()?,
            speculations: Speculations::default(),
            flow: Flow::default(),
            headed: false,
        })
    }

    /// The options as they are now; `setopt` changes them.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Prints a record, or keeps it if it is speculative. Records must come in the order of time, so that those of a
    /// speculation are here before it is committed.
    pub fn record(
        &mut self,
        header: &RecordHeader,
        data: &[u8],
        world: &mut World,
    ) -> Result<Outcome, OutputError> {
        let mut outcome = Outcome::default();
        if header.speculation != 0 {
            let limit = self.options.speculation_size;
            self.speculations.add(*header, data, limit);
            return Ok(outcome);
        }
        let mut ended = Vec::new();
        self.fire(header, data, world, (&mut outcome, &mut ended))?;
        for (id, committed) in ended {
            let records = self.speculations.take(id);
            for (header, data) in records.iter().filter(|_| committed) {
                self.fire(header, data, world, (&mut outcome, &mut Vec::new()))?;
            }
        }
        Ok(outcome)
    }

    /// Ends the output: an empty line and all aggregations that were never printed.
    pub fn finish(&mut self, world: &mut World) -> Result<(), OutputError> {
        world.out.write_all(b"\n")?;
        self.tables(world, |tables, states| tables.rest(states))?;
        world.out.flush()?;
        Ok(())
    }

    /// Speculative records dropped since the last call, for a message.
    pub fn take_speculation_drops(&mut self) -> u64 {
        self.speculations.take_drops()
    }

    /// Prints the lines of a record.
    fn fire(
        &mut self,
        header: &RecordHeader,
        data: &[u8],
        world: &mut World,
        (outcome, ended): (&mut Outcome, &mut Vec<(u32, bool)>),
    ) -> Result<(), OutputError> {
        let at = header.clause as usize;
        let clause = self.layout.clauses.get(at);
        let clause = clause.ok_or(OutputError::Clause(header.clause))?;
        if header.speculation == 0 && speculates(clause, header) {
            // There was no speculation to take it: it was traced for nobody.
            return Ok(());
        }
        let mut firing = Firing {
            header,
            data,
            text: Vec::new(),
            outcome,
            ended,
        };
        let formats = std::mem::take(&mut self.formats[at]);
        let result = self.lines(clause, &formats, &mut firing, world);
        self.formats[at] = formats;
        // What was printed before an error is not lost.
        firing.flush(world)?;
        result
    }

    /// Prints a line for each part of a clause that was carried out: what stands inside an `if` is a clause of its
    /// own.
    fn lines(
        &mut self,
        clause: &ClauseSchema,
        formats: &[Option<Format>],
        firing: &mut Firing,
        world: &mut World,
    ) -> Result<(), OutputError> {
        if clause.actions.is_empty() {
            return self.line(&[], &[], firing, world);
        }
        let mut start = 0;
        for part in clause.actions.chunk_by(|a, b| a.condition == b.condition) {
            let formats = &formats[start..start + part.len()];
            start += part.len();
            if carried_out(&part[0], firing.header) {
                self.line(part, formats, firing, world)?;
            }
        }
        Ok(())
    }

    /// Prints one line: where it was, what the actions print, and the end of the line.
    fn line(
        &mut self,
        actions: &[Action],
        formats: &[Option<Format>],
        firing: &mut Firing,
        world: &mut World,
    ) -> Result<(), OutputError> {
        let silent =
            |action: &Action| matches!(action.kind, ActionKind::Commit(_) | ActionKind::Discard(_));
        let shown = actions.is_empty() || !actions.iter().all(silent);
        if shown {
            self.begin(firing, world);
        }
        let mut result = Ok(());
        for (action, format) in actions.iter().zip(formats) {
            result = result.and(self.act(&action.kind, format.as_ref(), firing, world));
        }
        if shown && !self.options.quiet {
            firing.text.push(b'\n');
        }
        result
    }

    /// The columns in front of a line, and before the first one their names.
    fn begin(&mut self, firing: &mut Firing, world: &mut World) {
        let RecordHeader {
            cpu,
            probe,
            tid,
            clause,
            ..
        } = *firing.header;
        let (quiet, flow) = (self.options.quiet, self.options.flow_indent);
        let text = &mut firing.text;
        // Writing to memory does not fail.
        let _ = match (flow, quiet, std::mem::replace(&mut self.headed, true)) {
            (true, _, false) => writeln!(text, "{:>3} {:<41}", "CPU", "FUNCTION"),
            (false, false, false) => {
                writeln!(text, "{:>3} {:>6} {:>32}", "CPU", "ID", "FUNCTION:NAME")
            }
            _ => Ok(()),
        };
        if quiet && !flow {
            return;
        }
        let unknown = Default::default();
        let name = world.names.probe(probe).unwrap_or(&unknown);
        let _ = if flow {
            let column = self.flow.column(tid, (probe, clause), name);
            write!(text, "{cpu:>3} {column:<41} ")
        } else {
            let column = format!("{}:{}", name.function, name.name);
            write!(text, "{cpu:>3} {probe:>6} {column:>32} ")
        };
    }
}

/// The formats of a clause's actions, taken apart.
fn formats(clause: &ClauseSchema) -> Result<Vec<Option<Format>>, OutputError> {
    let format = |action: &Action| match &action.kind {
        ActionKind::Printf { format, .. }
        | ActionKind::System { format, .. }
        | ActionKind::Freopen { format, .. }
        | ActionKind::Printa {
            format: Some(format),
            ..
        } => Ok(Some(parse(format)?)),
        _ => Ok(None),
    };
    clause.actions.iter().map(format).collect()
}

/// Whether an action was reached.
fn carried_out(action: &Action, header: &RecordHeader) -> bool {
    action
        .condition
        .is_none_or(|bit| header.done.checked_shr(u32::from(bit)).unwrap_or(0) & 1 == 1)
}

/// Whether a record was to be speculative.
fn speculates(clause: &ClauseSchema, header: &RecordHeader) -> bool {
    let reached = |action: &Action| {
        matches!(action.kind, ActionKind::Speculate(_)) && carried_out(action, header)
    };
    clause.actions.iter().any(reached)
}
