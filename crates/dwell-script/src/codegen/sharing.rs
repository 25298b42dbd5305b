//! What clauses share, so that they must run where they find the same of it.
use super::visit::{Seen, visit_clause};
use crate::typed::{Function, Recording, Scope, Script, Statement, VariableId};
use std::collections::BTreeSet;

/// Something that clauses share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shared {
    /// A global variable, an associative array, or a variable of threads.
    Variable(VariableId),
    /// Which speculations are in use.
    Speculations,
    /// Whether the script has ended: it calls `exit()`.
    End,
}

/// What a clause, by its place in the script, shares with others. Aggregations are not among it: what is added in two
/// places can be added up.
pub fn shared(script: &Script, clause: usize) -> BTreeSet<Shared> {
    let mut found = BTreeSet::new();
    let clause = &script.clauses[clause];
    visit_clause(clause, &mut |seen| match seen {
        Seen::Variable(id) if script.variables[id.0 as usize].scope != Scope::Clause => {
            found.insert(Shared::Variable(id));
        }
        Seen::Function(Function::Speculation) => {
            found.insert(Shared::Speculations);
        }
        _ => {}
    });
    each_record(&clause.body, &mut |recording| match recording {
        Recording::Speculate(_) | Recording::Commit(_) | Recording::Discard(_) => {
            found.insert(Shared::Speculations);
        }
        Recording::Exit(_) => {
            found.insert(Shared::End);
        }
        _ => {}
    });
    found
}

/// The plain global variables that a clause may give another value, and all else that it may change.
pub fn written(script: &Script, clause: usize) -> BTreeSet<VariableId> {
    let mut found = BTreeSet::new();
    visit_clause(&script.clauses[clause], &mut |seen| {
        if let Seen::Changed(id) = seen {
            found.insert(id);
        }
    });
    found
}

/// Whether a clause leaves records.
pub fn leaves_records(script: &Script, clause: usize) -> bool {
    let clause = &script.clauses[clause];
    let mut any = clause.default_action();
    each_record(&clause.body, &mut |_| any = true);
    any
}

fn each_record(body: &[Statement], tell: &mut dyn FnMut(&Recording)) {
    for statement in body {
        match statement {
            Statement::Record(recording) => tell(recording),
            Statement::If {
                then, otherwise, ..
            } => {
                each_record(then, tell);
                each_record(otherwise, tell);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bare, Input, compile};

    fn script(source: &str) -> Script {
        let input = Input {
            source,
            ..Input::default()
        };
        compile(&input, &Bare).expect("it is right").0
    }

    #[test]
    fn clauses_share_what_outlives_a_firing() {
        let script = script(
            "BEGIN { n = 3; exit(0); } END { self->t = n; this->x = 1; a[this->x]++; @ = count(); }
             tick-1 { if (n) { speculate(speculation()); } }",
        );
        let names = |clause: usize| -> Vec<String> {
            let name = |shared: &Shared| match shared {
                Shared::Variable(id) => script.variables[id.0 as usize].name.to_string(),
                other => format!("{other:?}"),
            };
            shared(&script, clause).iter().map(name).collect()
        };
        assert_eq!(names(0), ["n", "End"]);
        assert_eq!(names(1), ["n", "t", "a"]);
        assert_eq!(names(2), ["n", "Speculations"]);
        let changed = |clause| -> Vec<&str> {
            let changed = written(&script, clause);
            let names = changed.into_iter().map(|id| id.0 as usize);
            names.map(|at| &*script.variables[at].name).collect()
        };
        assert_eq!(changed(0), ["n"]);
        assert_eq!(changed(1), ["t", "x", "a"]);
        assert_eq!(changed(2), [""; 0]);
        assert!(leaves_records(&script, 0) && leaves_records(&script, 2));
        assert!(!leaves_records(&script, 1));
    }
}
