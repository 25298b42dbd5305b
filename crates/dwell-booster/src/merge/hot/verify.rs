//! Examines the copies in the finished file: each instruction is decoded again and must mean what the original's
//! means, which is read from the modules' files.
use super::Hot;
use super::clones::{Clone, Clones};
use super::tables::Table;
use crate::merge::Merge;
use crate::merge::decoded::{Decoded, branch_target, decode};
use crate::merge::direct::{Direct, Site, module_of};
use crate::module::Module;
use iced_x86::Instruction;

/// Checks all copies, and all that leads to them.
pub(crate) fn verify(
    merge: &Merge<'_, '_>,
    merged: &Module<'_>,
    direct: &Direct,
    hot: &Hot,
) -> Result<(), String> {
    let examiner = Examiner {
        merge,
        merged,
        direct,
        clones: &hot.clones,
    };
    for clone in hot.clones.iter() {
        if !examiner.is_copy(clone).unwrap_or(false) {
            let (at, original) = (clone.at, clone.body.at);
            return Err(format!("{at:#x} does not do what {original:#x} does"));
        }
    }
    for table in &hot.clones.tables {
        if !examiner.is_table(table).unwrap_or(false) {
            return Err(format!("the table at {:#x} leads elsewhere", table.at));
        }
    }
    for (&(at, len), sites) in &hot.sites {
        if !examiner.lead_on((at, len), sites).unwrap_or(false) {
            return Err(format!("a branch of {at:#x} does not lead on"));
        }
    }
    for site in &hot.entries {
        let jump = examiner.found(site.at, site.bytes.len() as u64);
        let target = jump.and_then(|code| branch_target(&code.first()?.instruction));
        if target
            .is_none_or(|target| target == site.at || hot.clones.original_of(target) != site.at)
        {
            return Err(format!(
                "the jump at {:#x} does not lead to the copy",
                site.at
            ));
        }
    }
    Ok(())
}

struct Examiner<'a, 'data> {
    merge: &'a Merge<'a, 'data>,
    merged: &'a Module<'data>,
    direct: &'a Direct,
    clones: &'a Clones,
}

impl Examiner<'_, '_> {
    /// The instructions of a function before anything led to copies: as the module's file has them, but for those
    /// that are direct, which are examined by themselves.
    fn old(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        let (index, base) = module_of(self.merge, at)?;
        let module = &self.merge.closure.modules[index];
        let mut bytes = module.elf.bytes_at(at - base, len as usize)?.to_vec();
        for site in self.direct.sites.get(&(at, len)).into_iter().flatten() {
            let from = (site.at - at) as usize;
            bytes
                .get_mut(from..from + site.bytes.len())?
                .copy_from_slice(&site.bytes);
        }
        Some(bytes)
    }

    /// The instructions of the finished file.
    fn found(&self, at: u64, len: u64) -> Option<Vec<Decoded<'_>>> {
        decode(self.merged.elf.bytes_at(at, len as usize)?, at)
    }

    fn is_copy(&self, clone: &Clone) -> Option<bool> {
        let body = &clone.body;
        let (bytes, new) = (
            self.old(body.at, clone.len())?,
            self.found(clone.at, clone.len())?,
        );
        let old = decode(&bytes, body.at)?;
        let mut pairs = old.iter().zip(&new);
        let same = old.len() == new.len() && pairs.all(|(old, new)| self.same(clone, old, new));
        if !same || !body.falls_through {
            return Some(same);
        }
        let end = clone.at + clone.len();
        let tail = self.found(end, 5)?;
        let target = branch_target(&tail.first()?.instruction)?;
        Some(tail.len() == 1 && self.clones.original_of(target) == body.at + clone.len())
    }

    /// Whether an instruction of a copy does what the original does: its bytes are the same but for one distance,
    /// which leads to the same place, or to the copy of it.
    fn same(&self, clone: &Clone, old: &Decoded<'_>, new: &Decoded<'_>) -> bool {
        let place = |i: &Instruction, begin: u64| i.ip().wrapping_sub(begin);
        let at = place(&old.instruction, clone.body.at) == place(&new.instruction, clone.at);
        at && old.is_like(new)
            && match branch_target(&old.instruction) {
                Some(_) => self.same_target(&old.instruction, &new.instruction),
                None => self.same_place(&old.instruction, &new.instruction),
            }
    }

    fn same_target(&self, old: &Instruction, new: &Instruction) -> bool {
        let (old, new) = (branch_target(old), branch_target(new));
        // What leads into the function itself leads into its copy.
        old == new.map(|target| self.clones.original_of(target))
    }

    fn same_place(&self, old: &Instruction, new: &Instruction) -> bool {
        let (place, copy) = (old.memory_displacement64(), new.memory_displacement64());
        place == copy
            || self
                .clones
                .tables
                .iter()
                .any(|t| t.is_used_at(old.ip(), place, copy))
    }

    /// Each entry leads where the original's does, there or in a copy.
    fn is_table(&self, table: &Table) -> Option<bool> {
        let (index, base) = module_of(self.merge, table.original)?;
        let module = &self.merge.closure.modules[index];
        let (width, len) = (table.width(), table.len() as usize);
        let old = module.elf.bytes_at(table.original - base, len)?;
        let new = self.merged.elf.bytes_at(table.at, len)?;
        let entry = |bytes: &[u8], from: u64| match bytes {
            &[a, b, c, d] => from.wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into()),
            _ => bytes.try_into().map_or(0, u64::from_le_bytes),
        };
        let mut pairs = old.chunks(width).zip(new.chunks(width));
        Some(pairs.all(|(old, new)| {
            let target = entry(new, table.at);
            entry(old, table.original) == self.clones.original_of(target)
        }))
    }

    /// Whether the changed branches of a function lead to the copies of where they led.
    fn lead_on(&self, (at, len): (u64, u64), sites: &[Site]) -> Option<bool> {
        let bytes = self.old(at, len)?;
        let (old, new) = (decode(&bytes, at)?, self.found(at, len)?);
        let find = |code: &[Decoded<'_>], site: u64| {
            let found = code.binary_search_by_key(&site, |d| d.instruction.ip());
            found.ok().map(|i| code[i].instruction)
        };
        let leads = |site: &Site| {
            let (old, new) = (find(&old, site.at)?, find(&new, site.at)?);
            let (from, to) = (branch_target(&old)?, branch_target(&new)?);
            let same = old.code() == new.code() && old.len() == new.len();
            Some(same && to != from && self.clones.original_of(to) == from)
        };
        Some(sites.iter().all(|site| leads(site).unwrap_or(false)))
    }
}
