//! The sites that wait on futexes: whose they are, what they wait on, and what that means. From it: why threads wait at
//! every site.
use super::classify::{Class, Classifier};
use super::kinds::{self, Says, Word};
use super::{Identity, Use, add, gil};
use crate::analysis::Analysis;
use crate::names::{PathId, StackRef, heaviest};
use crate::state::Reason;
use dwell_recording::rows::{SiteRow, reason};
use rustc_hash::{FxHashMap, FxHashSet};

/// A wait site on a futex.
#[derive(Debug)]
pub(crate) struct FutexSite {
    /// Position in `sites`.
    pub position: usize,
    /// Position in `threads`.
    pub thread: usize,
    pub class: Class,
    pub used: Use,
    pub identity: Identity,
    /// See [`super::Lock::word`].
    pub word: Option<(usize, u64)>,
    /// Where it waits, when a stack of its own was taken.
    pub path: Option<PathId>,
    pub blocked_ns: u64,
    /// Number of waits.
    pub count: u64,
    pub max_ns: u64,
}

/// Every site at which a thread was blocked on a futex.
pub(crate) fn of(analysis: &Analysis<'_>) -> Vec<FutexSite> {
    let mut sites = classified(analysis);
    let locks = locks_by_wakers(analysis, &sites);
    for site in &mut sites {
        let timed = analysis.tables.sites[site.position].timed;
        site.used = judge(&site.class, locks.get(&site.identity).copied(), timed);
    }
    sites
}

/// In step with `sites`: why threads wait there. On a futex it is a lock unless the wait was found to be for news; where a
/// recording has no word of it (an imported one), the names of the stack tell.
pub(crate) fn reasons(analysis: &Analysis<'_>) -> Vec<Reason> {
    let rows = &analysis.tables.sites;
    let mut reasons: Vec<Reason> = rows.iter().map(|row| site_reason(&row.reason)).collect();
    let for_news = |site: &&FutexSite| matches!(site.used, Use::Idle | Use::Timed);
    let on_words = analysis.futex_sites.iter().filter(for_news);
    for position in on_words
        .map(|site| site.position)
        .chain(named_news(analysis))
    {
        if reasons[position] == Reason::Lock {
            reasons[position] = Reason::Condition;
        }
    }
    reasons
}

/// A site of preemption has no reason, and should have no blocked time.
fn site_reason(name: &str) -> Reason {
    if name.is_empty() {
        Reason::Other
    } else {
        Reason::from_name(name)
    }
}

/// Positions of sites without a word whose stacks' names say that they wait for news.
fn named_news(analysis: &Analysis<'_>) -> Vec<usize> {
    let rows = analysis.tables.sites.iter().enumerate();
    let wordless: Vec<(usize, &SiteRow)> = rows
        .filter(|(_, row)| row.futex.is_none() && matches!(&*row.syscall, "" | "futex"))
        .filter(|(_, row)| row.reason == reason::LOCK)
        .collect();
    if wordless.is_empty() {
        return Vec::new();
    }
    let classifier = Classifier::of(&analysis.names);
    let paths = paths_by_site(analysis);
    let says = |position: usize, row| classifier.class(row, paths[position]).says;
    let news = wordless
        .into_iter()
        .filter(|(position, row)| says(*position, row) == Some(Says::Idle));
    news.map(|(position, _)| position).collect()
}

/// The sites with their class, of unknown use yet.
fn classified(analysis: &Analysis<'_>) -> Vec<FutexSite> {
    let tables = analysis.tables;
    let paths = paths_by_site(analysis);
    let known = paths_by_likeness(analysis, &paths);
    let classifier = Classifier::of(&analysis.names);
    let futexes: FxHashMap<u32, usize> = (0..)
        .zip(&tables.futexes)
        .map(|(position, row)| (row.futex, position))
        .collect();
    let site = |(position, row): (usize, &SiteRow)| {
        let sums = analysis.index.site_sums(position);
        let alike = likeness(analysis, row).filter(|_| sums.blocked_ns > 0)?;
        let thread = analysis.index.thread(row.thread)?;
        let borrowed = || alike.iter().find_map(|like| known.get(like)).copied();
        let path = paths[position];
        let class = classifier.class(row, path.or_else(borrowed));
        let futex = row.futex.and_then(|id| futexes.get(&id)).copied();
        let process = tables.threads[thread].process;
        let (identity, word) = identity(analysis, &class, process, futex);
        Some(FutexSite {
            position,
            thread,
            class,
            used: Use::Unknown,
            identity,
            word,
            path,
            blocked_ns: sums.blocked_ns,
            count: sums.count,
            max_ns: sums.max_ns,
        })
    };
    let mut sites: Vec<FutexSite> = tables.sites.iter().enumerate().filter_map(site).collect();
    find_first_words(analysis, &mut sites);
    tell_openmp_apart(&classifier, &mut sites);
    gil::put_together(&mut sites);
    sites
}

/// Where GNU's OpenMP has no names: a word that threads also wait on outside of what they run for the program is that of a
/// barrier, at which teams end, or of the one at which threads wait for a team, if next to none waits in a program's function.
fn tell_openmp_apart(classifier: &Classifier<'_>, sites: &mut [FutexSite]) {
    /// Of the waiting on a word, in the program's functions: a main thread seldom comes to the other barrier before the last.
    const BARRIER_SHARE: f64 = 0.02;
    let is_nameless = |s: &FutexSite| s.class.runtime == kinds::OPENMP && s.class.name == "lock";
    let mut times: FxHashMap<Identity, (u64, u64)> = FxHashMap::default();
    for site in sites.iter().filter(|s| is_nameless(s)) {
        let Some(path) = site.path else { continue };
        let (bare, all) = times.entry(site.identity).or_default();
        add(all, site.blocked_ns);
        if classifier.is_bare_openmp(path) {
            add(bare, site.blocked_ns);
        }
    }
    for site in sites.iter_mut().filter(|s| is_nameless(s)) {
        let Some((bare, all)) = times.get(&site.identity).filter(|t| t.0 > 0) else {
            continue;
        };
        let in_program = (all - bare) as f64;
        (site.class.name, site.class.says) = match in_program >= BARRIER_SHARE * *all as f64 {
            true => ("barrier", Some(Says::Lock)),
            false => ("idle thread", Some(Says::Idle)),
        };
    }
}

/// Where writers go first, glibc's readers may wait on the first word of a read-write lock, while the writer that they let go
/// first waits 8 bytes on, and others 12: no other lock is so near. Such sites are those of one lock.
fn find_first_words(analysis: &Analysis<'_>, sites: &mut [FutexSite]) {
    let word_of = |site: &FutexSite| {
        let (position, _) = site.word.filter(|_| site.class.word == Word::Rwlock)?;
        let process = analysis.tables.threads[site.thread].process;
        Some((process, analysis.tables.futexes[position].address))
    };
    let words: FxHashSet<(u32, u64)> = sites.iter().filter_map(word_of).collect();
    for site in sites {
        let (Some((process, address)), Some(word)) = (word_of(site), &mut site.word) else {
            continue;
        };
        let is_there = |offset| {
            let other = address.checked_add(offset);
            other.is_some_and(|other| words.contains(&(process, other)))
        };
        if address.is_multiple_of(8) && (is_there(8) || is_there(12)) {
            site.identity = Identity::Word { process, address };
            word.1 = 0;
        }
    }
}

/// What waits of a class mean. `lock_by_wakers` is what those who end them tell.
fn judge(class: &Class, lock_by_wakers: Option<bool>, timed: bool) -> Use {
    let is_lock = match (class.says, lock_by_wakers) {
        (None, _) => return Use::Unknown,
        (Some(Says::Lock), _) => true,
        (Some(Says::Idle), _) => false,
        (Some(Says::ByWakers), Some(is_lock)) => is_lock,
        // Without a name and without a waker nothing tells.
        (Some(Says::ByWakers), None) if class.runtime.is_empty() => return Use::Unknown,
        (Some(Says::ByWakers), None) => false,
    };
    match (is_lock, timed) {
        (true, _) => Use::Lock,
        (false, false) => Use::Idle,
        (false, true) => Use::Timed,
    }
}

fn identity(
    analysis: &Analysis<'_>,
    class: &Class,
    process: u32,
    futex: Option<usize>,
) -> (Identity, Option<(usize, u64)>) {
    let word = futex.and_then(|position| {
        let address = analysis.tables.futexes[position].address;
        let offset = class.word.offset(address)?.min(address);
        Some((position, address - offset, offset))
    });
    match word {
        Some((position, address, offset)) => (
            Identity::Word { process, address },
            Some((position, offset)),
        ),
        None => {
            let function = class.caller;
            (Identity::Caller { process, function }, None)
        }
    }
}

/// By site: the path of the stack that most of its time is known to have, of any where none weighs.
pub(super) fn paths_by_site(analysis: &Analysis<'_>) -> Vec<Option<PathId>> {
    let tables = analysis.tables;
    let mut weights: Vec<FxHashMap<PathId, u64>> = vec![FxHashMap::default(); tables.sites.len()];
    for sample in &tables.samples {
        let site = sample.site.and_then(|id| analysis.index.site(id));
        let stack = analysis.index.stack(sample.stack);
        if let (Some(site), Some(stack)) = (site, stack) {
            let path = analysis.names.path_of(StackRef::Taken(stack as u32));
            add(weights[site].entry(path).or_default(), sample.weight_ns);
        }
    }
    weights.into_iter().map(heaviest).collect()
}

/// What sites of the same thing have in common, to ask those that know: the word, else the place in
/// the code; with the operation.
type Likeness<'t> = (bool, u32, u64, &'t str);

/// What a site on a futex has in common with others, what tells more first.
fn likeness<'t>(analysis: &Analysis<'t>, row: &'t SiteRow) -> Option<[Likeness<'t>; 2]> {
    let futex = row.futex?;
    let thread = analysis.index.thread(row.thread)?;
    let process = analysis.tables.threads[thread].process;
    let operation = row.operation.as_str();
    Some([
        (true, futex, 0, operation),
        (false, process, row.pc, operation),
    ])
}

/// Of sites that are alike: the path of the one that blocked longest, of those that have one.
fn paths_by_likeness<'t>(
    analysis: &Analysis<'t>,
    paths: &[Option<PathId>],
) -> FxHashMap<Likeness<'t>, PathId> {
    let mut known: FxHashMap<Likeness<'_>, (u64, PathId)> = FxHashMap::default();
    for (position, (row, path)) in analysis.tables.sites.iter().zip(paths).enumerate() {
        let (Some(path), Some(alike)) = (path, likeness(analysis, row)) else {
            continue;
        };
        let ns = analysis.index.site_sums(position).blocked_ns;
        for like in alike {
            let best = known.entry(like).or_insert((ns, *path));
            *best = (*best).max((ns, *path));
        }
    }
    let path = |(like, (_, path))| (like, path);
    known.into_iter().map(path).collect()
}

/// What may be a lock or not, where threads are known to have ended waits: true for a lock, when those
/// who end the waiting wait there themselves.
fn locks_by_wakers(analysis: &Analysis<'_>, sites: &[FutexSite]) -> FxHashMap<Identity, bool> {
    let open = sites
        .iter()
        .filter(|s| s.class.says == Some(Says::ByWakers));
    let identity_of: FxHashMap<usize, Identity> =
        open.clone().map(|s| (s.position, s.identity)).collect();
    let waiters: FxHashSet<(Identity, usize)> = open.map(|s| (s.identity, s.thread)).collect();
    let mut time: FxHashMap<Identity, (u64, u64)> = FxHashMap::default();
    for wait in &analysis.waits.waits {
        let waker = analysis.tables.slices[wait.slice as usize].waker_thread;
        let waker = waker.and_then(|id| analysis.index.thread(id));
        let (Some(identity), Some(waker)) = (identity_of.get(&(wait.site as usize)), waker) else {
            continue;
        };
        let (by_waiters, all) = time.entry(*identity).or_default();
        add(all, wait.charged_ns);
        if waiters.contains(&(*identity, waker)) {
            add(by_waiters, wait.charged_ns);
        }
    }
    let judge = |(identity, (by_waiters, all)): (Identity, (u64, u64))| {
        (identity, by_waiters >= all - by_waiters)
    };
    time.into_iter().map(judge).collect()
}
