//! Profiles without moments: sums by stack and state, as folded stacks and pprof tell them.
//!
//! A thread's life in such a recording is the sum of what is known of it, and its samples lie one behind
//! the other in the order of the file: that order means nothing.
use crate::builder::{Builder, Place, Stay};
use crate::error::ImportError;
use dwell_recording::rows::{ProcessRow, SymbolRow, ThreadRow};
use rustc_hash::FxHashMap;

/// What a thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Doing {
    /// On a processor.
    #[default]
    Running,
    /// Wanted a processor.
    Runnable,
    /// Asleep: why, and in which system call, where that is known.
    Blocked {
        /// Of `dwell_recording::rows::reason`.
        reason: String,
        /// Empty when unknown.
        syscall: String,
    },
    /// Others had its processor.
    Stolen,
    /// Not known.
    Lost,
}

/// Who a stack is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Who {
    /// 0 when unknown.
    pub pid: u32,
    /// Name of the process.
    pub process: String,
    /// 0 when unknown.
    pub tid: u32,
    /// Name of the thread.
    pub thread: String,
}

/// A place where a thread waited: which thread, why, in which system call, its stack.
type SiteKey = (usize, String, String, u32);

/// A profile without moments, becoming a recording.
pub struct Flat {
    builder: Builder,
    named: FxHashMap<(&'static str, String), u32>,
    who: FxHashMap<Who, usize>,
    process_ids: FxHashMap<(u32, String), usize>,
    processes: Vec<ProcessRow>,
    threads: Vec<ThreadRow>,
    sites: FxHashMap<SiteKey, u32>,
    samples: u64,
}

impl Flat {
    /// Nothing yet.
    pub fn new(builder: Builder) -> Flat {
        Flat {
            builder,
            named: FxHashMap::default(),
            who: FxHashMap::default(),
            process_ids: FxHashMap::default(),
            processes: Vec::new(),
            threads: Vec::new(),
            sites: FxHashMap::default(),
            samples: 0,
        }
    }

    /// Where frames and stacks are numbered.
    pub fn builder(&mut self) -> &mut Builder {
        &mut self.builder
    }

    /// The frame of a function of which no more than the name is known. `kind` is `user` or `kernel`.
    pub fn named(&mut self, kind: &'static str, name: &str) -> Result<u32, ImportError> {
        let key = (kind, name.to_owned());
        if let Some(frame) = self.named.get(&key) {
            return Ok(*frame);
        }
        let module = if kind == "kernel" { "[kernel]" } else { "" };
        let place = Place {
            kind,
            module: module.into(),
            build_id: String::new(),
            process: None,
        };
        let place_id = self.builder.place(place.clone());
        let address = self.named.len() as u64;
        let (frame, _) = self.builder.frame(place_id, &place, address)?;
        self.builder.symbols([SymbolRow {
            frame,
            function: name.into(),
            ..SymbolRow::default()
        }])?;
        self.named.insert(key, frame);
        Ok(frame)
    }

    /// The position of a thread.
    pub fn thread(&mut self, who: &Who) -> usize {
        if let Some(thread) = self.who.get(who) {
            return *thread;
        }
        let position = self.threads.len();
        let process = self.process(who);
        self.threads.push(ThreadRow {
            thread: position as u32,
            process: process as u32,
            tid: who.tid,
            ns_tid: who.tid,
            name: who.thread.clone(),
            ..ThreadRow::default()
        });
        self.who.insert(who.clone(), position);
        position
    }

    fn process(&mut self, who: &Who) -> usize {
        let key = (who.pid, who.process.clone());
        if let Some(process) = self.process_ids.get(&key) {
            return *process;
        }
        let position = self.processes.len();
        self.processes.push(ProcessRow {
            process: position as u32,
            pid: who.pid,
            ns_pid: who.pid,
            name: who.process.clone(),
            ..ProcessRow::default()
        });
        self.process_ids.insert(key, position);
        position
    }

    /// So much time of a thread at a stack.
    pub fn add(
        &mut self,
        thread: usize,
        doing: &Doing,
        stack: u32,
        ns: u64,
    ) -> Result<(), ImportError> {
        let row = &mut self.threads[thread];
        let start_ns = row.until_ns;
        row.until_ns = start_ns.saturating_add(ns);
        let ns = row.until_ns - start_ns;
        self.samples += 1;
        let (reason, syscall, blocked_ns) = match doing {
            Doing::Running => {
                row.running_ns += ns;
                let (end, id) = (row.until_ns, row.thread);
                return self.builder.running(end, id, 0, stack, ns);
            }
            Doing::Stolen => {
                row.stolen_ns += ns;
                return Ok(());
            }
            Doing::Lost => {
                row.lost_ns += ns;
                return Ok(());
            }
            Doing::Runnable => {
                row.runnable_ns += ns;
                ("", "", 0)
            }
            Doing::Blocked { reason, syscall } => {
                row.blocked_ns += ns;
                (reason.as_str(), syscall.as_str(), ns)
            }
        };
        let thread_id = row.thread;
        let key = (thread, reason.to_owned(), syscall.to_owned(), stack);
        let site = match self.sites.get(&key) {
            Some(site) => *site,
            None => {
                let site = self.builder.site(thread_id, reason, syscall)?;
                self.sites.insert(key, site);
                site
            }
        };
        self.builder.stay(Stay {
            thread: thread_id,
            site,
            start_ns,
            blocked_ns,
            runnable_ns: ns - blocked_ns,
            stack: Some(stack),
            cpu: 0,
            waker: None,
        })
    }

    /// Ends the recording; how many stacks and threads there were.
    pub fn finish(mut self) -> Result<(u64, u64), ImportError> {
        let counts = (self.samples, self.threads.len() as u64);
        let end_ns = self.threads.iter().map(|t| t.until_ns).max().unwrap_or(0);
        let meta = self.builder.meta_mut();
        meta.end_ns = meta.end_ns.max(end_ns);
        self.builder.finish(self.processes, self.threads)?;
        Ok(counts)
    }
}
