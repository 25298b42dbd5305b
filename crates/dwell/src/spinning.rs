//! Tells which of the places where threads were seen running only wait there.
//!
//! What a file holds is judged by its code, the kernel by the names of its functions. Only the innermost
//! frame of a stack counts: a call in a loop says nothing of what was called.
use crate::naming::module_of;
use dwell_collector::{Origin, Unnamed};
use dwell_elf::ElfFile;
use dwell_recording::rows::SymbolRow;
use dwell_spin::NotSpinning;
use dwell_spin::kernel::{Place, place};
use dwell_symbols::{Module, Symbolizer};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Frames looked at for what a function of the kernel that helps to wait was called by.
const CALLERS: usize = 8;

/// The stacks at which threads were seen running, and what is known of their innermost frames.
pub struct Leaves {
    /// The innermost frames of each, the last innermost.
    ends: BTreeSet<Vec<u32>>,
    innermost: BTreeSet<u32>,
    spinning: BTreeMap<u32, bool>,
}

impl Leaves {
    /// Knows nothing of them yet. Frames of a stack are outermost first.
    pub fn of<'s>(stacks: impl Iterator<Item = &'s [u32]>) -> Leaves {
        let end = |frames: &'s [u32]| frames[frames.len().saturating_sub(CALLERS)..].to_vec();
        let ends: BTreeSet<Vec<u32>> = stacks.map(end).collect();
        Leaves {
            innermost: ends.iter().filter_map(|end| end.last()).copied().collect(),
            ends,
            spinning: BTreeMap::new(),
        }
    }

    /// Judges those among the frames of one origin. `names` are the frames' own.
    pub fn judge(&mut self, symbolizer: &Symbolizer, group: &Unnamed, names: &[SymbolRow]) {
        match &group.origin {
            Origin::Kernel => self.judge_kernel(names),
            // The vDSO's loops read clocks again, and are over at once.
            Origin::Module(module) if module.path.starts_with('[') => {}
            Origin::Module(module) => {
                self.judge_module(symbolizer, &module_of(module), &group.frames)
            }
            Origin::Own | Origin::KernelCode { .. } | Origin::Jit { .. } => {}
        }
    }

    fn judge_module(
        &mut self,
        symbolizer: &Symbolizer,
        module: &Module<'_>,
        frames: &[(u32, u64)],
    ) {
        let is_leaf = |(frame, _): &&(u32, u64)| self.innermost.contains(frame);
        let leaves: Vec<_> = frames.iter().filter(is_leaf).copied().collect();
        if leaves.is_empty() {
            return;
        }
        let judged = symbolizer.file(module, |bytes| {
            let code = dwell_spin::Module::new(ElfFile::parse(bytes).ok()?);
            let judged = leaves.iter().map(|&(frame, address)| {
                let spins = match code.judge(address) {
                    Ok(_) => true,
                    // No function is known there, or it was not looked at.
                    Err(NotSpinning::NoInstruction | NotSpinning::TooLarge) => return None,
                    Err(_) => false,
                };
                Some((frame, spins))
            });
            Some(judged.flatten().collect::<Vec<_>>())
        });
        self.spinning.extend(judged.flatten().into_iter().flatten());
    }

    /// A function that helps to wait spins if all that call it do.
    fn judge_kernel(&mut self, names: &[SymbolRow]) {
        let places: HashMap<u32, Place> = names
            .iter()
            .map(|row| (row.frame, place(&row.function)))
            .collect();
        for end in &self.ends {
            let Some(leaf) = end.last().filter(|leaf| places.contains_key(leaf)) else {
                continue;
            };
            let outwards = end.iter().rev().map_while(|frame| places.get(frame));
            let spins = outwards.copied().find(|p| *p != Place::Helper) == Some(Place::Spins);
            let all = self.spinning.entry(*leaf).or_insert(true);
            *all &= spins;
        }
    }

    /// Whether each frame spins, of those of which that could be told.
    pub fn spinning(&self) -> &BTreeMap<u32, bool> {
        &self.spinning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(names: &[&str]) -> (Unnamed, Vec<SymbolRow>) {
        let rows = names.iter().zip(0..).map(|(name, frame)| SymbolRow {
            frame,
            function: (*name).into(),
            ..SymbolRow::default()
        });
        let group = Unnamed {
            origin: Origin::Kernel,
            frames: names.iter().zip(0..).map(|(_, f)| (f, 0)).collect(),
        };
        (group, rows.collect())
    }

    fn judged(names: &[&str], stacks: &[&[u32]]) -> Vec<(u32, bool)> {
        let (group, rows) = kernel(names);
        let mut leaves = Leaves::of(stacks.iter().copied());
        leaves.judge(&crate::naming::symbolizer(), &group, &rows);
        leaves.spinning().iter().map(|(f, s)| (*f, *s)).collect()
    }

    #[test]
    fn a_helper_of_the_kernel_spins_with_its_caller() {
        let names = [
            "do_syscall_64",
            "_raw_spin_lock",
            "__pv_queued_spin_lock_slowpath",
            "pv_wait_head_or_lock",
            "kvm_wait",
        ];
        let spins: &[u32] = &[0, 1, 2, 3, 4];
        assert_eq!(judged(&names, &[spins]), [(4, true)]);
        assert_eq!(
            judged(&names, &[spins, &[0, 1, 2], &[0, 1]]),
            [(1, false), (2, true), (4, true)]
        );
        // Called by who works, too: then nobody knows, and it is not said to spin.
        assert_eq!(judged(&names, &[spins, &[0, 4]]), [(4, false)]);
        // Frame 9 is a user's.
        assert_eq!(judged(&names, &[&[9, 4], &[9]]), [(4, false)]);
    }

    #[test]
    fn only_the_innermost_frame_is_judged() {
        let names = ["__pv_queued_spin_lock_slowpath", "asm_exc_nmi"];
        assert_eq!(judged(&names, &[&[0, 1]]), [(1, false)]);
    }
}
