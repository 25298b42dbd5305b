//! Recordings drawn as columns of function names.
use super::{MS, TablesBuilder};
use dwell_recording::rows::{SliceRow, state};
use dwell_recording::tables::Tables;

/// Running, where the innermost function spins.
const SPINNING: &str = "spinning";

/// Draws a recording: one column per sample, columns parted by `|`.
///
/// ```text
/// process | demo    | demo       | demo              (default: demo)
/// thread  | main    | main       | worker-1
/// state   | running | lock futex | poll epoll_wait   (running, spinning, runnable, lost, or REASON SYSCALL)
/// time    | 30      | 10+2       | 5                 (exact, ms; after + runnable)
/// weight  | 30      | -          | 5                 (raw, ms; default: time; -: no stack taken)
/// waits   |         | 4          |                   (default: 1)
/// site    |         | a          |                   (tells sites apart; default: the stack)
/// stack   | main    | main       | start_thread      (outermost first)
///         | compute | lock       | loop
/// ```
pub fn drawn(text: &str) -> Tables {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines().filter(|line| line.contains('|')) {
        let mut cells = line.split('|').map(|cell| cell.trim().to_owned());
        let name = cells.next().unwrap_or_default();
        rows.push((name, cells.collect()));
    }
    let columns = rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let mut builder = TablesBuilder::new();
    for column in 0..columns {
        add_column(
            &mut builder,
            &Column {
                rows: &rows,
                column,
            },
        );
    }
    builder.tables
}

struct Column<'r> {
    rows: &'r [(String, Vec<String>)],
    column: usize,
}

impl Column<'_> {
    fn get<'s>(&'s self, name: &str, default: &'s str) -> &'s str {
        let row = self.rows.iter().find(|(row, _)| row == name);
        let cell = row.and_then(|(_, cells)| cells.get(self.column));
        cell.map(String::as_str)
            .filter(|cell| !cell.is_empty())
            .unwrap_or(default)
    }

    fn frames(&self) -> Vec<&str> {
        let start = self
            .rows
            .iter()
            .position(|(row, _)| row == "stack")
            .unwrap_or(self.rows.len());
        let cells = self.rows[start..]
            .iter()
            .filter_map(|(_, cells)| cells.get(self.column));
        cells
            .map(String::as_str)
            .filter(|cell| !cell.is_empty())
            .collect()
    }
}

fn ms(text: &str) -> u64 {
    (text.parse::<f64>().expect("milliseconds") * MS as f64).round() as u64
}

fn add_column(builder: &mut TablesBuilder, column: &Column<'_>) {
    let process = builder.process(column.get("process", "demo"));
    let thread = builder.thread(process, column.get("thread", "main"));
    let time = column.get("time", "0");
    let (time_ns, runnable_ns) = match time.split_once('+') {
        Some((blocked, runnable)) => (ms(blocked), ms(runnable)),
        None => (ms(time), 0),
    };
    let weight = match column.get("weight", "") {
        "" => Some(time_ns + runnable_ns),
        "-" => None,
        weight => Some(ms(weight)),
    };
    let frames = column.frames();
    let drawn_state = column.get("state", state::RUNNING);
    let (reason, syscall) = drawn_state.split_once(' ').unwrap_or((drawn_state, ""));
    let mark = column.get("site", "").to_owned();
    let mark = if mark.is_empty() {
        frames.join(";")
    } else {
        mark
    };
    let waits = column.get("waits", "1").parse().expect("a number of waits");
    let (state, site) = match drawn_state {
        state::RUNNING | SPINNING => {
            builder.ran(thread, time_ns);
            (state::RUNNING, None)
        }
        "stolen" => return builder.stolen(thread, time_ns),
        "lost" => return builder.lost(thread, time_ns),
        state::RUNNABLE => {
            let site = builder.site(thread, "", "", &mark);
            builder.waited(site, 0, time_ns, waits);
            (state::RUNNABLE, Some(site))
        }
        _ => {
            let site = builder.site(thread, reason, syscall, &mark);
            builder.waited(site, time_ns, runnable_ns, waits);
            (state::BLOCKED, Some(site))
        }
    };
    if let Some(weight_ns) = weight {
        let stack = builder.stack(&frames);
        if drawn_state == SPINNING {
            builder.spins(stack);
        }
        builder.sample(thread, state, stack, site, weight_ns);
    }
}

/// Draws single waits, one a line, times in ms from the start:
///
/// ```text
/// main lock futex 0..100 by worker-1 at start_thread;unlock
/// worker-1 sleep nanosleep 10..90+5 by [timer]
/// main poll poll 100..200
/// ```
///
/// After `+` stands runnable time. A waker in brackets is an interrupt, one with a `!` before it is
/// not recorded; without a `by` nobody woke it. Between its waits a thread runs.
pub fn drawn_waits(text: &str) -> Tables {
    let mut builder = TablesBuilder::new();
    let process = builder.process("demo");
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| !words.is_empty())
        .collect();
    for line in &lines {
        builder.thread(process, line[0]);
    }
    for line in &lines {
        add_wait(&mut builder, process, line);
    }
    builder.tables
}

fn add_wait(builder: &mut TablesBuilder, process: u32, words: &[&str]) {
    let thread = builder.thread(process, words[0]);
    let (from, to) = words[3].split_once("..").expect("FROM..TO");
    let (to, runnable) = to.split_once('+').unwrap_or((to, "0"));
    let start_ns = builder.tables.meta.start_ns + ms(from);
    let ran = start_ns
        .checked_sub(builder.now(thread))
        .expect("waits of a thread in order");
    builder.ran(thread, ran);
    let site = builder.site(thread, words[1], words[2], "");
    let blocked_ns = ms(to) - ms(from);
    builder.waited(site, blocked_ns, ms(runnable), 1);
    let mut slice = SliceRow {
        thread,
        site,
        start_ns,
        blocked_ns,
        runnable_ns: ms(runnable),
        ..SliceRow::default()
    };
    match words.get(5).copied() {
        None => {}
        Some(interrupt) if interrupt.starts_with('[') => slice.waker_name = interrupt.to_owned(),
        Some(waker) => match waker.strip_prefix('!') {
            Some(foreign) => {
                slice.waker_tid = Some(77);
                slice.waker_name = foreign.to_owned();
            }
            None => {
                let waker_thread = builder.thread(process, waker);
                slice.waker_thread = Some(waker_thread);
                slice.waker_tid = Some(builder.tables.threads[waker_thread as usize].tid);
                slice.waker_name = waker.to_owned();
            }
        },
    }
    if let Some(frames) = words.get(7) {
        let frames: Vec<&str> = frames.split(';').collect();
        slice.waker_stack = Some(builder.stack(&frames));
    }
    builder.tables.slices.push(slice);
}
