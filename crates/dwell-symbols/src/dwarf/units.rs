//! Which compilation units hold the addresses.
use std::collections::BTreeMap;
use std::sync::Arc;

use gimli::{Abbreviations, DebugAbbrevOffset, DebugInfoOffset, UnitHeader, UnitType};

use super::{Dwarf, Resident, Slice, Targets, Unit, lines};

/// Most units of one file that are looked at: ten times those of a large browser.
const MAX_UNITS: usize = 1 << 20;

/// Memory that becomes resident when the first entry of a unit is read, bytes: the kernel maps
/// 64 KiB around every page that is touched, in each of four sections.
const HEADER_TOUCHES: u64 = 4 * (64 << 10);

/// The units of a file.
pub(super) struct Index {
    /// Offsets of the headers of all units, ascending.
    pub(super) headers: Vec<DebugInfoOffset>,
    /// For each unit that holds addresses, their indices in the queries.
    pub(super) hit: BTreeMap<DebugInfoOffset, Vec<usize>>,
}

impl Index {
    /// Distance of a unit to the next one, bytes; of the last one, what is usual.
    pub(super) fn length(&self, unit: DebugInfoOffset) -> u64 {
        let next = self.headers.partition_point(|header| header.0 <= unit.0);
        self.headers
            .get(next)
            .map_or(HEADER_TOUCHES, |next| (next.0 - unit.0) as u64)
    }
}

/// Reads the first entry of every unit, which tells the ranges of its code. Units that are
/// damaged hold nothing; nothing can be found behind a damaged header.
pub(super) fn index(
    dwarf: &Dwarf<'_>,
    targets: &mut Targets<'_>,
    resident: &mut Resident<'_>,
) -> Index {
    let mut index = Index {
        headers: Vec::new(),
        hit: BTreeMap::new(),
    };
    let mut abbreviations = LastAbbreviations::default();
    let mut headers = dwarf.units();
    while let (Ok(Some(header)), true) = (headers.next(), index.headers.len() < MAX_UNITS) {
        let Some(offset) = header.debug_info_offset() else {
            continue;
        };
        index.headers.push(offset);
        resident.touched(HEADER_TOUCHES);
        // The others have no code; they are only referred to.
        if !matches!(
            header.type_(),
            UnitType::Compilation | UnitType::Skeleton(_)
        ) {
            continue;
        }
        let mut hits = unit_hits(dwarf, header, &mut abbreviations, targets).unwrap_or_default();
        if !hits.is_empty() {
            hits.sort_unstable();
            hits.dedup();
            index.hit.insert(offset, hits);
        }
    }
    index
}

/// Indices of the addresses in one unit.
fn unit_hits<'d>(
    dwarf: &Dwarf<'d>,
    header: UnitHeader<Slice<'d>>,
    abbreviations: &mut LastAbbreviations,
    targets: &mut Targets<'_>,
) -> gimli::Result<Vec<usize>> {
    let abbreviations = abbreviations.get(dwarf, &header)?;
    let unit = Unit::new_with_abbreviations(dwarf, header, abbreviations)?;
    let mut hits = Vec::new();
    let mut has_ranges = false;
    let mut ranges = dwarf.unit_ranges(&unit)?;
    while let Some(range) = ranges.next()? {
        has_ranges |= range.begin < range.end;
        hits.extend(targets.hits(range.begin, range.end));
    }
    if !has_ranges {
        // Some compilers leave them out; the line table covers the same code.
        let all: Vec<usize> = (0..targets.queries.len()).collect();
        hits.extend(lines::locate(&unit, &all, targets).into_keys());
    }
    Ok(hits)
}

/// The abbreviations read last: units often share them.
#[derive(Default)]
struct LastAbbreviations(Option<(DebugAbbrevOffset, Arc<Abbreviations>)>);

impl LastAbbreviations {
    fn get<'d>(
        &mut self,
        dwarf: &Dwarf<'d>,
        header: &UnitHeader<Slice<'d>>,
    ) -> gimli::Result<Arc<Abbreviations>> {
        let offset = header.debug_abbrev_offset();
        if let Some((last, abbreviations)) = &self.0
            && *last == offset
        {
            return Ok(abbreviations.clone());
        }
        let abbreviations = dwarf.abbreviations(header)?;
        self.0 = Some((offset, abbreviations.clone()));
        Ok(abbreviations)
    }
}
