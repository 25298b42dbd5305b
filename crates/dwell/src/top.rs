//! `dwell top`: the answer of the last seconds, again and again.
use crate::cli::TopArgs;
use crate::naming::{self, running_stacks};
use crate::spinning::Leaves;
use crate::terminal;
use dwell_collector::{
    Clock, DEFAULT_PERIOD_NS, DEFAULT_RING_BYTES, DEFAULT_SLICE_MIN_NS, Options, Origin, Recorder,
    Step, Target, Unnamed,
};
use dwell_recording::Tables;
use dwell_recording::rows::{SymbolRow, ThreadRow};
use dwell_report::Answer;
use dwell_symbols::Symbolizer;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Rows come about every 0.9 s: a picture is due with those nearest to its time.
const SEGMENT_SLACK: Duration = Duration::from_millis(500);

/// Shows live where the time goes.
pub fn top(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let target = if args.pid.is_empty() {
        Target::All
    } else {
        Target::Pids(args.pid.clone())
    };
    let mut recorder = Recorder::start(Options {
        target,
        output: None,
        overwrite: false,
        period_ns: DEFAULT_PERIOD_NS,
        clock: Clock::Tick,
        duration: None,
        slice_min_ns: DEFAULT_SLICE_MIN_NS,
        ring_bytes: DEFAULT_RING_BYTES,
        kernel_locks: false,
        memory: false,
        command_line: Vec::new(),
    })?;
    let mut namer = Namer::start();
    let mut window = Window::default();
    let mut next = Instant::now() + args.interval - SEGMENT_SLACK.min(args.interval);
    let mut pictures = 0;
    loop {
        match recorder.step()? {
            Step::Progress(_) => {}
            Step::Ended(_) => return Ok(ExitCode::SUCCESS),
            Step::Rows(rows) => {
                window.add(*rows);
                if Instant::now() >= next && !namer.busy {
                    let groups = recorder.unnamed(&window.wanted());
                    namer.ask(groups, Leaves::of(running_stacks(&window.all)));
                }
            }
        }
        if let Some(named) = namer.answer() {
            window.know(named);
            draw(&window.take())?;
            pictures += 1;
            if args.pictures.is_some_and(|n| pictures >= n) {
                return Ok(ExitCode::SUCCESS);
            }
            next = Instant::now() + args.interval - SEGMENT_SLACK.min(args.interval);
        }
    }
}

/// Frames that want a name, and the stacks that threads ran at.
type Asked = (Vec<Unnamed>, Leaves);

/// What was found out about frames.
struct Named {
    symbols: Vec<SymbolRow>,
    /// Whether a thread that runs there only waits.
    spinning: BTreeMap<u32, bool>,
}

/// Looks for names in a thread of its own: that can take seconds, in which the recorder has to go on.
struct Namer {
    requests: Sender<Asked>,
    answers: Receiver<Named>,
    busy: bool,
}

impl Namer {
    fn start() -> Self {
        let (requests, asked) = channel::<Asked>();
        let (found, answers) = channel();
        std::thread::spawn(move || {
            let mut symbolizer = naming::symbolizer();
            // What helps to wait there is judged by its callers, which may have been named before.
            let mut of_kernel = Vec::new();
            for (groups, leaves) in asked {
                let named = name(&mut symbolizer, &mut of_kernel, &groups, leaves);
                if found.send(named).is_err() {
                    break; // nobody waits for it any more
                }
            }
        });
        Namer {
            requests,
            answers,
            busy: false,
        }
    }

    fn ask(&mut self, groups: Vec<Unnamed>, leaves: Leaves) {
        self.busy = self.requests.send((groups, leaves)).is_ok();
    }

    fn answer(&mut self) -> Option<Named> {
        let named = self.answers.try_recv().ok()?;
        self.busy = false;
        Some(named)
    }
}

/// Names frames and judges those of them that threads ran at. `of_kernel` are the kernel's names so far.
fn name(
    symbolizer: &mut Symbolizer,
    of_kernel: &mut Vec<SymbolRow>,
    groups: &[Unnamed],
    mut leaves: Leaves,
) -> Named {
    let mut symbols = Vec::new();
    for group in groups {
        let names = naming::name_group(symbolizer, group);
        if matches!(group.origin, Origin::Kernel) {
            of_kernel.extend(names.iter().cloned());
            leaves.judge(symbolizer, group, of_kernel);
        } else {
            leaves.judge(symbolizer, group, &names);
        }
        symbols.extend(names);
    }
    Named {
        symbols,
        spinning: leaves.spinning().clone(),
    }
}

/// Share of the sampled time whose stacks get names: a picture shows the heaviest few.
const NAMED_SHARE: f64 = 0.95;

/// What has come since the last picture, and what stays true from one to the next.
#[derive(Default)]
struct Window {
    all: Tables,
    /// Threads as they were at the last picture.
    before: HashMap<u32, ThreadRow>,
    threads: HashMap<u32, ThreadRow>,
    named: HashSet<u32>,
    /// Frames that threads ran at, which were judged.
    judged: HashSet<u32>,
    start_ns: u64,
}

impl Window {
    fn add(&mut self, rows: Tables) {
        let all = &mut self.all;
        for process in rows.processes {
            all.processes.retain(|p| p.process != process.process);
            all.processes.push(process);
        }
        self.threads
            .extend(rows.threads.into_iter().map(|t| (t.thread, t)));
        all.frames.extend(rows.frames);
        all.stacks.extend(rows.stacks);
        all.sites.extend(rows.sites);
        all.site_times.extend(rows.site_times);
        all.samples.extend(rows.samples);
        all.slices.extend(rows.slices);
        all.meta = rows.meta;
    }

    /// Takes in what frames are called, and whether they spin. Each is asked for once as a frame, and once as
    /// one that a thread ran at.
    fn know(&mut self, named: Named) {
        let known: HashSet<u32> = self.all.symbols.iter().map(|s| s.frame).collect();
        let new = named.symbols.into_iter();
        let new = new.filter(|s| !known.contains(&s.frame));
        self.all.symbols.extend(new);
        for frame in &mut self.all.frames {
            let judged = named.spinning.get(&frame.frame).copied();
            frame.spinning = judged.or(frame.spinning);
        }
    }

    /// Frames of the heaviest stacks and of those who woke them, as far as they were not asked for yet.
    fn wanted(&mut self) -> BTreeSet<u32> {
        let mut weights: HashMap<u32, u64> = HashMap::new();
        for sample in &self.all.samples {
            *weights.entry(sample.stack).or_default() += sample.weight_ns;
        }
        let total: u64 = weights.values().sum();
        let mut stacks: Vec<(u32, u64)> = weights.into_iter().collect();
        stacks.sort_unstable_by_key(|&(stack, weight)| (std::cmp::Reverse(weight), stack));
        let mut rest = (total as f64 * NAMED_SHARE) as u64;
        let heaviest = stacks.into_iter().take_while(|&(_, weight)| {
            let wanted = rest > 0;
            rest = rest.saturating_sub(weight);
            wanted
        });
        let mut wanted: HashSet<u32> = heaviest.map(|(stack, _)| stack).collect();
        let woken = self.all.slices.iter();
        let woken = woken.filter(|s| s.stack.is_some_and(|stack| wanted.contains(&stack)));
        let wakers: Vec<u32> = woken.filter_map(|s| s.waker_stack).collect();
        wanted.extend(wakers);
        let stacks = self.all.stacks.iter().filter(|s| wanted.contains(&s.stack));
        let frames = stacks.clone().flat_map(|s| s.frames.iter().copied());
        let mut new: BTreeSet<u32> = frames.filter(|&frame| self.named.insert(frame)).collect();
        let leaves = running_stacks(&self.all).filter_map(|frames| frames.last().copied());
        let named = |leaf: &u32| self.named.contains(leaf);
        new.extend(
            leaves
                .filter(named)
                .filter(|&leaf| self.judged.insert(leaf)),
        );
        new
    }

    /// The tables of the time since the last picture; frames, stacks, names and sites are kept.
    fn take(&mut self) -> Tables {
        let mut tables = self.all.clone();
        tables.meta.complete = true;
        self.all.site_times.clear();
        self.all.samples.clear();
        self.all.slices.clear();
        tables.meta.start_ns = self.start_ns.max(tables.meta.start_ns);
        self.start_ns = tables.meta.end_ns;
        tables
            .symbols
            .sort_by_key(|s: &SymbolRow| (s.frame, s.depth));
        tables.threads = self
            .threads
            .values()
            .map(|t| since(t, self.before.get(&t.thread)))
            .collect();
        tables.threads.sort_by_key(|t| t.thread);
        self.before = self.threads.clone();
        self.threads.retain(|_, t| !t.ended);
        tables
    }
}

/// A thread's sums since an earlier reading.
fn since(now: &ThreadRow, before: Option<&ThreadRow>) -> ThreadRow {
    let Some(before) = before else {
        return now.clone();
    };
    ThreadRow {
        start_ns: before.until_ns,
        running_ns: now.running_ns.saturating_sub(before.running_ns),
        runnable_ns: now.runnable_ns.saturating_sub(before.runnable_ns),
        blocked_ns: now.blocked_ns.saturating_sub(before.blocked_ns),
        stolen_ns: now.stolen_ns.saturating_sub(before.stolen_ns),
        lost_ns: now.lost_ns.saturating_sub(before.lost_ns),
        voluntary_switches: now
            .voluntary_switches
            .saturating_sub(before.voluntary_switches),
        involuntary_switches: now
            .involuntary_switches
            .saturating_sub(before.involuntary_switches),
        ..now.clone()
    }
}

fn draw(tables: &Tables) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let style = terminal::style(&out);
    let options = dwell_report::Options {
        stacks: 5,
        ..dwell_report::Options::default()
    };
    let text = dwell_report::terminal::render(&Answer::build(tables, &options), &style);
    if out.is_terminal() {
        // Home, then every line cleared to its end, then the rest of the screen: no flicker.
        write!(out, "\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n"))?;
    } else {
        out.write_all(text.as_bytes())?;
    }
    out.flush()?;
    Ok(())
}
