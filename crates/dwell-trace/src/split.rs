//! Which probes must run in one engine, since their clauses share something.
use crate::enabled::Enabled;
use crate::probes::At;
use dwell_script::codegen::{Shared, shared, written};
use dwell_script::typed::{Scope, Script, VariableId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Probes in sets: a probe goes where all of its set go.
pub(crate) struct Sets(BTreeMap<u32, u32>);

/// What holds probes together.
#[derive(PartialEq, Eq, Hash)]
enum Bond<'p> {
    Shared(Shared),
    /// A jump in its code, and a breakpoint in it, would not do together.
    Function(&'p str, u32, &'p str),
}

impl Sets {
    /// The sets of a script's probes.
    pub(crate) fn find(script: &Script, enabled: &Enabled) -> Sets {
        let mut sets = Sets(enabled.probes.keys().map(|n| (*n, *n)).collect());
        let settled = settled(script, enabled);
        // Clauses of ERROR run wherever another one fails.
        let errors = of_errors(script, enabled);
        let mut first: HashMap<Bond<'_>, u32> = HashMap::new();
        let mut of_clause: HashMap<usize, BTreeSet<Shared>> = HashMap::new();
        for (number, (probe, clauses)) in &enabled.probes {
            let mut bonds: Vec<Bond<'_>> = errors.iter().map(|s| Bond::Shared(*s)).collect();
            for clause in clauses {
                let shared = of_clause
                    .entry(*clause)
                    .or_insert_with(|| shared(script, *clause));
                bonds.extend(shared.iter().map(|s| Bond::Shared(*s)));
            }
            if let At::Code { file, pid, .. } = &probe.at {
                bonds.push(Bond::Function(file, *pid, &probe.name.function));
            }
            // When the clock ends a script, nobody asks at which call exactly.
            let by_clock = matches!(probe.at, At::Tick(_) | At::Profile(_));
            bonds.retain(|bond| match bond {
                Bond::Shared(Shared::End) => !by_clock,
                Bond::Shared(Shared::Variable(id)) => !settled.contains(id),
                _ => true,
            });
            for bond in bonds {
                let with = *first.entry(bond).or_insert(*number);
                sets.unite(with, *number);
            }
        }
        if let Some(ends) = first.get(&Bond::Shared(Shared::End)).copied() {
            enabled.probes.keys().for_each(|n| sets.unite(ends, *n));
        }
        sets
    }

    fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.of(a), self.of(b));
        self.0.insert(a.max(b), a.min(b));
    }

    /// The set of a probe, by its lowest number.
    pub(crate) fn of(&mut self, probe: u32) -> u32 {
        let mut root = probe;
        while self.0[&root] != root {
            root = self.0[&root];
        }
        self.0.insert(probe, root);
        root
    }

    /// These probes and all that must be where they are.
    pub(crate) fn with_theirs(&mut self, probes: impl Iterator<Item = u32>) -> BTreeSet<u32> {
        let roots: BTreeSet<u32> = probes.map(|probe| self.of(probe)).collect();
        let all: Vec<u32> = self.0.keys().copied().collect();
        all.into_iter()
            .filter(|n| roots.contains(&self.of(*n)))
            .collect()
    }
}

fn of_errors(script: &Script, enabled: &Enabled) -> BTreeSet<Shared> {
    let errors = enabled.probes.values().filter(|(p, _)| p.at == At::Error);
    let clauses = errors.flat_map(|(_, clauses)| clauses);
    clauses.flat_map(|clause| shared(script, *clause)).collect()
}

/// Plain global variables that only BEGIN changes: both engines are told of what it has left.
fn settled(script: &Script, enabled: &Enabled) -> BTreeSet<VariableId> {
    let mut settled: BTreeSet<VariableId> = (0..script.variables.len())
        .filter(|at| {
            let variable = &script.variables[*at];
            variable.scope == Scope::Global && variable.keys.is_none()
        })
        .map(|at| VariableId(at as u32))
        .collect();
    let others = enabled.probes.values().filter(|(p, _)| p.at != At::Begin);
    let clauses: BTreeSet<usize> = others.flat_map(|(_, clauses)| clauses).copied().collect();
    for clause in clauses {
        for id in written(script, clause) {
            settled.remove(&id);
        }
    }
    settled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::{Code, Probe};
    use dwell_script::schema::ProbeName;
    use dwell_script::{Bare, Input, compile};

    /// The probes of a script, in which `pid1:m:f:entry` is a place in the code.
    fn sets(text: &str) -> Vec<BTreeSet<u32>> {
        let input = Input {
            source: text,
            ..Input::default()
        };
        let (script, _) = compile(&input, &Bare).expect("it is right");
        let mut enabled = Enabled::default();
        for (index, clause) in script.clauses.iter().enumerate() {
            let pattern = &clause.probe;
            let at = match &*pattern.name {
                "BEGIN" => At::Begin,
                "END" => At::End,
                "ERROR" => At::Error,
                "tick-1" => At::Tick(1),
                name => At::Code {
                    file: "m".into(),
                    pid: 1,
                    offset: u64::from(pattern.function.as_bytes()[0]),
                    what: match name {
                        "entry" => Code::Entry,
                        _ => Code::Return,
                    },
                },
            };
            let name = ProbeName {
                function: pattern.function.clone(),
                ..ProbeName::default()
            };
            enabled.add(Probe { name, at }, index);
        }
        let mut sets = Sets::find(&script, &enabled);
        let all = enabled.probes.keys().copied();
        let mut found: Vec<BTreeSet<u32>> =
            all.map(|n| sets.with_theirs([n].into_iter())).collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn probes_are_bound_by_what_they_share() {
        let count = |text: &str| sets(text).len();
        let (f, g) = ("pid1:m:f:entry", "pid1:m:g:entry");
        assert_eq!(count(&format!("{f}, {g} {{ @ = count(); }}")), 2);
        assert_eq!(count(&format!("{f} {{ n++; }} {g} {{ trace(n); }}")), 1);
        assert_eq!(
            count(&format!("{f} {{ self->n = 1; }} {g} /self->n/ {{}}")),
            1
        );
        assert_eq!(
            count(&format!("{f} {{ this->n = 1; }} {g} {{ this->n = 2; }}")),
            2
        );
        assert_eq!(count(&format!("{f}, {g} {{ a[arg0] = 1; }}")), 1);
        assert_eq!(count("pid1:m:f:entry, pid1:m:f:return { @ = count(); }"), 1);
        // Three: BEGIN alone, since what it leaves is told to both.
        assert_eq!(
            count(&format!(
                "BEGIN {{ n = 1; }} {f}, {g} /n/ {{ @ = count(); }}"
            )),
            3
        );
        assert_eq!(
            count(&format!(
                "{f}, {g}, tick-1 {{ @ = count(); }} tick-1 {{ exit(0); }}"
            )),
            3
        );
        assert_eq!(
            count(&format!("{f} {{ exit(0); }} {g} {{ @ = count(); }}")),
            1
        );
        assert_eq!(
            count(&format!("{f}, {g} {{ trace(1); }} ERROR {{ n++; }}")),
            1
        );
        assert_eq!(
            count(&format!("{f} {{ speculate(1); }} {g} {{ commit(1); }}")),
            1
        );
    }
}
