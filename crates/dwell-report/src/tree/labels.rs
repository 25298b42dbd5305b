//! The names in a tree, each kept once: of processes, threads, functions, and of what a thread did.
use super::{IDLE, Item, KERNEL, Shape};
use dwell_analysis::names::{Function, Missing, StackRef};
use dwell_analysis::{Analysis, Entry, State};
use rustc_hash::FxHashMap;

/// Index into the tree's names.
pub(super) type NameId = u32;

pub(super) struct Labels<'a, 't> {
    pub analysis: &'a Analysis<'t>,
    names: Vec<String>,
    ids: FxHashMap<String, NameId>,
    /// By function.
    functions: Vec<NameId>,
    /// By thread: the frames above its stacks, as many for every thread.
    heads: Vec<Vec<NameId>>,
    /// By state and system call: see [`state_frame`].
    leaves: FxHashMap<(State, u32), Option<NameId>>,
    /// The box of idle pools.
    pub idle: NameId,
}

impl<'a, 't> Labels<'a, 't> {
    pub fn of(analysis: &'a Analysis<'t>, shape: Shape) -> Labels<'a, 't> {
        let mut labels = Labels {
            analysis,
            names: Vec::new(),
            ids: FxHashMap::default(),
            functions: Vec::new(),
            heads: Vec::new(),
            leaves: FxHashMap::default(),
            idle: 0,
        };
        let functions = analysis.names.functions.iter();
        labels.functions = functions.map(|f| labels.name(&function_name(f))).collect();
        let threads = analysis.idle.threads();
        let plural = if threads == 1 { "" } else { "s" };
        labels.idle = labels.name(&format!("{IDLE}{threads} thread{plural}]"));
        labels.heads = (0..analysis.tables.threads.len())
            .map(|thread| labels.heads_of(thread, shape))
            .collect();
        labels
    }

    pub fn name(&mut self, name: &str) -> NameId {
        let name = fit_name(name);
        let names = &mut self.names;
        *self.ids.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() as NameId - 1
        })
    }

    pub fn text(&self, name: NameId) -> &str {
        &self.names[name as usize]
    }

    pub fn into_names(self) -> Vec<String> {
        self.names
    }

    /// The item's name at this depth below the root; none below its last.
    pub fn at(&self, item: &Item, entry: &Entry, depth: usize) -> Option<NameId> {
        if item.idle {
            return (depth == 0).then_some(self.idle);
        }
        let heads = &self.heads[entry.thread as usize];
        let Some(depth) = depth.checked_sub(heads.len()) else {
            return Some(heads[depth]);
        };
        let names = &self.analysis.names;
        let path = names.path(names.path_of(entry.stack));
        match path.get(depth) {
            Some(function) => Some(self.functions[*function as usize]),
            None if depth == path.len() => item.leaf,
            None => None,
        }
    }

    pub fn leaf(&mut self, entry: &Entry) -> Option<NameId> {
        // A missing stack says so already.
        if let StackRef::Missing(Missing::Stolen | Missing::Lost) = entry.stack {
            return None;
        }
        let key = (entry.state, entry.syscall);
        if let Some(known) = self.leaves.get(&key) {
            return *known;
        }
        let syscall = self.analysis.profile.syscall(entry);
        let leaf = state_frame(entry.state, syscall).map(|name| self.name(&name));
        self.leaves.insert(key, leaf);
        leaf
    }

    /// Process, thread group and, where wanted, thread.
    fn heads_of(&mut self, thread: usize, shape: Shape) -> Vec<NameId> {
        let analysis = self.analysis;
        let group = &analysis.groups.groups[analysis.groups.of_thread(thread)];
        let process = dwell_analysis::groups::process_name(analysis.tables, group.process);
        if !shape.per_thread {
            return vec![self.name(process), self.name(&group.name)];
        }
        let row = &analysis.tables.threads[thread];
        let pid = group
            .process
            .map_or(0, |p| analysis.tables.processes[p].pid);
        vec![
            self.name(&format!("{process} ({pid})")),
            self.name(&group.name),
            self.name(&format!("{} ({})", row.name, row.tid)),
        ]
    }
}

/// As shown: a kernel's function is marked.
pub(crate) fn function_name(function: &Function) -> String {
    if function.kernel {
        format!("{}{KERNEL}", function.name)
    } else {
        function.name.clone()
    }
}

/// The frame that says what a thread did at the end of a stack: `[blocked: lock futex]`, `[runnable]`,
/// `[spinning]`; none while it ran otherwise.
pub(crate) fn state_frame(state: State, syscall: &str) -> Option<String> {
    match (state, syscall) {
        (State::Running, _) => None,
        (State::Spinning, _) => Some("[spinning]".to_owned()),
        (State::Stolen, _) => Some("[stolen]".to_owned()),
        (State::Lost, _) => Some("[lost]".to_owned()),
        (State::Runnable, _) => Some("[runnable]".to_owned()),
        (State::Blocked(reason), "") => Some(format!("[blocked: {}]", reason.name())),
        (State::Blocked(reason), syscall) => {
            Some(format!("[blocked: {} {syscall}]", reason.name()))
        }
    }
}

/// A name that is one field of a folded line: no `;`, no line breaks, not empty, and no number after a
/// blank at its end, which readers would take for a count.
fn fit_name(name: &str) -> String {
    let mut name: String = name
        .trim()
        .chars()
        .map(|c| {
            if c == ';' {
                ','
            } else if c.is_control() {
                ' '
            } else {
                c
            }
        })
        .collect();
    if name.starts_with('#') {
        name.insert(0, '_');
    }
    if let Some((start, last)) = name.rsplit_once(' ')
        && last.chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        name = format!("{start}_{last}");
    }
    if name.is_empty() {
        "[unnamed]".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_a_field() {
        assert_eq!(fit_name("<[u8; 4] as T>::f"), "<[u8, 4] as T>::f");
        assert_eq!(fit_name("worker 12"), "worker_12");
        assert_eq!(fit_name(" a\nb "), "a b");
        assert_eq!(fit_name("# x"), "_# x");
        assert_eq!(fit_name("\n"), "[unnamed]");
    }
}
