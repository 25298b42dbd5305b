//! The option `flowindent`: entries and returns drawn as a tree.

use std::collections::HashMap;

use crate::schema::ProbeName;

/// How deep each thread is in its calls, as far as its probes tell.
#[derive(Debug, Default)]
pub struct Flow {
    threads: HashMap<u32, Thread>,
}

/// What is known of a thread.
#[derive(Debug, Default, Clone, Copy)]
struct Thread {
    /// Spaces before its next line.
    indent: usize,
    /// The probe of its last record and the clause of it.
    last: Option<(u32, u32)>,
}

/// What a probe's name says of the flow.
#[derive(PartialEq, Eq)]
enum Kind {
    Entry,
    Return,
    None,
}

/// Deeper than that, lines no longer move to the right. Calls whose returns no probe sees would move them for ever.
const DEEPEST: usize = 4096;

impl Flow {
    /// The column `FUNCTION` of a record. A probe is an entry if its name is `entry` or ends with `-entry`; returns
    /// likewise. A second clause of the same entry is none.
    pub fn column(&mut self, thread: u32, probe: (u32, u32), name: &ProbeName) -> String {
        let known = self.threads.entry(thread).or_default();
        let kind = match kind(&name.name) {
            Kind::Entry
                if known
                    .last
                    .is_some_and(|last| last.0 == probe.0 && last.1 != probe.1) =>
            {
                Kind::None
            }
            kind => kind,
        };
        let syscall = &*name.provider == "syscall";
        let function = &name.function;
        if kind == Kind::Return {
            known.indent = known.indent.saturating_sub(2);
        }
        let indent = " ".repeat(known.indent);
        if kind == Kind::Entry {
            known.indent = (known.indent + 2).min(DEEPEST);
        }
        known.last = Some(probe);
        if known.indent == 0 {
            self.threads.remove(&thread);
        }
        match (kind, syscall) {
            (Kind::Entry, false) => format!("{indent} -> {function}"),
            (Kind::Entry, true) => format!("{indent} => {function}"),
            (Kind::Return, false) => format!("{indent} <- {function}"),
            (Kind::Return, true) => format!("{indent} <= {function}"),
            (Kind::None, _) => format!("{indent}| {function}:{}", name.name),
        }
    }
}

/// Only the first `entry` in a name counts, and only at its end, alone or behind a hyphen: no carpentry.
fn kind(name: &str) -> Kind {
    let is = |word: &str| {
        name.find(word).is_some_and(|at| {
            let (before, behind) = (&name[..at], &name[at + word.len()..]);
            behind.is_empty() && (before.is_empty() || before.ends_with('-'))
        })
    };
    match (is("entry"), is("return")) {
        (true, _) => Kind::Entry,
        (_, true) => Kind::Return,
        _ => Kind::None,
    }
}
