//! Tables built row by row; ids are given out in the order of first mention.
use dwell_recording::rows::*;
use dwell_recording::tables::Tables;
use std::collections::HashMap;

/// Builds [`Tables`] that keep their invariants: a thread's sums follow from what is added to it.
#[derive(Debug, Default)]
pub struct TablesBuilder {
    /// What was built so far.
    pub tables: Tables,
    processes: HashMap<String, u32>,
    threads: HashMap<(u32, String), u32>,
    frames: HashMap<String, u32>,
    stacks: HashMap<(Vec<u32>, String), u32>,
    sites: HashMap<(u32, String, String, String), u32>,
}

/// Where the windows of built recordings start, ns.
const START_NS: u64 = 1_000_000_000;

impl TablesBuilder {
    /// An empty recording with a period of 10 ms, starting at one second.
    pub fn new() -> TablesBuilder {
        let mut builder = TablesBuilder::default();
        let meta = &mut builder.tables.meta;
        meta.format_version = dwell_recording::meta::FORMAT_VERSION;
        meta.tool = "dwell 0.1.0".to_owned();
        meta.target = "demo".to_owned();
        meta.machine.host = "host".to_owned();
        meta.machine.kernel = "6.18.0".to_owned();
        meta.machine.arch = "x86_64".to_owned();
        meta.machine.cpus = 4;
        meta.period_ns = 10_000_000;
        meta.start_ns = START_NS;
        meta.end_ns = START_NS;
        meta.complete = true;
        builder
    }

    /// The process with this name.
    pub fn process(&mut self, name: &str) -> u32 {
        let rows = &mut self.tables.processes;
        *self.processes.entry(name.to_owned()).or_insert_with(|| {
            let process = rows.len() as u32;
            let pid = 1000 * (process + 1);
            rows.push(ProcessRow {
                process,
                pid,
                ns_pid: pid,
                name: name.to_owned(),
                command: format!("/usr/bin/{name} --flag"),
                exe: format!("/usr/bin/{name}"),
                start_ns: START_NS,
                ..ProcessRow::default()
            });
            process
        })
    }

    /// The thread with this name; the first one of a process is its first thread.
    pub fn thread(&mut self, process: u32, name: &str) -> u32 {
        match self.threads.get(&(process, name.to_owned())) {
            Some(thread) => *thread,
            None => self.new_thread(process, name),
        }
    }

    /// A further thread, even if there is one with this name.
    pub fn new_thread(&mut self, process: u32, name: &str) -> u32 {
        let thread = self.tables.threads.len() as u32;
        let elder = self
            .tables
            .threads
            .iter()
            .filter(|t| t.process == process)
            .count() as u32;
        let tid = self.tables.processes[process as usize].pid + elder;
        self.tables.threads.push(ThreadRow {
            thread,
            process,
            tid,
            ns_tid: tid,
            name: name.to_owned(),
            start_ns: START_NS,
            until_ns: START_NS,
            ..ThreadRow::default()
        });
        self.threads.insert((process, name.to_owned()), thread);
        thread
    }

    /// The frame drawn as `name`, `name_[k]` (kernel), `outer :> inner` (inlined) or
    /// `[module+0x10]` (without a name).
    pub fn frame(&mut self, drawn: &str) -> u32 {
        if let Some(frame) = self.frames.get(drawn) {
            return *frame;
        }
        let frame = self.tables.frames.len() as u32;
        let (names, kernel) = match drawn.strip_suffix("_[k]") {
            Some(name) => (name, true),
            None => (drawn, false),
        };
        let mut row = FrameRow {
            frame,
            kind: if kernel { "kernel" } else { "user" }.to_owned(),
            module: if kernel { "[kernel]" } else { "/usr/bin/demo" }.to_owned(),
            build_id: if kernel { "" } else { "00aa11bb22cc33dd" }.to_owned(),
            address: 0x1000 + u64::from(frame) * 0x10,
            process: None,
            spinning: None,
        };
        let bare = names.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
        match bare.and_then(|n| n.split_once("+0x")) {
            Some((module, address)) => {
                row.module = format!("/usr/lib/{module}");
                row.address = u64::from_str_radix(address, 16).expect("a hexadecimal address");
            }
            None => self.symbols(frame, names),
        }
        self.tables.frames.push(row);
        self.frames.insert(drawn.to_owned(), frame);
        frame
    }

    fn symbols(&mut self, frame: u32, names: &str) {
        for (depth, name) in (0..).zip(names.split(" :> ").collect::<Vec<_>>().into_iter().rev()) {
            self.tables.symbols.push(SymbolRow {
                frame,
                depth,
                function: name.to_owned(),
                file: Some("/src/demo.c".to_owned()),
                line: Some(10 + frame),
                inlined: depth + 1 < names.split(" :> ").count() as u32,
            });
        }
    }

    /// The stack of these frames, outermost first; a first frame `cut REASON` cuts it short.
    pub fn stack(&mut self, frames: &[&str]) -> u32 {
        let (end, frames) = match frames.first().and_then(|f| f.strip_prefix("cut ")) {
            Some(why) => (why, &frames[1..]),
            None => ("complete", frames),
        };
        let frames: Vec<u32> = frames.iter().map(|f| self.frame(f)).collect();
        let rows = &mut self.tables.stacks;
        *self
            .stacks
            .entry((frames, end.to_owned()))
            .or_insert_with_key(|(frames, end)| {
                let stack = rows.len() as u32;
                rows.push(StackRow {
                    stack,
                    frames: frames.clone(),
                    end: end.clone(),
                });
                stack
            })
    }

    /// The innermost frame of this stack spins.
    pub fn spins(&mut self, stack: u32) {
        let leaf = self.tables.stacks[stack as usize].frames.last();
        let leaf = *leaf.expect("a stack with frames");
        self.tables.frames[leaf as usize].spinning = Some(true);
    }

    /// The site of a thread with this reason, system call and any further mark.
    pub fn site(&mut self, thread: u32, reason: &str, syscall: &str, mark: &str) -> u32 {
        let key = (
            thread,
            reason.to_owned(),
            syscall.to_owned(),
            mark.to_owned(),
        );
        let rows = &mut self.tables.sites;
        *self.sites.entry(key).or_insert_with(|| {
            let site = rows.len() as u32;
            rows.push(SiteRow {
                site,
                thread,
                reason: reason.to_owned(),
                syscall: syscall.to_owned(),
                pc: 0x5500_0000 + u64::from(site),
                ..SiteRow::default()
            });
            site
        })
    }

    /// Makes a site a futex wait on the word at `address` of its process.
    pub fn on_futex(&mut self, site: u32, address: u64, operation: &str, timed: bool) {
        let row = &mut self.tables.sites[site as usize];
        let process = self.tables.threads[row.thread as usize].process;
        let rows = &mut self.tables.futexes;
        let known = rows
            .iter()
            .position(|f| (f.process, f.address) == (process, address));
        let futex = known.unwrap_or(rows.len()) as u32;
        if known.is_none() {
            rows.push(FutexRow {
                futex,
                process,
                address,
                ..FutexRow::default()
            });
        }
        row.futex = Some(futex);
        row.operation = operation.to_owned();
        row.timed = timed;
    }

    /// The last wait of a thread at a site, kept one by one: it ended now, by `waker`.
    pub fn kept(&mut self, site: u32, blocked_ns: u64, stack: Option<u32>, waker: Option<u32>) {
        let thread = self.tables.sites[site as usize].thread;
        let end_ns = self.now(thread);
        self.tables.slices.push(SliceRow {
            thread,
            site,
            start_ns: end_ns - blocked_ns,
            blocked_ns,
            stack,
            waker_tid: waker.map(|w| self.tables.threads[w as usize].tid),
            waker_thread: waker,
            ..SliceRow::default()
        });
    }

    /// The thread ran.
    pub fn ran(&mut self, thread: u32, ns: u64) {
        self.tables.threads[thread as usize].running_ns += ns;
        self.lived(thread, ns);
    }

    /// The thread had a processor that others took meanwhile.
    pub fn stolen(&mut self, thread: u32, ns: u64) {
        self.tables.threads[thread as usize].stolen_ns += ns;
        self.lived(thread, ns);
    }

    /// What the thread did is not known.
    pub fn lost(&mut self, thread: u32, ns: u64) {
        self.tables.threads[thread as usize].lost_ns += ns;
        self.lived(thread, ns);
    }

    /// The thread waited `count` times at a site, for so long in all.
    pub fn waited(&mut self, site: u32, blocked_ns: u64, runnable_ns: u64, count: u64) {
        let thread = self.tables.sites[site as usize].thread;
        let row = &mut self.tables.threads[thread as usize];
        row.blocked_ns += blocked_ns;
        row.runnable_ns += runnable_ns;
        match blocked_ns {
            0 => row.involuntary_switches += count,
            _ => row.voluntary_switches += count,
        }
        self.lived(thread, blocked_ns + runnable_ns);
        self.tables.site_times.push(SiteTimeRow {
            site,
            time_ns: self.now(thread),
            blocked_ns,
            runnable_ns,
            count,
            max_ns: (blocked_ns + runnable_ns) / count.max(1),
        });
    }

    /// A stack was taken now.
    pub fn sample(
        &mut self,
        thread: u32,
        state: &str,
        stack: u32,
        site: Option<u32>,
        weight_ns: u64,
    ) {
        self.tables.samples.push(SampleRow {
            time_ns: self.now(thread),
            thread,
            cpu: thread % 4,
            state: state.to_owned(),
            stack,
            site,
            weight_ns,
        });
    }

    /// How far the thread's accounting has come, ns.
    pub fn now(&self, thread: u32) -> u64 {
        self.tables.threads[thread as usize].until_ns
    }

    fn lived(&mut self, thread: u32, ns: u64) {
        let row = &mut self.tables.threads[thread as usize];
        row.until_ns += ns;
        self.tables.meta.end_ns = self.tables.meta.end_ns.max(row.until_ns);
    }
}
