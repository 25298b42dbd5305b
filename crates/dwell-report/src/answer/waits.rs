//! Who ended the waits, and what they were really for.
use super::build::frames;
use super::{Answer, Chain, Link, LocksAnswer, LongWait, Options, Party, Woken};
use dwell_analysis::chains::{self, Root};
use dwell_analysis::names::StackRef;
use dwell_analysis::waits::Wait;
use dwell_analysis::wakers::{self, Waker};
use dwell_analysis::{Analysis, Reason};
use std::collections::HashSet;

pub(super) fn add(answer: &mut Answer, analysis: &Analysis<'_>, options: &Options) {
    let idle = idle_labels(analysis);
    let locks = LocksAnswer::of(analysis, options);
    (answer.locks_waited_ns, answer.locks) = (locks.waited_ns, locks.locks);
    answer.deadlocks = locks.deadlocks;
    answer.spun = locks.spun;
    answer.lock_counts = locks.lock_counts;
    let limit = options.waits;
    answer.waits_covered_share = match analysis.waits.blocked_ns {
        0 => 1.0,
        blocked_ns => analysis.waits.covered_ns as f64 / blocked_ns as f64,
    };
    let woken = wakers::totals(analysis);
    let woken = woken
        .iter()
        .filter(|w| !idle.contains(&(w.waiter, w.reason)));
    answer.wakers = woken
        .take(limit)
        .map(|w| self::woken(analysis, w))
        .collect();
    let all = chains::chains(analysis);
    let busy = all.iter().filter(|c| {
        c.links
            .first()
            .is_none_or(|l| !idle.contains(&(l.label, l.reason)))
    });
    answer.chains = busy.take(limit).map(|c| chain(analysis, c)).collect();
    answer.longest_waits = wakers::longest(analysis, limit)
        .into_iter()
        .map(|wait| long_wait(analysis, wait))
        .collect();
}

fn idle_labels(analysis: &Analysis<'_>) -> HashSet<(usize, Reason)> {
    let pools = analysis.idle.pools.iter();
    pools
        .map(|p| (analysis.groups.groups[p.group].label, p.reason))
        .collect()
}

pub(super) fn name(analysis: &Analysis<'_>, label: usize) -> String {
    analysis.groups.labels[label].short()
}

pub(super) fn party(analysis: &Analysis<'_>, waker: &Waker) -> Party {
    let (kind, name) = match waker {
        Waker::Thread(label) => ("thread", name(analysis, *label)),
        Waker::Foreign(name) => ("foreign", name.clone()),
        Waker::Interrupt(name) => ("interrupt", name.clone()),
        Waker::Nobody => ("nobody", String::new()),
    };
    Party {
        kind: kind.to_owned(),
        name,
    }
}

fn woken(analysis: &Analysis<'_>, woken: &wakers::Woken) -> Woken {
    Woken {
        waiter: name(analysis, woken.waiter),
        reason: woken.reason.name().to_owned(),
        waker: party(analysis, &woken.waker),
        waker_frames: woken
            .waker_path
            .map(|p| frames(analysis, p))
            .unwrap_or_default(),
        time_ns: woken.charged_ns,
        kept_waits: woken.kept,
        max_ns: woken.max_ns,
    }
}

fn chain(analysis: &Analysis<'_>, chain: &chains::Chain) -> Chain {
    let link = |link: &chains::Link| Link {
        waiter: name(analysis, link.label),
        reason: link.reason.name().to_owned(),
    };
    let root = match &chain.root {
        Root::Running(label) => Party {
            kind: "running".to_owned(),
            name: name(analysis, *label),
        },
        Root::Runnable(label) => Party {
            kind: "runnable".to_owned(),
            name: name(analysis, *label),
        },
        Root::Waker(waker) => party(analysis, waker),
        Root::Deeper => Party {
            kind: "deeper".to_owned(),
            name: String::new(),
        },
    };
    Chain {
        links: chain.links.iter().map(link).collect(),
        root,
        time_ns: chain.charged_ns,
        kept_waits: chain.kept,
    }
}

fn long_wait(analysis: &Analysis<'_>, wait: &Wait) -> LongWait {
    let tables = analysis.tables;
    let slice = &tables.slices[wait.slice as usize];
    let thread = &tables.threads[wait.thread as usize];
    let process = analysis.groups.groups[analysis.groups.of_thread(wait.thread as usize)].process;
    let process = dwell_analysis::groups::process_name(tables, process);
    let label = dwell_analysis::Label {
        process: process.to_owned(),
        thread: thread.name.clone(),
    };
    let stack = slice.stack.and_then(|id| analysis.index.stack(id));
    let stack = stack.map(|position| analysis.names.path_of(StackRef::Taken(position as u32)));
    let chains = chains::chains_of(analysis, wait);
    LongWait {
        tid: thread.tid,
        thread: label.short(),
        reason: analysis.reasons[wait.site as usize].name().to_owned(),
        syscall: tables.sites[wait.site as usize].syscall.clone(),
        at_ns: wait.start_ns.saturating_sub(tables.meta.start_ns),
        blocked_ns: wait.blocked_ns(),
        runnable_ns: slice.runnable_ns,
        waker: party(analysis, &wakers::waker_of(analysis, slice)),
        waker_tid: slice.waker_tid,
        frames: stack.map(|p| frames(analysis, p)).unwrap_or_default(),
        waker_frames: wakers::waker_path(analysis, slice)
            .map(|p| frames(analysis, p))
            .unwrap_or_default(),
        chains: chains.iter().map(|c| chain(analysis, c)).collect(),
    }
}
