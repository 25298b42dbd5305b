//! From the analysis to what a person is told.
use super::*;
use dwell_analysis::hottest::{self, HotFunction, HotStack};
use dwell_analysis::names::{FunctionId, PathId};
use dwell_analysis::summary::Share;
use dwell_analysis::{Analysis, State, Times};
use dwell_recording::tables::Tables;
use std::cmp::Reverse;

impl Answer {
    /// Computes the answer of a recording.
    pub fn build(tables: &Tables, options: &Options) -> Answer {
        Answer::of(&Analysis::of(tables), options)
    }

    /// The same, with the analysis done before.
    pub fn of(analysis: &Analysis<'_>, options: &Options) -> Answer {
        let window_ns = analysis.summary.window_ns;
        let recorded = dwell_findings::Recorded::of(analysis);
        let mut answer = Answer {
            recording: recording(analysis),
            findings: dwell_findings::findings(&recorded),
            could_not_look: dwell_findings::blind(&recorded),
            total: division(&analysis.summary.total, window_ns),
            processes: processes(analysis),
            on_cpu: stacks(analysis, options.stacks, State::on_cpu),
            off_cpu: stacks(analysis, options.stacks, |s| {
                !s.on_cpu() && !matches!(s, State::Stolen | State::Lost)
            }),
            memory: MemoryAnswer::of(analysis, options.stacks),
            idle_pools: idle_pools(analysis),
            losses: losses(analysis),
            closure: closure(analysis),
            untold_ns: super::interpreters::untold(analysis),
            ..Answer::default()
        };
        add_functions(&mut answer, analysis, options.functions);
        super::waits::add(&mut answer, analysis, options);
        answer.notes = super::notes::notes(&answer, options);
        answer
    }
}

pub(super) fn recording(analysis: &Analysis<'_>) -> Recording {
    let meta = &analysis.tables.meta;
    let clock = meta.clock;
    Recording {
        target: meta.target.clone(),
        tool: meta.tool.clone(),
        host: meta.machine.host.clone(),
        kernel: meta.machine.kernel.clone(),
        arch: meta.machine.arch.clone(),
        cpus: meta.machine.cpus,
        start_unix_ns: clock
            .realtime_ns
            .wrapping_add(meta.start_ns)
            .wrapping_sub(clock.boottime_ns),
        window_ns: analysis.summary.window_ns,
        processes: analysis.tables.processes.len() as u64,
        threads: analysis.tables.threads.len() as u64,
        samples: analysis.tables.samples.len() as u64,
        period_ns: meta.period_ns,
        complete: meta.complete,
        exit_code: meta.exit_code,
        recorder_cpu_ns: meta
            .recorder
            .cpu_ns
            .saturating_add(meta.recorder.bpf_ns.unwrap_or(0)),
        recorder_peak_rss_bytes: meta.recorder.peak_rss_bytes,
    }
}

fn division(share: &Share, window_ns: u64) -> Division {
    let times = &share.times;
    let by_reason = times.iter().filter_map(|(state, ns)| {
        let reason = state.reason().filter(|_| ns > 0)?;
        Some((reason.name().to_owned(), ns))
    });
    Division {
        threads: share.threads,
        lifetime_ns: share.lifetime_ns,
        running_ns: times.running(),
        spinning_ns: times.spinning(),
        runnable_ns: times.runnable(),
        stolen_ns: times.stolen(),
        blocked_ns: times.blocked(),
        blocked_by_reason_ns: by_reason.collect(),
        lost_ns: times.lost(),
        cpus: share.cpus(window_ns),
        voluntary_switches: share.voluntary_switches,
        involuntary_switches: share.involuntary_switches,
    }
}

fn processes(analysis: &Analysis<'_>) -> Vec<Process> {
    let window_ns = analysis.summary.window_ns;
    let mut processes: Vec<Process> = analysis
        .tables
        .processes
        .iter()
        .zip(&analysis.summary.processes)
        .map(|(row, share)| Process {
            pid: row.pid,
            name: row.name.clone(),
            command: row.command.clone(),
            exit_status: row.exit_status,
            division: division(share, window_ns),
            groups: Vec::new(),
        })
        .collect();
    for (group, share) in analysis.groups.groups.iter().zip(&analysis.summary.groups) {
        if let Some(process) = group.process {
            let division = division(share, window_ns);
            processes[process].groups.push(Group {
                name: group.name.clone(),
                division,
            });
        }
    }
    for process in &mut processes {
        process.groups.sort_by_key(|g| by_importance(&g.division));
    }
    processes.sort_by_key(|p| by_importance(&p.division));
    processes
}

fn by_importance(division: &Division) -> (Reverse<u64>, Reverse<u64>) {
    (
        Reverse(division.running_ns.saturating_add(division.runnable_ns)),
        Reverse(division.lifetime_ns),
    )
}

fn stacks(analysis: &Analysis<'_>, limit: usize, wanted: impl Fn(State) -> bool) -> Vec<Stack> {
    let hot = hottest::stacks(analysis, wanted);
    hot.iter()
        .filter(|s| !s.idle)
        .take(limit)
        .map(|s| stack(analysis, s))
        .collect()
}

fn stack(analysis: &Analysis<'_>, hot: &HotStack) -> Stack {
    let label = &analysis.groups.labels[hot.label];
    let total_ns = analysis.summary.total.times.total().max(1);
    Stack {
        process: label.process.clone(),
        group: label.thread.clone(),
        state: hot.state.name().to_owned(),
        reason: hot.state.reason().map_or("", |r| r.name()).to_owned(),
        syscall: analysis.profile.syscalls[hot.syscall as usize].clone(),
        time_ns: hot.weight_ns,
        share: hot.weight_ns as f64 / total_ns as f64,
        waits: hot.waits,
        mean_ns: hot.weight_ns.checked_div(hot.waits).unwrap_or(0),
        max_ns: hot.max_wait_ns,
        frames: hot.path.iter().rev().map(|f| frame(analysis, *f)).collect(),
    }
}

/// The functions of a path, innermost first.
pub(super) fn frames(analysis: &Analysis<'_>, path: PathId) -> Vec<Frame> {
    analysis
        .names
        .path(path)
        .iter()
        .rev()
        .map(|f| frame(analysis, *f))
        .collect()
}

pub(super) fn frame(analysis: &Analysis<'_>, function: FunctionId) -> Frame {
    let function = analysis.names.function(function);
    Frame {
        function: function.name.clone(),
        kernel: function.kernel,
    }
}

fn add_functions(answer: &mut Answer, analysis: &Analysis<'_>, limit: usize) {
    let mut functions = hottest::functions(analysis, false);
    functions.sort_by_key(|f| (Reverse(f.own.running()), f.function));
    let on_cpu = functions
        .iter()
        .take_while(|f| f.own.running() > 0)
        .take(limit);
    answer.functions_on_cpu = on_cpu.map(|f| function(analysis, f)).collect();
    let off_cpu = |f: &HotFunction| f.total.blocked().saturating_add(f.total.runnable());
    functions.sort_by_key(|f| (Reverse(off_cpu(f)), f.function));
    let waiting = functions.iter().take_while(|f| off_cpu(f) > 0).take(limit);
    answer.functions_off_cpu = waiting.map(|f| function(analysis, f)).collect();
}

fn function(analysis: &Analysis<'_>, hot: &HotFunction) -> Function {
    Function {
        function: frame(analysis, hot.function),
        self_ns: by_state(&hot.own),
        total_ns: by_state(&hot.total),
    }
}

fn by_state(times: &Times) -> BTreeMap<String, u64> {
    let named = times.iter().filter(|(_, ns)| *ns > 0).map(|(state, ns)| {
        let name = match state.reason() {
            Some(reason) => format!("{}:{}", state.name(), reason.name()),
            None => state.name().to_owned(),
        };
        (name, ns)
    });
    named.collect()
}

fn idle_pools(analysis: &Analysis<'_>) -> Vec<IdlePool> {
    let pool = |pool: &dwell_analysis::idle::Pool| {
        let label = analysis.groups.groups[pool.group].label;
        IdlePool {
            group: analysis.groups.labels[label].short(),
            reason: pool.reason.name().to_owned(),
            threads: pool.threads,
            waited_ns: pool.waited_ns,
        }
    };
    analysis.idle.pools.iter().map(pool).collect()
}

fn losses(analysis: &Analysis<'_>) -> Losses {
    let losses = dwell_analysis::losses::Losses::of(analysis);
    let nothing_lost = losses.nothing_lost();
    let event = |loss: dwell_analysis::losses::Loss| EventLoss {
        share: loss.share(),
        name: loss.name,
        lost: loss.lost,
        produced: loss.produced,
    };
    let without = losses.without_stack_ns.into_iter();
    let without = without.map(|(why, ns)| (why.frame().trim_matches(['[', ']']).to_owned(), ns));
    Losses {
        nothing_lost,
        events: losses.events.into_iter().map(event).collect(),
        unknown_state_ns: losses.unknown_state_ns,
        without_stack_ns: without.collect(),
        cut_short_ns: losses.cut_short_ns,
        orphan_ns: losses.orphan_ns,
    }
}

fn closure(analysis: &Analysis<'_>) -> Closure {
    let summary = &analysis.summary;
    Closure {
        max_error_share: summary.closure_error,
        worst_tid: summary
            .closure_worst
            .map(|thread| analysis.tables.threads[thread].tid),
    }
}
