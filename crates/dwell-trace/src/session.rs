//! A script at work.
use crate::enabled::Enabled;
use crate::engines::Engines;
use crate::error::TraceError;
use crate::maps::Drops;
use crate::placing::{Placing, place};
use crate::probes::Process;
use dwell_maps::Mapping;
use dwell_script::aggregate::add_rows;
use dwell_script::codegen::{Generator, Limits};
use dwell_script::schema::{AggregationId, AggregationSchema, ClauseSchema, ProbeName, Row};
use dwell_script::typed::Script;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What is asked of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Sizes of the script's data.
    pub limits: Limits,
    /// Bytes for records that were not read yet.
    pub buffer: u32,
    /// A description that matches nothing is no error.
    pub may_match_nothing: bool,
    /// Where programs run.
    pub engine: Engine,
}

/// Where the programs of a script run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// In the kernel.
    #[default]
    Kernel,
    /// Inside the process that the script's places are in, as native code. Places that cannot be patched are left
    /// out.
    Process,
    /// Each probe inside the process if it can run there, else in the kernel; together what shares variables.
    Auto,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            limits: Limits::default(),
            buffer: 4 << 20,
            may_match_nothing: false,
            engine: Engine::default(),
        }
    }
}

/// A script's programs at work. Dropping it takes everything back.
pub struct Session<'s> {
    engines: Engines,
    generator: Generator<'s>,
    probes: Enabled,
    /// Why probes are not inside the process, by number; none where that was not tried.
    not_inside: BTreeMap<u32, String>,
    /// Whether those are nowhere.
    leaves_out: bool,
}

impl<'s> Session<'s> {
    /// Finds a script's probes and makes its programs ready. Nothing runs yet.
    pub fn new(
        script: &'s Script,
        settings: &Settings,
        processes: &mut Vec<Process>,
    ) -> Result<Self, TraceError> {
        let probes = Enabled::find(script, processes, settings.may_match_nothing)?;
        let Placing {
            engines,
            generator,
            not_inside,
        } = place(script, settings, &probes)?;
        let session = Session {
            engines,
            generator,
            probes,
            not_inside,
            leaves_out: settings.engine == Engine::Process,
        };
        session.write_names()?;
        Ok(session)
    }

    /// The names that programs look up.
    fn write_names(&self) -> Result<(), TraceError> {
        let size = self.generator.string_size() as usize;
        for (number, (probe, _)) in &self.probes.probes {
            let ProbeName {
                provider,
                module,
                function,
                name,
            } = &probe.name;
            let mut value = vec![0; 4 * size];
            for (part, text) in value
                .chunks_exact_mut(size)
                .zip([provider, module, function, name])
            {
                let length = text.len().min(size - 1);
                part[..length].copy_from_slice(&text.as_bytes()[..length]);
            }
            let key = u64::from(*number).to_ne_bytes();
            self.engines.write_name(&key, &value)?;
        }
        Ok(())
    }

    /// Whether the limits leave room for one of each: see [`Generator::fits`].
    pub fn fits(&self, buffer: u64) -> bool {
        self.generator.fits(buffer)
    }

    /// Runs BEGIN and attaches everything else.
    pub fn start(&mut self) -> Result<(), TraceError> {
        self.engines.start(&self.probes)
    }

    /// Takes the programs off their probes and runs END. What was recorded stays readable.
    pub fn stop(&mut self) -> Result<(), TraceError> {
        self.engines.stop()
    }

    /// Waits for a record that is urgent, but not longer than this; whether there is one.
    pub fn wait(&self, timeout: Duration) -> Result<bool, TraceError> {
        self.engines.wait(timeout)
    }

    /// Gives the records that were not given yet, oldest first.
    pub fn drain(&self, take: &mut dyn FnMut(&[u8])) -> Result<(), TraceError> {
        self.engines.drain(take)
    }

    /// What was aggregated since the start, one row for each key.
    pub fn rows(&self, aggregation: AggregationId) -> Result<Vec<Row>, TraceError> {
        let Some(store) = self.generator.sums_store(aggregation) else {
            return Ok(Vec::new());
        };
        let schema = &self.generator.aggregations()[aggregation.0 as usize];
        let parts = self.engines.rows(&self.generator, store, aggregation)?;
        Ok(add_rows(schema.function, parts))
    }

    /// Forgets keys of an aggregation.
    pub fn remove(&self, aggregation: AggregationId, keys: &[Box<[u8]>]) {
        let Some(store) = self.generator.sums_store(aggregation) else {
            return;
        };
        let keys = keys
            .iter()
            .map(|k| self.generator.store_key(aggregation, k));
        self.engines.remove(store, &keys.collect::<Vec<_>>());
    }

    /// What found no room.
    pub fn drops(&self) -> Result<Drops, TraceError> {
        self.engines.drops()
    }

    /// Whether programs inside the process run no more, since it forbade itself system calls: theirs would end it.
    pub fn rests(&self) -> bool {
        let inside = self.engines.inside.as_ref();
        inside.is_some_and(|inside| inside.borrow().rests())
    }

    /// Where the programs run; [`Engine::Auto`] if they do in both.
    pub fn engine(&self) -> Engine {
        match (&self.engines.kernel, &self.engines.inside) {
            (Some(_), Some(_)) => Engine::Auto,
            (_, None) => Engine::Kernel,
            (None, _) => Engine::Process,
        }
    }

    /// The probes that are not inside the process although that was tried, and why: they are in the kernel.
    pub fn not_inside(&self) -> impl Iterator<Item = (&ProbeName, &str)> {
        let all = self.not_inside.iter();
        all.map(|(number, why)| (&self.probes.probes[number].0.name, why.as_str()))
    }

    /// Whether those that are not inside are nowhere, since the kernel was not to be used.
    pub fn leaves_out(&self) -> bool {
        self.leaves_out
    }

    /// The Java method, the Python code or the JavaScript function that a word of a user stack stands for, also when its process
    /// is over: the language, the name, and the distance in bytes from the start of compiled code.
    pub fn method_at(&self, pid: u32, word: u64) -> Option<(&'static str, String, u64)> {
        self.engines.kernel.as_ref()?.method_at(pid, word)
    }

    /// The code of a process whose stacks were taken, which may be over, and by which path each file can be read.
    pub fn mappings(&self, pid: u32) -> Vec<(Mapping, PathBuf)> {
        let kernel = self.engines.kernel.as_ref();
        kernel.map_or(Vec::new(), |kernel| kernel.mappings(pid))
    }

    /// All probes by number, with the clauses that run for them.
    pub fn probes(&self) -> impl Iterator<Item = (u32, &ProbeName, &[usize])> {
        let all = self.probes.probes.iter();
        all.map(|(number, (probe, clauses))| (*number, &probe.name, clauses.as_slice()))
    }

    /// The name of a probe as records number it.
    pub fn probe(&self, number: u32) -> Option<&ProbeName> {
        self.probes
            .probes
            .get(&number)
            .map(|(probe, _)| &probe.name)
    }

    /// The records of each clause.
    pub fn clauses(&self) -> &[ClauseSchema] {
        self.generator.clauses()
    }

    /// The aggregations by id.
    pub fn aggregations(&self) -> &[AggregationSchema] {
        self.generator.aggregations()
    }
}
