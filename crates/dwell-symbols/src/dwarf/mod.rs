//! Functions, inlined functions and source lines from DWARF.
//!
//! Units are decoded one at a time and streamed past the sorted addresses: what is kept is the
//! answers, not the units. Nothing recurses, so that the nesting of a hostile file costs nothing.
mod lines;
mod names;
mod scopes;
mod sections;
mod units;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use memmap2::Mmap;

use gimli::{EndianSlice, RunTimeEndian};

use crate::elf::{Elf, range_of};
use crate::files;
use crate::queries::Queries;
pub(crate) use sections::Sections;

/// What all of this reads from.
type Slice<'d> = EndianSlice<'d, RunTimeEndian>;
type Dwarf<'d> = gimli::Dwarf<Slice<'d>>;
type Unit<'d> = gimli::Unit<Slice<'d>>;

/// A function at an address, as DWARF tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// None where only the source line is known.
    pub(crate) name: Option<Name>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// True when it was inlined into the next one.
    pub(crate) inlined: bool,
}

/// The name of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The mangled one, which says everything.
    Linkage(String),
    /// The bare one of the source.
    Plain(String),
}

/// The addresses, and where code is.
struct Targets<'q> {
    queries: &'q mut Queries,
    code: Vec<(u64, u64)>,
}

/// Most of a mapped file that stays resident while its units are decoded, bytes.
const MAX_RESIDENT: u64 = 16 << 20;

/// Gives a mapped file's memory back as it is worked through: the debug information of a large
/// program would fill gigabytes otherwise.
struct Resident<'m> {
    map: &'m Mmap,
    touched: u64,
}

impl Resident<'_> {
    /// To be called when about that many bytes were read.
    fn touched(&mut self, bytes: u64) {
        self.touched = self.touched.saturating_add(bytes);
        if self.touched > MAX_RESIDENT {
            files::release(self.map);
            self.touched = 0;
        }
    }
}

impl Targets<'_> {
    /// Indices of the addresses in a range of code. Ranges that start outside of all code
    /// sections belong to functions the linker threw away: empty.
    fn hits(&mut self, start: u64, end: u64) -> Range<usize> {
        if end <= start || range_of(&self.code, start).is_none() {
            return 0..0;
        }
        self.queries.visit(start, end)
    }
}

/// The functions at each of the addresses, innermost first, in the order of the queries. Empty:
/// no unit knows the address. `map` is the file that `sections` were taken from.
pub(crate) fn resolve(
    elf: &Elf<'_>,
    map: &Mmap,
    sections: &Sections<'_>,
    shared: Option<&Sections<'_>>,
    queries: &mut Queries,
) -> Vec<Vec<Frame>> {
    let dwarf = sections.dwarf(shared);
    let mut answers = vec![Vec::new(); queries.len()];
    let mut targets = Targets {
        queries,
        code: elf.code_ranges(),
    };
    let mut resident = Resident { map, touched: 0 };
    let index = units::index(&dwarf, &mut targets, &mut resident);
    let mut names = names::Names::new(&dwarf, &index.headers);
    for (unit, indices) in &index.hit {
        // Several units may claim an address; the first that knows the function is believed.
        let open = |&&i: &&usize| answers[i].first().is_none_or(|f: &Frame| f.name.is_none());
        let open: Vec<usize> = indices.iter().filter(open).copied().collect();
        if !open.is_empty() {
            for (i, frames) in resolve_unit(&dwarf, *unit, &open, &mut targets, &mut names) {
                answers[i] = frames;
            }
            resident.touched(index.length(*unit));
        }
    }
    answers
}

/// The functions at those of the addresses that this unit knows.
fn resolve_unit<'d>(
    dwarf: &Dwarf<'d>,
    offset: gimli::DebugInfoOffset,
    indices: &[usize],
    targets: &mut Targets<'_>,
    names: &mut names::Names<'_, 'd>,
) -> BTreeMap<usize, Vec<Frame>> {
    let unit = dwarf
        .unit_header(offset)
        .and_then(|header| dwarf.unit(header));
    let Ok(unit) = unit else {
        return BTreeMap::new();
    };
    let mut chains = scopes::chains(dwarf, &unit, indices, targets);
    let table = lines::locate(&unit, indices, targets);
    let mut files = lines::Files::new(dwarf, &unit);
    let mut known = HashMap::new();
    let mut answers = BTreeMap::new();
    for &i in indices {
        let mut frames = Vec::new();
        let mut location = table.get(&i).copied().unwrap_or_default();
        // From the inside: each inlined function says where it was called.
        for scope in chains.remove(&i).unwrap_or_default().into_iter().rev() {
            let name = known
                .entry(scope.die)
                .or_insert_with(|| names.of(dwarf, &unit, scope.die));
            frames.push(frame(name.clone(), location, &mut files, scope.inlined));
            location = scope.call;
        }
        if frames.is_empty() && table.contains_key(&i) {
            frames.push(frame(None, location, &mut files, false));
        }
        if !frames.is_empty() {
            answers.insert(i, frames);
        }
    }
    answers
}

fn frame(
    name: Option<Name>,
    at: lines::Location,
    files: &mut lines::Files<'_, '_>,
    inlined: bool,
) -> Frame {
    let file = at.file.and_then(|index| files.path(index));
    Frame {
        name,
        file,
        line: at.line,
        inlined,
    }
}
