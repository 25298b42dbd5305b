//! Time off the processor: each site's exact sums over the stacks taken there.
use super::{Builder, Entry, SyscallId};
use crate::apportion::{Piece, apportion, total, transport};
use crate::index::SiteSums;
use crate::names::{Missing, StackRef};
use crate::state::{Reason, State};
use dwell_recording::tables::Tables;
use rustc_hash::FxHashMap;

/// One site with what has to be divided.
struct Site {
    position: usize,
    thread: usize,
    blocked: State,
    syscall: SyscallId,
    sums: SiteSums,
}

/// A stack of a site: what its samples stand for.
#[derive(Clone, Copy, Default)]
struct Seen {
    weight_ns: u64,
    blocked_weight_ns: u64,
    runnable_weight_ns: u64,
    /// Waits, in units of 1 / [`VISIT`].
    visits: u64,
    samples: u64,
    max_wait_ns: u64,
}

/// One wait in [`Seen::visits`].
const VISIT: u64 = 1 << 10;

impl Seen {
    /// A sample of this weight of a stay of which so much was blocked and so much runnable. Each part
    /// has been met with the probability of the whole stay.
    fn sampled(weight_ns: u64, stay: Option<(u64, u64)>) -> Seen {
        let (blocked, whole) = match stay {
            Some((blocked, runnable)) => (blocked, u128::from(blocked) + u128::from(runnable)),
            None => (0, 0),
        };
        let of_whole = |part: u64| (u128::from(weight_ns) * u128::from(part)).checked_div(whole);
        let blocked_weight_ns = of_whole(blocked).map_or(weight_ns, |ns| ns as u64);
        Seen {
            weight_ns,
            blocked_weight_ns,
            runnable_weight_ns: if whole == 0 {
                weight_ns
            } else {
                weight_ns - blocked_weight_ns
            },
            visits: of_whole(VISIT).map_or(VISIT, |n| n as u64),
            samples: 1,
            max_wait_ns: 0,
        }
    }

    fn add(&mut self, other: &Seen) {
        for (sum, more) in [
            (&mut self.weight_ns, other.weight_ns),
            (&mut self.blocked_weight_ns, other.blocked_weight_ns),
            (&mut self.runnable_weight_ns, other.runnable_weight_ns),
            (&mut self.visits, other.visits),
            (&mut self.samples, other.samples),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.max_wait_ns = self.max_wait_ns.max(other.max_wait_ns);
    }
}

type Stacks = Vec<(StackRef, Seen)>;

pub(super) fn add(builder: &mut Builder<'_>) {
    let sites = sites(builder);
    let stacks = stacks_by_site(builder);
    for site in &sites {
        if !stacks[site.position].is_empty() {
            divide(builder, site, &stacks[site.position]);
        }
    }
    let left = sites
        .iter()
        .filter(|s| stacks[s.position].is_empty())
        .collect();
    let left = pool(builder, &sites, &stacks, left, |b, s| {
        b.groups.of_thread(s.thread) as u64
    });
    let left = pool(builder, &sites, &stacks, left, |b, s| {
        u64::from(b.tables.threads[s.thread].process)
    });
    let left = pool(builder, &sites, &stacks, left, |b, s| {
        b.groups.label_of_thread(s.thread) as u64
    });
    for site in left {
        let whole = Portion {
            waits: site.sums.count,
            max_wait_ns: site.sums.max_ns,
            uncounted: false,
        };
        let stack = StackRef::Missing(Missing::NoStackTaken);
        add_wait(
            builder,
            site,
            site.blocked,
            stack,
            site.sums.blocked_ns,
            whole,
        );
        add_wait(
            builder,
            site,
            State::Runnable,
            stack,
            site.sums.runnable_ns,
            whole.if_alone(site),
        );
    }
    add_unknown_sites(builder, &sites);
}

/// Every site of a known thread; sums that exceed the thread's exact ones are scaled down to them.
fn sites(builder: &mut Builder<'_>) -> Vec<Site> {
    let tables = builder.tables;
    let mut sites = Vec::with_capacity(tables.sites.len());
    for (position, row) in tables.sites.iter().enumerate() {
        let sums = builder.index.site_sums(position);
        let Some(thread) = builder.index.thread(row.thread) else {
            let ns = sums.blocked_ns.saturating_add(sums.runnable_ns);
            builder.orphan_ns = builder.orphan_ns.saturating_add(ns);
            continue;
        };
        let syscall = builder.syscall(&row.syscall);
        let blocked = State::Blocked(builder.reasons[position]);
        sites.push(Site {
            position,
            thread,
            blocked,
            syscall,
            sums,
        });
    }
    sites.sort_by_key(|s| (s.thread, s.position));
    for own in sites.chunk_by_mut(|a, b| a.thread == b.thread) {
        let thread = &tables.threads[own[0].thread];
        fit(own, thread.blocked_ns, |s| &mut s.blocked_ns);
        fit(own, thread.runnable_ns, |s| &mut s.runnable_ns);
    }
    sites
}

fn fit(sites: &mut [Site], exact: u64, field: fn(&mut SiteSums) -> &mut u64) {
    let claimed: Vec<u64> = sites.iter_mut().map(|s| *field(&mut s.sums)).collect();
    let total: u128 = claimed.iter().map(|ns| u128::from(*ns)).sum();
    if total <= u128::from(exact) {
        return;
    }
    for (site, share) in sites.iter_mut().zip(apportion(exact, &claimed)) {
        *field(&mut site.sums) = share;
    }
}

/// Blocked and runnable time of every stay with a stack, by the site's id and the stay's end. A sample
/// of a wait is taken at that instant.
fn stays(tables: &Tables) -> FxHashMap<(u32, u64), (u64, u64)> {
    let with_stack = tables.slices.iter().filter(|s| s.stack.is_some());
    with_stack
        .map(|s| {
            let end_ns = s
                .start_ns
                .saturating_add(s.blocked_ns)
                .saturating_add(s.runnable_ns);
            ((s.site, end_ns), (s.blocked_ns, s.runnable_ns))
        })
        .collect()
}

/// The stacks taken at every site, by the site's position.
fn stacks_by_site(builder: &Builder<'_>) -> Vec<Stacks> {
    let tables = builder.tables;
    let stays = stays(tables);
    let mut stacks = vec![Stacks::new(); tables.sites.len()];
    let mut add = |site: u32, stack: u32, seen: Seen| {
        if let Some(site) = builder.index.site(site) {
            stacks[site].push((builder.stack(stack), seen));
        }
    };
    for sample in &tables.samples {
        if let Some(site) = sample.site {
            let stay = stays.get(&(site, sample.time_ns)).copied();
            add(site, sample.stack, Seen::sampled(sample.weight_ns, stay));
        }
    }
    for slice in &tables.slices {
        if let Some(stack) = slice.stack {
            let max_wait_ns = match slice.blocked_ns {
                0 => slice.runnable_ns,
                blocked_ns => blocked_ns,
            };
            let longest = Seen {
                max_wait_ns,
                ..Seen::default()
            };
            add(slice.site, stack, longest);
        }
    }
    for site in &mut stacks {
        merge(site);
    }
    stacks
}

/// One row per stack; a stack that only a slice has is no sample and gets no share.
fn merge(stacks: &mut Stacks) {
    stacks.sort_unstable_by_key(|(stack, _)| *stack);
    stacks.dedup_by(|next, sum| {
        let same = next.0 == sum.0;
        if same {
            sum.1.add(&next.1);
        }
        same
    });
    stacks.retain(|(_, seen)| seen.samples > 0);
}

/// Weights to divide by: these parts of the samples' weights, their whole weights when all the parts
/// are 0, the number of samples when those are too.
fn weights(stacks: &Stacks, part: fn(&Seen) -> u64) -> Vec<u64> {
    let fields = [part, |seen: &Seen| seen.weight_ns, |seen| seen.samples];
    let of = |field: fn(&Seen) -> u64| stacks.iter().map(|(_, seen)| field(seen)).collect();
    let all: [Vec<u64>; 3] = fields.map(of);
    let some = all.into_iter().find(|w| w.iter().any(|w| *w > 0));
    some.unwrap_or_default()
}

/// What a piece of a site's time tells besides its length.
#[derive(Clone, Copy, Default)]
struct Portion {
    waits: u64,
    max_wait_ns: u64,
    /// Its waits are counted elsewhere: what is counted at the same stack does not tell its mean.
    uncounted: bool,
}

impl Portion {
    /// A wait is counted once: with its blocked time where it has some, else with its runnable time.
    fn if_alone(self, site: &Site) -> Portion {
        if site.sums.blocked_ns == 0 {
            self
        } else {
            Portion {
                uncounted: true,
                ..Portion::default()
            }
        }
    }
}

fn add_wait(
    builder: &mut Builder<'_>,
    site: &Site,
    state: State,
    stack: StackRef,
    weight_ns: u64,
    portion: Portion,
) {
    let entry = Entry {
        thread: site.thread as u32,
        state,
        syscall: site.syscall,
        stack,
        weight_ns,
        waits: portion.waits,
        max_wait_ns: portion.max_wait_ns,
    };
    builder.add_portion(entry, portion.uncounted);
}

/// Divides a site's sums among its own stacks.
fn divide(builder: &mut Builder<'_>, site: &Site, stacks: &Stacks) {
    let blocked = apportion(
        site.sums.blocked_ns,
        &weights(stacks, |s| s.blocked_weight_ns),
    );
    let runnable = apportion(
        site.sums.runnable_ns,
        &weights(stacks, |s| s.runnable_weight_ns),
    );
    let counts = apportion(site.sums.count, &weights(stacks, |s| s.visits));
    for (i, (stack, seen)) in stacks.iter().enumerate() {
        builder.left_processor(site.thread, *stack, counts[i]);
        let max_wait_ns = if stacks.len() == 1 {
            site.sums.max_ns
        } else {
            seen.max_wait_ns
        };
        let portion = Portion {
            waits: counts[i],
            max_wait_ns,
            uncounted: false,
        };
        add_wait(builder, site, site.blocked, *stack, blocked[i], portion);
        add_wait(
            builder,
            site,
            State::Runnable,
            *stack,
            runnable[i],
            portion.if_alone(site),
        );
    }
}

/// Like places to wait: (group, process or label, reason, system call).
type PoolKey = (u64, State, SyscallId);

/// Spreads the sums of sites without a stack over the samples of like sites; returns those that
/// have no like.
fn pool<'s>(
    builder: &mut Builder<'_>,
    sites: &[Site],
    stacks: &[Stacks],
    left: Vec<&'s Site>,
    likeness: fn(&Builder<'_>, &Site) -> u64,
) -> Vec<&'s Site> {
    let key = |b: &Builder<'_>, s: &Site| (likeness(b, s), s.blocked, s.syscall);
    let mut pools: FxHashMap<PoolKey, Vec<&Site>> = FxHashMap::default();
    for site in left {
        pools.entry(key(builder, site)).or_default().push(site);
    }
    let mut samples: FxHashMap<PoolKey, Stacks> = FxHashMap::default();
    for site in sites.iter().filter(|s| !stacks[s.position].is_empty()) {
        let key = key(builder, site);
        if pools.contains_key(&key) {
            samples
                .entry(key)
                .or_default()
                .extend_from_slice(&stacks[site.position]);
        }
    }
    let mut without = Vec::new();
    let mut pools: Vec<_> = pools.into_iter().collect();
    pools.sort_unstable_by_key(|(key, _)| *key);
    for (key, members) in pools {
        match samples.get_mut(&key) {
            Some(stacks) => {
                merge(stacks);
                spread(builder, &members, stacks);
            }
            None => without.extend(members),
        }
    }
    without
}

/// Keeps both each site's sum and each stack's share of the pool.
fn spread(builder: &mut Builder<'_>, sites: &[&Site], stacks: &Stacks) {
    let pieces = |field: fn(&SiteSums) -> u64, part: fn(&Seen) -> u64| -> Vec<Piece> {
        let sums: Vec<u64> = sites.iter().map(|s| field(&s.sums)).collect();
        let total = total(sums.iter().copied());
        transport(&sums, &apportion(total, &weights(stacks, part)))
    };
    for piece in pieces(|s| s.count, |s| s.visits) {
        builder.left_processor(sites[piece.from].thread, stacks[piece.to].0, piece.amount);
    }
    let blocked = pieces(|s| s.blocked_ns, |s| s.blocked_weight_ns);
    let runnable = pieces(|s| s.runnable_ns, |s| s.runnable_weight_ns);
    let mut told = vec![false; sites.len()];
    let mut add = |pieces: Vec<Piece>, runnable: bool| {
        for piece in pieces {
            let site = sites[piece.from];
            let first = !std::mem::replace(&mut told[piece.from], true);
            let portion = Portion {
                waits: if first { site.sums.count } else { 0 },
                max_wait_ns: if first { site.sums.max_ns } else { 0 },
                uncounted: runnable && site.sums.blocked_ns > 0,
            };
            let state = if runnable {
                State::Runnable
            } else {
                site.blocked
            };
            add_wait(
                builder,
                site,
                state,
                stacks[piece.to].0,
                piece.amount,
                portion,
            );
        }
    };
    add(blocked, false);
    add(runnable, true);
}

/// What the threads waited beyond the sums of their sites.
fn add_unknown_sites(builder: &mut Builder<'_>, sites: &[Site]) {
    let tables = builder.tables;
    let mut blocked: Vec<u64> = tables.threads.iter().map(|t| t.blocked_ns).collect();
    let mut runnable: Vec<u64> = tables.threads.iter().map(|t| t.runnable_ns).collect();
    for site in sites {
        blocked[site.thread] -= site.sums.blocked_ns;
        runnable[site.thread] -= site.sums.runnable_ns;
    }
    for thread in 0..tables.threads.len() {
        let unknown = State::Blocked(Reason::Unknown);
        builder.add_missing(thread, unknown, Missing::SiteUnknown, blocked[thread]);
        builder.add_missing(
            thread,
            State::Runnable,
            Missing::SiteUnknown,
            runnable[thread],
        );
    }
}
