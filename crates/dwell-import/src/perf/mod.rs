//! perf.data, as `perf record` writes it.
//!
//! Twice through the records: once to see which events there are, whether switches are told and how long a
//! sample stands for, then in the order of time to write the recording.
mod bytes;
mod file;
mod kernel;
mod machine;
mod modules;
mod reasons;
mod records;
mod sample;
mod stacks;
mod survey;
mod threads;
mod tracing;
mod weights;

use crate::builder::{Builder, Waker};
use crate::folded::tool;
use crate::{Format, ImportError, Imported, Options, Source};
use dwell_recording::Overwrite;
use dwell_recording::meta::{ClockAnchor, Machine as MachineMeta, Meta};
use dwell_recording::rows::{MappingRow, ProcessRow};
use dwell_symbols::Symbolizer;
use file::PerfFile;
use machine::Machine;
use modules::Modules;
use records::{Record, Records};
use sample::Sample;
use stacks::{Context, Stacks};
use std::path::Path;
use survey::Survey;
use threads::{Departure, Into, Threads};
use weights::{Role, Roles};

/// Bits of `prev_state` that tell of sleep; none: the thread wanted to go on.
const SLEEPS: u64 = 0xff;
/// `TASK_UNINTERRUPTIBLE`.
const DISK_SLEEP: u64 = 2;

/// Writes what the file tells as a recording.
pub fn import(
    source: &dyn Source,
    options: &Options,
    symbolizer: &mut Symbolizer,
    to: &Path,
    overwrite: Overwrite,
) -> Result<Imported, ImportError> {
    let file = file::read(source)?;
    let mut survey = Survey::new(&file);
    let records = Records::locate(source, &file, |time_ns, record, event| {
        survey.see(time_ns, record, event);
    })?;
    if survey.samples == 0 {
        return Err(ImportError::NoSamples);
    }
    survey.start_ns = survey.start_ns.min(survey.end_ns);
    let roles = Roles::of(&file, &survey.events);
    let whole = survey.tells_of_processors(&file, &roles);
    let exact = !survey.untimed && (survey.switch_records || whole);
    let meta = meta(&file, options, &survey, &roles, records.len());
    let mut work = Work {
        builder: Builder::create(to, meta, overwrite)?,
        machine: Machine::default(),
        modules: Modules::of(&file, options.perf_cache.clone()),
        stacks: Stacks::default(),
        threads: Threads::new(exact, survey.start_ns),
        symbolizer,
        roles: &roles,
        file: &file,
        whole,
        switches: 0,
        samples: 0,
        idle: 0,
    };
    work.stacks.other_registers = !matches!(file.arch.as_str(), "" | "x86_64");
    work.names_of_kernel(survey.anchor.as_ref(), options);
    records.each(|time_ns, record, event| work.take(time_ns, &record, event))?;
    let mut notes = work.notes();
    notes.extend(survey.notes(&file, &roles, exact, records.cut_off));
    work.finish(survey.end_ns, notes)
}

fn meta(
    file: &PerfFile,
    options: &Options,
    survey: &Survey,
    roles: &Roles,
    records: usize,
) -> Meta {
    let (boottime_ns, realtime_ns) = file.clock.unwrap_or((survey.end_ns, options.modified_ns));
    let mut meta = Meta {
        tool: format!("{}, from perf {}", tool(), file.version),
        machine: MachineMeta {
            host: file.host.clone(),
            kernel: file.kernel.clone(),
            arch: file.arch.clone(),
            cpus: file.cpus,
        },
        clock: ClockAnchor {
            boottime_ns,
            realtime_ns,
        },
        target: match file.command_line.is_empty() {
            true => options.name.clone(),
            false => file.command_line.join(" "),
        },
        command_line: options.command_line.clone(),
        period_ns: roles.period_ns,
        start_ns: survey.start_ns,
        end_ns: survey.end_ns,
        ..Meta::default()
    };
    if survey.lost > 0 {
        let name = "perf_records";
        meta.losses.insert(name.into(), survey.lost);
        let produced = survey.lost.saturating_add(records as u64);
        meta.produced.insert(name.into(), produced);
    }
    meta
}

/// A recording in the making.
struct Work<'w> {
    builder: Builder,
    machine: Machine,
    modules: Modules,
    stacks: Stacks,
    threads: Threads,
    symbolizer: &'w mut Symbolizer,
    roles: &'w Roles,
    file: &'w PerfFile,
    /// Tracepoints tell every switch of whole processors.
    whole: bool,
    /// Switches that were told.
    switches: u64,
    samples: u64,
    /// Samples of processors that had nothing to do.
    idle: u64,
}

impl Work<'_> {
    fn names_of_kernel(&mut self, anchor: Option<&(String, u64)>, options: &Options) {
        let build_id = self
            .modules
            .recorded("[kernel.kallsyms]")
            .unwrap_or_default();
        let anchor = anchor.map(|(symbol, address)| (symbol.as_str(), *address));
        let list = kernel::symbols(build_id, anchor, options.perf_cache.as_deref());
        if let Some(list) = list {
            self.symbolizer.use_kernel_symbols(&list);
            self.stacks.names_kernel = true;
        }
    }

    fn take(
        &mut self,
        time_ns: u64,
        record: &Record<'_>,
        event: Option<usize>,
    ) -> Result<(), ImportError> {
        match record {
            Record::Sample(sample) => return self.sample(sample, event.unwrap_or(0)),
            Record::Mapped(mapped) if mapped.pid != u32::MAX => {
                let (module, bias) = self.modules.mapped(mapped, self.symbolizer);
                self.machine.mapped(mapped, module, bias);
            }
            Record::Mapped(_) | Record::Lost(_) => {}
            Record::Named {
                pid,
                tid,
                name,
                exec,
            } => {
                self.machine.named(*pid, *tid, name, *exec);
                self.threads.rename(*tid, name);
            }
            Record::Forked {
                pid,
                tid,
                parent,
                parent_tid,
            } => {
                self.machine.forked(*pid, *tid, *parent, *parent_tid);
                if self.threads.born(*tid, time_ns) {
                    let row = self.machine.row(*pid);
                    let name = self.machine.thread_name(*tid);
                    self.threads.begin(*tid, row, name, time_ns);
                }
            }
            Record::Ended { tid } => self.threads.ends(*tid, time_ns),
            Record::Left {
                tid,
                pid,
                preempted,
            } => {
                if let Some(thread) = self.thread(*pid, *tid) {
                    let departure = Departure {
                        preempted: *preempted,
                        ..Departure::default()
                    };
                    self.left(thread, time_ns, (u32::MAX, departure), true)?;
                }
            }
            Record::Got { tid, pid, cpu } => self.got(*pid, *tid, time_ns, *cpu)?,
        }
        Ok(())
    }

    /// The row of a thread; none for the idle ones.
    fn thread(&mut self, pid: u32, tid: u32) -> Option<u32> {
        if tid == 0 || tid == u32::MAX {
            return None;
        }
        let process = self.machine.row(pid);
        let name = self.machine.thread_name(tid);
        Some(self.threads.thread(tid, process, name))
    }

    fn left(
        &mut self,
        thread: u32,
        time_ns: u64,
        departure: (u32, Departure),
        again: bool,
    ) -> Result<(), ImportError> {
        self.switches += 1;
        let mut into = Into {
            builder: &mut self.builder,
            stacks: &self.stacks,
        };
        self.threads
            .left(thread, time_ns, departure, again, &mut into)
    }

    fn got(&mut self, pid: u32, tid: u32, time_ns: u64, cpu: u32) -> Result<(), ImportError> {
        let Some(thread) = self.thread(pid, tid) else {
            return Ok(());
        };
        let mut into = Into {
            builder: &mut self.builder,
            stacks: &self.stacks,
        };
        self.threads.got(thread, time_ns, cpu, &mut into)
    }

    fn stack(&mut self, sample: &Sample<'_>) -> Result<u32, ImportError> {
        let mut context = Context {
            machine: &mut self.machine,
            modules: &self.modules,
            symbolizer: self.symbolizer,
            builder: &mut self.builder,
        };
        self.stacks.of(sample, &mut context)
    }

    fn sample(&mut self, sample: &Sample<'_>, event: usize) -> Result<(), ImportError> {
        let time_ns = sample.time_ns;
        match self.roles.roles[event] {
            Role::Running { unit_ns, period } => {
                let Some(thread) = self.thread(sample.pid, sample.tid) else {
                    self.idle += 1;
                    return Ok(());
                };
                let weight = sample.period.unwrap_or(period) as f64 * unit_ns;
                let weight_ns = weight.round() as u64;
                let stack = self.stack(sample)?;
                self.samples += 1;
                let mut into = Into {
                    builder: &mut self.builder,
                    stacks: &self.stacks,
                };
                let what = (sample.cpu, weight_ns);
                self.threads.ran(thread, time_ns, what, &mut into)?;
                self.builder
                    .running(time_ns, thread, sample.cpu, stack, weight_ns)
            }
            Role::Switch => self.switch(sample, event),
            Role::Wakeup => self.wakeup(sample, event),
            Role::BeforeSwitch => {
                if let Some(thread) = self.thread(sample.pid, sample.tid) {
                    let stack = self.stack(sample)?;
                    self.samples += 1;
                    self.threads.before_switch(thread, stack);
                }
                Ok(())
            }
            Role::Ignored => Ok(()),
        }
    }

    /// A field of a tracepoint.
    fn field(&self, sample: &Sample<'_>, event: usize, name: &str) -> Option<u64> {
        let tracepoint = self.file.tracepoints.get(&self.file.events[event].config)?;
        tracepoint.number(name, sample.raw)
    }

    fn switch(&mut self, sample: &Sample<'_>, event: usize) -> Result<(), ImportError> {
        if let Some(thread) = self.thread(sample.pid, sample.tid) {
            let state = self.field(sample, event, "prev_state").unwrap_or(0);
            let departure = Departure {
                stack: Some(self.stack(sample)?),
                preempted: state & SLEEPS == 0,
                disk_sleep: state & DISK_SLEEP != 0,
            };
            self.samples += 1;
            self.left(thread, sample.time_ns, (sample.cpu, departure), false)?;
        }
        if !self.whole {
            return Ok(());
        }
        self.threads.processor_switched(sample.cpu, sample.time_ns);
        let next = self.field(sample, event, "next_pid").unwrap_or(0) as u32;
        let pid = self.machine.process_of(next);
        self.got(pid, next, sample.time_ns, sample.cpu)?;
        if let Some(thread) = self.threads.row(next) {
            let tracepoint = self.file.tracepoints.get(&self.file.events[event].config);
            let name = tracepoint.and_then(|t| t.text("next_comm", sample.raw));
            let name = name.unwrap_or_default();
            self.threads.name_if_none(thread, &name);
            let process = self.machine.process(pid);
            if process.name.is_empty() {
                process.name = name;
            }
        }
        Ok(())
    }

    fn wakeup(&mut self, sample: &Sample<'_>, event: usize) -> Result<(), ImportError> {
        let woken = self.field(sample, event, "pid").unwrap_or(0) as u32;
        if !self.threads.is_off(woken) {
            return Ok(());
        }
        // Who was interrupted is no waker: the idle thread wakes nobody.
        let waker = match sample.tid {
            0 => Waker {
                name: "[irq]".into(),
                ..Waker::default()
            },
            tid => Waker {
                tid: Some(tid),
                thread: self.threads.row(tid),
                name: self.machine.thread_name(tid).into(),
                stack: (!sample.chain.is_empty() || sample.user.is_some())
                    .then(|| self.stack(sample))
                    .transpose()?,
            },
        };
        self.threads.woken(woken, sample.time_ns, waker);
        Ok(())
    }

    fn notes(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.idle > 0 {
            notes.push(format!(
                "{} samples of processors that had nothing to do are left out",
                self.idle
            ));
        }
        if self.stacks.nameless_kernel {
            notes.push("functions of the kernel have no names: it is not the one that runs here, its symbols are hidden from you, or no copy of them is in ~/.debug".into());
        }
        if self.stacks.other_registers {
            notes.push(format!(
                "copies of stacks are not unwound: they are of {}, and only those of x86-64 are",
                self.file.arch
            ));
        }
        let replaced = &mut self.modules.replaced;
        replaced.sort();
        replaced.dedup();
        if !replaced.is_empty() {
            notes.push(format!(
                "not the file that was recorded, and no copy is in ~/.debug: {}",
                replaced.join(", ")
            ));
        }
        notes
    }

    fn finish(mut self, end_ns: u64, mut notes: Vec<String>) -> Result<Imported, ImportError> {
        let mut context = Context {
            machine: &mut self.machine,
            modules: &self.modules,
            symbolizer: self.symbolizer,
            builder: &mut self.builder,
        };
        self.stacks.name(&mut context)?;
        let mut into = Into {
            builder: &mut self.builder,
            stacks: &self.stacks,
        };
        let missing = self.threads.missing;
        let threads = self.threads.finish(end_ns, &mut into)?;
        if missing > 0 {
            let meta = self.builder.meta_mut();
            meta.losses.insert("switches".into(), missing);
            let produced = missing.saturating_add(self.switches);
            meta.produced.insert("switches".into(), produced);
        }
        let used: std::collections::BTreeSet<u32> = threads.iter().map(|t| t.process).collect();
        let mut processes = Vec::new();
        let mut mappings = Vec::new();
        for (pid, process) in self.machine.into_processes() {
            let Some(row) = process.row.filter(|row| used.contains(row)) else {
                continue;
            };
            mappings.extend(process.mappings().map(|(start, mapping)| {
                let module = self.modules.get(mapping.module);
                MappingRow {
                    process: row,
                    start,
                    end: mapping.end,
                    file_offset: mapping.file_offset(start),
                    path: module.path.clone(),
                    build_id: module.build_id.clone(),
                    start_ns: 0,
                }
            }));
            processes.push(ProcessRow {
                process: row,
                pid,
                ns_pid: pid,
                parent_pid: process.parent,
                name: process.name,
                ..ProcessRow::default()
            });
        }
        processes.sort_by_key(|p| p.process);
        mappings.sort_by_key(|m| (m.process, m.start));
        self.builder.mappings(mappings)?;
        notes.extend(self.symbolizer.notes());
        let count = threads.len() as u64;
        self.builder.finish(processes, threads)?;
        Ok(Imported {
            format: Format::Perf,
            samples: self.samples,
            threads: count,
            notes,
        })
    }
}
