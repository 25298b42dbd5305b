//! Examines the changed instructions of the finished file: each is decoded again, where its function's
//! instructions lead to it, and must do what the old one does with what the file gives its place.
use super::code::{Form, STUB, form, reference, stub_place};
use super::{Direct, Site};
use crate::merge::Merge;
use crate::merge::hot::Clones;
use crate::module::Module;
use crate::parallel::by_parts;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction};

/// Checks all of them.
pub(crate) fn verify(
    merge: &Merge<'_, '_>,
    merged: &Module<'_>,
    direct: &Direct,
    clones: &Clones,
) -> Result<(), String> {
    let pair = Pair {
        merge,
        merged,
        clones,
    };
    let functions: Vec<_> = direct.sites.iter().collect();
    let checked = by_parts(&functions, |part| {
        let mut functions = part.iter();
        functions.try_for_each(|&(&function, sites)| pair.function(function, sites))
    });
    checked.into_iter().collect()
}

/// The module whose code is at an image address, and its base.
pub(crate) fn module_of(merge: &Merge<'_, '_>, at: u64) -> Option<(usize, u64)> {
    merge.layout.merged().find(|&(index, base)| {
        let module = &merge.closure.modules[index];
        (module.start() + base..module.end() + base).contains(&at)
    })
}

/// Those of a function's instructions that are at the addresses, which are in order; none when one of its bytes is no
/// instruction, or one of the addresses is not that of an instruction.
fn instructions_at(
    bytes: &[u8],
    at: u64,
    wanted: impl Iterator<Item = u64>,
) -> Option<Vec<Instruction>> {
    let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut wanted = wanted.peekable();
    let mut found = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        if wanted.next_if_eq(&instruction.ip()).is_some() {
            found.push(instruction);
        }
    }
    wanted.next().is_none().then_some(found)
}

/// The modules as they were, and the finished file.
struct Pair<'a, 'data> {
    merge: &'a Merge<'a, 'data>,
    merged: &'a Module<'data>,
    clones: &'a Clones,
}

impl Pair<'_, '_> {
    /// Checks the changed instructions of one function.
    fn function(&self, (at, len): (u64, u64), sites: &[Site]) -> Result<(), String> {
        let damaged = || format!("the function at {at:#x} cannot be read");
        let (index, base) = module_of(self.merge, at).ok_or_else(damaged)?;
        let module = &self.merge.closure.modules[index];
        let old = module.elf.bytes_at(at - base, len as usize);
        let new = self.merged.elf.bytes_at(at, len as usize);
        let (old, new) = old.zip(new).ok_or_else(damaged)?;
        let places = || sites.iter().map(|s| s.at);
        let both = instructions_at(old, at, places()).zip(instructions_at(new, at, places()));
        let (before, after) = both.ok_or_else(damaged)?;
        for (site, both) in sites.iter().zip(before.iter().zip(&after)) {
            let place = (site.at - at) as usize;
            let bytes = &old[place..place + site.bytes.len()];
            if !self.same_meaning(site.at, bytes, both) {
                return Err(format!("the call at {:#x} does not lead on", site.at));
            }
        }
        Ok(())
    }

    /// Whether the new instruction does what the old one did, given what the finished file has for places.
    fn same_meaning(
        &self,
        at: u64,
        bytes: &[u8],
        (old, new): (&Instruction, &Instruction),
    ) -> bool {
        let Some(form) = form(bytes).filter(|_| old.len() == bytes.len()) else {
            return false;
        };
        let reference = reference(at, bytes);
        let code = match form {
            Form::Branch => old.code(),
            Form::Call => Code::Call_rel32_64,
            Form::Jump => Code::Jmp_rel32_64,
            Form::Load => Code::Lea_r64_m,
        };
        // A jump that replaces one through a place is a byte shorter.
        let len = old.len() - usize::from(form == Form::Jump);
        if new.code() != code || new.len() != len {
            return false;
        }
        // What is left of it is a nop, so that whoever reads on is not misled.
        if form == Form::Jump && self.merged.elf.bytes_at(at + 5, 1) != Some(&[0x90]) {
            return false;
        }
        match form {
            Form::Branch => {
                let place = self.stub(reference);
                place.is_some_and(|p| self.leads(p, new.near_branch_target()))
            }
            Form::Call | Form::Jump => self.leads(reference, new.near_branch_target()),
            Form::Load => {
                new.op0_register() == old.op0_register()
                    && new.is_ip_rel_memory_operand()
                    && new.ip_rel_memory_address() == self.merged.word(reference)
            }
        }
    }

    /// Whether a jump through the place arrives at the target, perhaps by stubs.
    fn leads(&self, place: u64, target: u64) -> bool {
        // Whether it arrives at a function or at its copy is the same.
        let target = self.clones.original_of(target);
        let mut at = self.merged.word(place);
        for _ in 0..super::MAX_HOPS {
            match self.stub(at) {
                Some(place) if at != target => at = self.merged.word(place),
                _ => break,
            }
        }
        at == target && at != 0
    }

    /// The place that a stub jumps through, by the file that the stub is from.
    fn stub(&self, at: u64) -> Option<u64> {
        let (index, base) = module_of(self.merge, at)?;
        let module = &self.merge.closure.modules[index];
        let bytes = module.elf.bytes_from(at - base)?;
        stub_place(at, &bytes[..bytes.len().min(STUB as usize)])
    }
}
