//! Threads that are the same kind of worker.
use crate::index::Index;
use dwell_recording::tables::Tables;
use rustc_hash::{FxHashMap, FxHashSet};

/// Threads of one process with the same folded name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Position of the process; none when its row was lost.
    pub process: Option<usize>,
    /// Folded name: `worker-*`, `python3`.
    pub name: String,
    /// Positions of its threads.
    pub threads: Vec<usize>,
    /// Position in [`Groups::labels`].
    pub label: usize,
}

/// What a person calls a group. Groups of different processes with the same names share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// Short name of the process.
    pub process: String,
    /// Folded name of the threads.
    pub thread: String,
}

impl Label {
    /// `process/thread`, or just the name where both are the same.
    pub fn short(&self) -> String {
        if self.process == self.thread {
            self.thread.clone()
        } else {
            format!("{}/{}", self.process, self.thread)
        }
    }
}

/// The groups of a recording.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// Ordered by process and name.
    pub groups: Vec<Group>,
    /// Distinct labels.
    pub labels: Vec<Label>,
    of_thread: Vec<usize>,
}

/// The name of a process whose row was lost.
pub const UNKNOWN_PROCESS: &str = "[unknown process]";

impl Groups {
    /// Puts every thread in its group.
    pub fn of(tables: &Tables, index: &Index) -> Groups {
        let stems = numbered_stems(tables);
        let mut members: FxHashMap<(u32, String), Vec<usize>> = FxHashMap::default();
        for (position, thread) in tables.threads.iter().enumerate() {
            let name = folded_name(thread.process, &thread.name, &stems);
            members
                .entry((thread.process, name))
                .or_default()
                .push(position);
        }
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort_unstable();
        let mut groups = Groups {
            of_thread: vec![0; tables.threads.len()],
            ..Groups::default()
        };
        let mut labels = FxHashMap::default();
        for ((process, name), threads) in members {
            let process = index.process(process);
            let label = Label {
                process: process_name(tables, process).to_owned(),
                thread: name.clone(),
            };
            let label = *labels.entry(label).or_insert_with_key(|label| {
                groups.labels.push(label.clone());
                groups.labels.len() - 1
            });
            for thread in &threads {
                groups.of_thread[*thread] = groups.groups.len();
            }
            groups.groups.push(Group {
                process,
                name,
                threads,
                label,
            });
        }
        groups
    }

    /// Position of the group of the thread at this position.
    pub fn of_thread(&self, thread: usize) -> usize {
        self.of_thread[thread]
    }

    /// Position of the label of the thread at this position.
    pub fn label_of_thread(&self, thread: usize) -> usize {
        self.groups[self.of_thread[thread]].label
    }
}

/// Short name of the process at this position.
pub fn process_name(tables: &Tables, process: Option<usize>) -> &str {
    process.map_or(UNKNOWN_PROCESS, |p| &tables.processes[p].name)
}

/// Name without the digits at its end.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Stems that several differently numbered threads of one process share.
fn numbered_stems(tables: &Tables) -> FxHashSet<(u32, &str)> {
    let mut first: FxHashMap<(u32, &str), &str> = FxHashMap::default();
    let mut several = FxHashSet::default();
    for thread in &tables.threads {
        let stem = stem(&thread.name);
        if stem.is_empty() || stem.len() == thread.name.len() {
            continue;
        }
        let key = (thread.process, stem);
        if *first.entry(key).or_insert(&thread.name) != thread.name {
            several.insert(key);
        }
    }
    several
}

/// `worker-12` is one of many: `worker-*`. The digits of `python3` and of `python3.11` belong to the name, unless the
/// process has a `python4` too.
fn folded_name(process: u32, name: &str, stems: &FxHashSet<(u32, &str)>) -> String {
    let stem = stem(name);
    let numbered = stem.len() < name.len() && !stem.is_empty();
    let before = stem.trim_end_matches('.');
    let is_version = before.len() < stem.len() && before.ends_with(|c: char| c.is_ascii_digit());
    let separated = stem.ends_with(|c: char| !c.is_alphanumeric()) && !is_version;
    if numbered && (separated || stems.contains(&(process, stem))) {
        format!("{stem}*")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_recording::rows::ThreadRow;

    fn folded(names: &[&str]) -> Vec<String> {
        let threads = names
            .iter()
            .zip(0..)
            .map(|(name, thread)| ThreadRow {
                thread,
                name: (*name).to_owned(),
                ..ThreadRow::default()
            })
            .collect();
        let tables = Tables {
            threads,
            ..Tables::default()
        };
        let groups = Groups::of(&tables, &Index::of(&tables));
        groups.groups.into_iter().map(|g| g.name).collect()
    }

    #[test]
    fn numbered_threads_fold() {
        assert_eq!(
            folded(&["worker-1", "worker-12", "main"]),
            ["main", "worker-*"]
        );
        assert_eq!(folded(&["Thread1", "Thread2"]), ["Thread*"]);
        assert_eq!(folded(&["worker-7"]), ["worker-*"]);
    }

    #[test]
    fn a_number_that_belongs_to_the_name_stays() {
        assert_eq!(folded(&["python3", "python3"]), ["python3"]);
        assert_eq!(folded(&["python3.11", "python3.11"]), ["python3.11"]);
        assert_eq!(folded(&["java1.8", "java1.9"]), ["java1.*"]);
        assert_eq!(folded(&["1234"]), ["1234"]);
        assert_eq!(folded(&[""]), [""]);
    }
}
