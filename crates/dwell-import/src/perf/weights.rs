//! Which event tells where threads ran, and how long one of its samples stands for.
use super::file::{Event, PerfFile};
use super::tracing::Tracepoint;

/// `PERF_TYPE_*`.
mod kind {
    pub const HARDWARE: u32 = 0;
    pub const SOFTWARE: u32 = 1;
    pub const TRACEPOINT: u32 = 2;
}
/// `PERF_COUNT_SW_*` and `PERF_COUNT_HW_*`.
mod config {
    pub const CPU_CLOCK: u64 = 0;
    pub const TASK_CLOCK: u64 = 1;
    pub const CONTEXT_SWITCHES: u64 = 3;
    pub const CPU_CYCLES: u64 = 0;
    /// The PMU's number stands above, on machines with two kinds of cores.
    pub const OF_HARDWARE: u64 = 0xffff_ffff;
}

/// What samples of an event are to us.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// A thread ran there: so many ns for each unit of the period.
    Running {
        /// Of one unit.
        unit_ns: f64,
        /// What a sample stands for that does not tell its period.
        period: u64,
    },
    /// `sched:sched_switch`.
    Switch,
    /// `sched:sched_wakeup`, `sched_waking`, `sched_wakeup_new`.
    Wakeup,
    /// Of the software event `context-switches`, when it tells of each: the stack before one.
    BeforeSwitch,
    /// Nothing.
    Ignored,
}

/// What was seen of an event's samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// How many.
    pub samples: u64,
    /// Sum of their periods.
    pub periods: f64,
}

/// What events are to us.
#[derive(Clone, Debug)]
pub struct Roles {
    /// By event.
    pub roles: Vec<Role>,
    /// Mean distance of two samples of a running thread, ns.
    pub period_ns: u64,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// How well an event tells where time goes; the least is best.
fn rank(event: &Event) -> u32 {
    match (event.kind, event.config) {
        (kind::SOFTWARE, config::CPU_CLOCK | config::TASK_CLOCK) => 0,
        (kind::HARDWARE, c) if c & config::OF_HARDWARE == config::CPU_CYCLES => 1,
        _ if event.name.contains("cycles") => 1,
        (kind::TRACEPOINT, _) => 3,
        (kind::SOFTWARE, config::CONTEXT_SWITCHES) => 4,
        _ => 2,
    }
}

fn tracepoint<'f>(file: &'f PerfFile, event: &Event) -> Option<&'f Tracepoint> {
    (event.kind == kind::TRACEPOINT)
        .then(|| file.tracepoints.get(&event.config))
        .flatten()
}

fn scheduling(file: &PerfFile, event: &Event) -> Option<Role> {
    if event.kind == kind::SOFTWARE && event.config == config::CONTEXT_SWITCHES {
        return Some(match event.tells_each() {
            true => Role::BeforeSwitch,
            false => Role::Ignored,
        });
    }
    match tracepoint(file, event)?.name.as_str() {
        "sched_switch" => Some(Role::Switch),
        "sched_wakeup" | "sched_waking" | "sched_wakeup_new" => Some(Role::Wakeup),
        name if name.starts_with("sched_") => Some(Role::Ignored),
        _ => None,
    }
}

impl Roles {
    /// Those of a file whose samples were seen.
    pub fn of(file: &PerfFile, seen: &[Seen]) -> Roles {
        let mut roles: Vec<Role> = file
            .events
            .iter()
            .map(|event| scheduling(file, event).unwrap_or(Role::Ignored))
            .collect();
        let sampled =
            |i: &usize| seen[*i].samples > 0 && scheduling(file, &file.events[*i]).is_none();
        let candidates = (0..roles.len()).filter(sampled);
        let best = candidates.clone().map(|i| rank(&file.events[i])).min();
        let chosen: Vec<usize> = match best {
            // Cores of two kinds have an event of cycles each; of others there is one to choose.
            Some(1) => candidates.filter(|i| rank(&file.events[*i]) == 1).collect(),
            best => candidates
                .filter(|i| Some(rank(&file.events[*i])) == best)
                .take(1)
                .collect(),
        };
        let mut period_ns = 0;
        let mut notes = Vec::new();
        for i in &chosen {
            let (unit_ns, note) = unit(&file.events[*i], seen[*i]);
            notes.extend(note);
            let mean = seen[*i].periods / seen[*i].samples as f64;
            period_ns = (mean * unit_ns) as u64;
            let period = match file.events[*i].by_frequency {
                true => 1,
                false => file.events[*i].period,
            };
            roles[*i] = Role::Running { unit_ns, period };
        }
        let ignored =
            (0..roles.len()).filter(|i| roles[*i] == Role::Ignored && seen[*i].samples > 0);
        let ignored: Vec<&str> = ignored.map(|i| file.events[i].name.as_str()).collect();
        if !ignored.is_empty() {
            let running: Vec<&str> = chosen
                .iter()
                .map(|i| file.events[*i].name.as_str())
                .collect();
            notes.push(format!(
                "samples of {} are left out: {} tells where threads ran",
                ignored.join(", "),
                if running.is_empty() {
                    "no event"
                } else {
                    &running[0]
                },
            ));
        }
        Roles {
            roles,
            period_ns,
            notes,
        }
    }
}

/// One unit of the event's period in ns, and what to say about it.
fn unit(event: &Event, seen: Seen) -> (f64, Option<String>) {
    let rank = rank(event);
    if rank == 0 {
        return (1.0, None);
    }
    if event.by_frequency && event.period > 0 && rank < 3 {
        // So many samples were taken in each second of processor time: all of them together stand for
        // that time, and each for its share of the periods.
        let all_ns = seen.samples as f64 * 1e9 / event.period as f64;
        return (all_ns / seen.periods.max(1.0), None);
    }
    let name = if event.name.is_empty() {
        "event"
    } else {
        &event.name
    };
    let note = format!("times are counts of {name}: 1 ns is one of them");
    (1.0, Some(note))
}
