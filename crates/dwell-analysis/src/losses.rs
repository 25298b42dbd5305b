//! What is not in the recording, or not as exact as it should be.
use crate::analysis::Analysis;
use crate::names::{Missing, StackRef, cut_short};
use crate::state::State;
use std::collections::BTreeMap;

/// Events that were produced and are not in the tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Which events.
    pub name: String,
    /// How many were lost.
    pub lost: u64,
    /// How many were produced, where that was counted.
    pub produced: Option<u64>,
}

impl Loss {
    /// Lost over produced.
    pub fn share(&self) -> Option<f64> {
        let produced = self.produced.filter(|p| *p > 0)?;
        Some(self.lost as f64 / produced as f64)
    }
}

/// Every loss, and thread time whose place is not fully known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Losses {
    /// Lost events, only those that did occur, the most first.
    pub events: Vec<Loss>,
    /// Thread time without a stack, by why, ns.
    pub without_stack_ns: BTreeMap<Missing, u64>,
    /// Thread time with a stack that is cut short, by why, ns.
    pub cut_short_ns: BTreeMap<String, u64>,
    /// Thread time in an unknown state, ns.
    pub unknown_state_ns: u64,
    /// Time of sites whose thread is not in the recording, ns. In no total.
    pub orphan_ns: u64,
}

impl Losses {
    /// Collects them.
    pub fn of(analysis: &Analysis<'_>) -> Losses {
        let mut losses = Losses {
            events: events(analysis),
            orphan_ns: analysis.profile.orphan_ns,
            ..Losses::default()
        };
        for entry in &analysis.profile.entries {
            losses.add(analysis, entry.state, entry.stack, entry.weight_ns);
        }
        losses
    }

    fn add(&mut self, analysis: &Analysis<'_>, state: State, stack: StackRef, ns: u64) {
        let cell = match stack {
            _ if state == State::Lost => &mut self.unknown_state_ns,
            StackRef::Missing(Missing::Stolen) => return,
            StackRef::Missing(missing) => self.without_stack_ns.entry(missing).or_default(),
            StackRef::Taken(position) => {
                let end = &analysis.tables.stacks[position as usize].end;
                let Some(why) = cut_short(end) else { return };
                match self.cut_short_ns.get_mut(why) {
                    Some(cell) => cell,
                    None => self.cut_short_ns.entry(why.to_owned()).or_default(),
                }
            }
        };
        *cell = cell.saturating_add(ns);
    }

    /// True when every event arrived and every state is known.
    pub fn nothing_lost(&self) -> bool {
        self.events.is_empty() && self.unknown_state_ns == 0 && self.orphan_ns == 0
    }
}

fn events(analysis: &Analysis<'_>) -> Vec<Loss> {
    let meta = &analysis.tables.meta;
    let mut events: Vec<Loss> = meta
        .losses
        .iter()
        .filter(|(_, lost)| **lost > 0)
        .map(|(name, lost)| Loss {
            name: name.clone(),
            lost: *lost,
            produced: meta.produced.get(name).copied(),
        })
        .collect();
    events.sort_by_key(|l| std::cmp::Reverse(l.lost));
    events
}
