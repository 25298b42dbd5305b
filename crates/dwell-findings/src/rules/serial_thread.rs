//! One thread that works all the time, and others that wait for it.
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::recorded::Recorded;
use dwell_analysis::Reason;
use dwell_analysis::chains::{Root, chains};
use dwell_analysis::names::PathId;
use rustc_hash::FxHashMap;

pub(super) const NAME: &str = "serial-thread";

/// Of its life but for queueing for processors, what the thread runs: else it waits itself, and is not what holds others up.
const BUSY: f64 = 0.8;
/// Of the others' lives, what they wait for it.
const WAITING: f64 = 0.5;
/// From here on they do next to nothing else.
const HIGH_WAITING: f64 = 0.8;
/// Of the thread's work, what the others do: else they are a pool that has nothing to do.
const OTHERS_WORK: f64 = 0.05;
/// Threads that wait for it: two that take turns are a pipeline.
const LEAST_OTHERS: usize = 2;
/// Times that it woke the others: else it is just there.
const LEAST_WAKES: u64 = 20;
/// Waiting that is too short to say anything of, ns.
const LEAST_NS: u64 = 200_000_000;

/// What the threads of a label waited for one thread's work.
#[derive(Clone, Copy, Default)]
struct Waited {
    ns: u64,
    kept: u64,
}

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let mut by_thread: FxHashMap<usize, Waited> = FxHashMap::default();
    for wait in &recorded.analysis.waits.waits {
        let slice = &recorded.analysis.tables.slices[wait.slice as usize];
        let waker = slice
            .waker_thread
            .and_then(|id| recorded.analysis.index.thread(id));
        let is_apart = recorded.analysis.reasons[wait.site as usize] == Reason::Child;
        if let Some(waker) = waker.filter(|w| !is_apart && *w != wait.thread as usize) {
            let waited = by_thread.entry(waker).or_default();
            waited.ns = waited.ns.saturating_add(wait.charged_ns);
            waited.kept += 1;
        }
    }
    let mut threads: Vec<_> = by_thread.into_iter().collect();
    threads.sort_unstable_by_key(|(thread, _)| *thread);
    threads
        .into_iter()
        .filter_map(|(thread, waited)| judge(recorded, thread, waited))
        .collect()
}

fn judge(recorded: &Recorded<'_, '_>, thread: usize, waited: Waited) -> Option<Finding> {
    let analysis = recorded.analysis;
    let share = &analysis.summary.threads[thread];
    let own = share.times.running();
    // Queueing for a processor tells nothing of the program.
    let busy = own as f64 / recorded.undisturbed_ns(&[thread]).max(1) as f64;
    let process = analysis.tables.threads[thread].process;
    let others = analysis.tables.threads.iter().enumerate();
    let others = others.filter(|(at, row)| *at != thread && row.process == process);
    let others: Vec<usize> = others
        .map(|(at, _)| at)
        .filter(|at| works(recorded, *at))
        .collect();
    let lives_ns = recorded.undisturbed_ns(&others);
    let waiting = waited.ns as f64 / lives_ns.max(1) as f64;
    let work = others
        .iter()
        .map(|t| analysis.summary.threads[*t].times.running());
    let work = work.fold(0, u64::saturating_add);
    let is_busy = busy >= BUSY && others.len() >= LEAST_OTHERS;
    let is_enough = waited.ns >= LEAST_NS && waited.kept >= LEAST_WAKES && recorded.is_sampled(own);
    let is_pool = work as f64 >= OTHERS_WORK * own as f64;
    if !is_busy || !is_enough || !is_pool || waiting < WAITING || is_owner(recorded, thread) {
        return None;
    }
    let label = analysis.groups.label_of_thread(thread);
    let name = recorded.name(label);
    let workers = (others.len() as u64 + 1).min(recorded.cpus()) as f64;
    let all = own.saturating_add(work) as f64;
    // Divided among all, or into two halves of a pipeline: the time of its busiest part is what is left.
    let divided = 1.0 - (all / workers / own as f64).min(1.0);
    let halved = 1.0 - (all / workers / own as f64).clamp(0.5, 1.0);
    let stacks = hottest(recorded, thread);
    let stacks = stacks.map(|path| recorded.stack(format!("{name} works"), path));
    let chains = chains(analysis).into_iter();
    let chains = chains.filter(|c| c.root == Root::Running(label));
    let through = chains.map(|c| c.charged_ns).fold(0, u64::saturating_add);
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(waiting, HIGH_WAITING),
        title: format!(
            "{} threads wait for one ({name}) {:.0} % of their time, and it has no time left",
            others.len(),
            100.0 * waiting.min(1.0)
        ),
        evidence: vec![
            Number::count("threads that wait for it", others.len() as f64),
            Number::ns("waits that it ended", waited.ns),
            Number::ns("waits that lasted because threads like it ran", through),
            Number::ns("it ran", own),
            Number::share("of the time that others left it a processor", busy),
            Number::ns("the others ran, together", work),
        ],
        stacks: stacks.into_iter().collect(),
        remedy: "Divide this thread's work: let each worker do for itself what is done for it now, or cut it into stages of \
                 threads of their own. More workers do not help."
            .to_owned(),
        effect: Effect {
            saves: Saves::Duration,
            part: 1.0,
            of: "the time that the same work takes".to_owned(),
            low: halved.min(divided),
            high: divided,
            how: "its work in two stages, or divided among all threads, on the processors there are".to_owned(),
        },
        confidence: Confidence::Medium,
        page: page(NAME),
    })
}

/// Where a thread runs most.
fn hottest(recorded: &Recorded<'_, '_>, thread: usize) -> Option<PathId> {
    let mut paths: FxHashMap<PathId, u64> = FxHashMap::default();
    let entries = recorded.analysis.profile.entries.iter();
    for entry in entries.filter(|e| e.thread as usize == thread && e.state.on_cpu()) {
        let path = recorded.analysis.names.path_of(entry.stack);
        *paths.entry(path).or_default() += entry.weight_ns;
    }
    paths
        .into_iter()
        .max_by_key(|(path, ns)| (*ns, *path))
        .map(|p| p.0)
}

/// Whether a thread does anything: what never runs only waits for the end.
fn works(recorded: &Recorded<'_, '_>, thread: usize) -> bool {
    const LEAST: f64 = 0.01;
    let share = &recorded.analysis.summary.threads[thread];
    share.times.running() as f64 >= LEAST * share.lifetime_ns.max(1) as f64
}

/// Whether others wait for a lock that this thread has: rules about locks speak of it.
fn is_owner(recorded: &Recorded<'_, '_>, thread: usize) -> bool {
    let waits = |l: &&crate::LockUse| l.threads.contains(&thread);
    let locks = recorded.locks.iter().filter(waits);
    let waited = locks.map(|l| l.lock.waited_ns);
    waited.fold(0, u64::saturating_add) >= LEAST_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::Analysis;
    use dwell_analysis::testing::TablesBuilder;

    const MS: u64 = 1_000_000;

    /// A thread that runs all of a second, and two that wait for it and work so long.
    fn found(busy_ms: u64, work_ms: u64, waits: u64) -> Vec<Finding> {
        let mut builder = TablesBuilder::new();
        let process = builder.process("demo");
        let boss = builder.thread(process, "boss");
        let stack = builder.stack(&["main", "prepare"]);
        builder.ran(boss, busy_ms * MS);
        builder.sample(boss, "running", stack, None, busy_ms * MS);
        let site = builder.site(boss, "sleep", "nanosleep", "");
        builder.waited(site, (1000 - busy_ms) * MS, 0, 1);
        for name in ["w-1", "w-2"] {
            let thread = builder.thread(process, name);
            let site = builder.site(thread, "lock", "futex", "");
            for _ in 0..waits {
                let each = (1000 - work_ms) * MS / waits;
                builder.waited(site, each, 0, 1);
                builder.kept(site, each, None, Some(boss));
            }
            builder.ran(thread, work_ms * MS);
        }
        let analysis = Analysis::of(&builder.tables);
        find(&Recorded::of(&analysis))
    }

    #[test]
    fn who_holds_all_others_up_is_told() {
        let found = found(1000, 200, 50);
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::High);
        // 1.4 s of work for three threads; in two stages one has half a second.
        let [low, high] = [finding.effect.low, finding.effect.high];
        assert!((high - (1.0 - 1.4 / 3.0)).abs() < 1e-3, "{finding:?}");
        assert!((low - 0.5).abs() < 1e-3, "{finding:?}");
    }

    #[test]
    fn a_thread_with_time_left_an_idle_pool_and_a_single_hand_over_are_not() {
        assert_eq!(found(500, 200, 50), []);
        assert_eq!(found(1000, 5, 50), []);
        assert_eq!(found(1000, 200, 4), []);
    }
}
