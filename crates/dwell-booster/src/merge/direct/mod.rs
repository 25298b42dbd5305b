//! Calls between modules that go to their target at once: level 1.
//!
//! A compiler lets a call to another module go through a place that the loader fills, directly or by a
//! stub of the procedure linkage table. In the merged file, what such a place will hold is known when the
//! target is inside. Instructions are changed in place, each to one as long; all else stays where it is.
//!
//! What is taken for an instruction: what is met when a function, as call frame information gives its
//! bounds, is decoded from its first byte to its last. What is taken for a filled place: one that a
//! `GLOB_DAT` or `JUMP_SLOT` relocation names, which only linkers make and nobody else writes to.
pub(crate) mod code;
pub(crate) mod functions;
mod verify;

pub(crate) use verify::{module_of, verify};

use super::image::{Image, W, X};
use crate::Refusal;
use crate::closure::Closure;
use crate::layout::Layout;
use crate::parallel::by_parts;
use crate::values::{Value, Values};
use code::Form;
use object::elf;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// What became of the calls of program and merged libraries to other modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectCalls {
    /// Calls and jumps to functions by a stub or a place that the loader fills.
    pub calls: Count,
    /// Jumps through such a place: the stubs themselves, and calls at the end of a function.
    pub jumps: Count,
    /// Loads of an address from such a place.
    pub loads: Count,
    /// Functions that were left as they are since not all of their bytes could be read as instructions.
    pub unread_functions: usize,
}

impl DirectCalls {
    fn add(&mut self, other: &DirectCalls) {
        self.calls.add(&other.calls);
        self.jumps.add(&other.jumps);
        self.loads.add(&other.loads);
        self.unread_functions += other.unread_functions;
    }
}

/// How many there are, and what became of them: each is direct, or left for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Made direct.
    pub direct: usize,
    /// Left: a library that stays has the target.
    pub stays: usize,
    /// Left: the target is chosen when the program starts (IFUNC).
    pub chosen: usize,
    /// Left: nobody defines the target (a weak symbol), or it is no code.
    pub absent: usize,
}

impl Count {
    /// All of them.
    pub fn found(&self) -> usize {
        self.direct + self.stays + self.chosen + self.absent
    }

    fn add(&mut self, other: &Count) {
        self.direct += other.direct;
        self.stays += other.stays;
        self.chosen += other.chosen;
        self.absent += other.absent;
    }
}

/// A changed instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// Image address.
    pub at: u64,
    pub bytes: Vec<u8>,
}

/// What is to be changed.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    /// By the function that they are in: (first address, length).
    pub sites: BTreeMap<(u64, u64), Vec<Site>>,
    pub report: DirectCalls,
}

/// Stubs that lead to stubs: a program's may stand for a library's function.
const MAX_HOPS: usize = 4;

impl Direct {
    /// Finds the instructions in an image whose code is as the modules have it.
    pub(crate) fn of(
        closure: &Closure<'_>,
        layout: &Layout,
        values: &Values,
        image: &Image,
    ) -> Result<Self, Refusal> {
        let finder = Finder {
            values,
            image,
            code: code_of(image),
            filled: filled_places(closure, layout)?,
        };
        let mut functions = Vec::new();
        for (index, base) in layout.merged() {
            let stated = functions::of(&closure.modules[index])?.into_iter();
            functions.extend(stated.map(|(at, len)| (at + base, len)));
        }
        let found = by_parts(&functions, |part| finder.functions(part));
        let mut direct = Direct::default();
        for part in found {
            direct.sites.extend(part.sites);
            direct.report.add(&part.report);
        }
        Ok(direct)
    }

    /// Ranges of changed bytes, in order; image addresses.
    pub(crate) fn changed(&self) -> impl Iterator<Item = Range<u64>> {
        let sites = self.sites.values().flatten();
        sites.map(|site| site.at..site.at + site.bytes.len() as u64)
    }

    /// A changed instruction within a range or partly in it.
    pub(crate) fn changed_at(&self, range: &Range<u64>) -> Option<&Site> {
        let functions = self.sites.range(..(range.end, 0)).rev();
        let mut near = functions.take_while(|((at, len), _)| at + len > range.start);
        let meets = |s: &&Site| s.at < range.end && s.at + s.bytes.len() as u64 > range.start;
        near.find_map(|(_, sites)| sites.iter().find(meets))
    }

    /// Changes the image.
    pub(crate) fn apply(&self, image: &mut Image) {
        for site in self.sites.values().flatten() {
            image.put(site.at, &site.bytes);
        }
    }
}

/// Image addresses of what the loader fills for calls to other modules.
fn filled_places(closure: &Closure<'_>, layout: &Layout) -> Result<HashSet<u64>, Refusal> {
    let kinds = [elf::R_X86_64_GLOB_DAT.0, elf::R_X86_64_JUMP_SLOT.0];
    let mut places = HashSet::new();
    for (index, base) in layout.merged() {
        let all = closure.relocations(index)?.iter();
        let filled = all.filter(|r| kinds.contains(&r.kind));
        places.extend(filled.map(|r| r.stated.wrapping_add(base)));
    }
    Ok(places)
}

/// What a filled place leads to.
enum Target {
    Code(u64),
    Data(u64),
    Stays,
    Chosen,
    Absent,
}

struct Finder<'a> {
    values: &'a Values,
    image: &'a Image,
    /// Code that nobody writes to: begin and end, sorted.
    code: Vec<(u64, u64)>,
    filled: HashSet<u64>,
}

impl Finder<'_> {
    fn functions(&self, functions: &[(u64, u64)]) -> Direct {
        let mut direct = Direct::default();
        for &function in functions {
            self.function(function, &mut direct);
        }
        direct
    }

    fn function(&self, (at, len): (u64, u64), direct: &mut Direct) {
        let Some(bytes) = self.image.bytes_at(at, len) else {
            return;
        };
        let Some(instructions) = code::instructions(at, bytes) else {
            direct.report.unread_functions += 1;
            return;
        };
        let mut sites = Vec::new();
        for range in instructions {
            let at = at + range.start as u64;
            let old = &bytes[range];
            if let Some(form) = code::form(old) {
                sites.extend(self.site(at, old, form, &mut direct.report));
            }
        }
        if !sites.is_empty() {
            direct.sites.insert((at, len), sites);
        }
    }

    /// The change of one instruction, if it is to be changed; counts it.
    fn site(&self, at: u64, old: &[u8], form: Form, report: &mut DirectCalls) -> Option<Site> {
        let reference = code::reference(at, old);
        let place = match form {
            Form::Branch => self.stub(reference)?,
            _ => Some(reference).filter(|place| self.filled.contains(place))?,
        };
        let count = match form {
            Form::Branch | Form::Call => &mut report.calls,
            Form::Jump => &mut report.jumps,
            Form::Load => &mut report.loads,
        };
        let target = match (self.target(place), form) {
            // An address that is kept is compared: it must be the very one that the place holds.
            (Target::Code(target) | Target::Data(target), Form::Load) => Some(target),
            (Target::Code(target), _) => Some(self.last(target)),
            (Target::Stays, _) => {
                count.stays += 1;
                return None;
            }
            (Target::Chosen, _) => {
                count.chosen += 1;
                return None;
            }
            (Target::Data(_) | Target::Absent, _) => None,
        };
        let Some(bytes) = target.and_then(|t| code::direct(at, old, form, t)) else {
            count.absent += 1;
            return None;
        };
        count.direct += 1;
        Some(Site { at, bytes })
    }

    /// The filled place that a stub at `at` jumps through, if there is one.
    fn stub(&self, at: u64) -> Option<u64> {
        let rest = self.code_end(at)? - at;
        let bytes = self.image.bytes_at(at, rest.min(code::STUB))?;
        code::stub_place(at, bytes).filter(|place| self.filled.contains(place))
    }

    fn target(&self, place: u64) -> Target {
        match self.values.places.get(&place) {
            Some(&Value::Image(at)) if self.code_end(at).is_some() => Target::Code(at),
            Some(&Value::Image(at)) => Target::Data(at),
            Some(Value::Import { .. }) => Target::Stays,
            Some(Value::Indirect(_)) => Target::Chosen,
            _ => Target::Absent,
        }
    }

    /// Where a call of a function at last arrives, when there are stubs at the beginning.
    fn last(&self, mut target: u64) -> u64 {
        for _ in 0..MAX_HOPS {
            let next = self.stub(target).map(|place| self.target(place));
            match next {
                Some(Target::Code(next)) => target = next,
                _ => break,
            }
        }
        target
    }

    /// The end of the code that holds an address.
    fn code_end(&self, at: u64) -> Option<u64> {
        let next = self.code.partition_point(|&(start, _)| start <= at);
        let (_, end) = *self.code.get(next.checked_sub(1)?)?;
        (at < end).then_some(end)
    }
}

/// Code that nobody writes to: begin and end, sorted.
pub(crate) fn code_of(image: &Image) -> Vec<(u64, u64)> {
    let code = image.loads.iter().filter(|l| l.flags & (X | W) == X);
    let mut code: Vec<_> = code.map(|l| (l.at, l.at + l.file_size)).collect();
    code.sort_unstable();
    code
}
