//! Which function, and which functions inlined into it, hold an address.
use std::collections::BTreeMap;

use gimli::{AttributeValue, RangeListsOffset, UnitOffset};

use super::lines::Location;
use super::{Dwarf, Slice, Targets, Unit};

/// Deepest chain of inlined functions that is told; compilers stop far earlier.
const MAX_DEPTH: usize = 256;

/// A function that holds an address.
pub(super) struct Scope {
    /// Its entry.
    pub(super) die: UnitOffset,
    /// True when it was inlined.
    pub(super) inlined: bool,
    /// Where it was called, for an inlined one.
    pub(super) call: Location,
    depth: isize,
}

/// For each of the addresses that this unit has a function for, the functions, outermost first.
pub(super) fn chains(
    dwarf: &Dwarf<'_>,
    unit: &Unit<'_>,
    indices: &[usize],
    targets: &mut Targets<'_>,
) -> BTreeMap<usize, Vec<Scope>> {
    let mut chains = BTreeMap::new();
    // Damage ends the walk; what was found before it stands.
    let _ = walk(dwarf, unit, indices, targets, &mut chains);
    chains
}

/// Visits all entries in order, parents before their children.
fn walk(
    dwarf: &Dwarf<'_>,
    unit: &Unit<'_>,
    indices: &[usize],
    targets: &mut Targets<'_>,
    chains: &mut BTreeMap<usize, Vec<Scope>>,
) -> gimli::Result<()> {
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let die = entries.next_offset();
        let depth = entries.next_depth();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        let inlined = match abbreviation.tag() {
            gimli::DW_TAG_subprogram => false,
            gimli::DW_TAG_inlined_subroutine => true,
            _ => {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
        };
        let mut code = Code::default();
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            code.take(dwarf, unit, attribute.name(), attribute.value())?;
        }
        code.for_each(dwarf, unit, |start, end| {
            for i in targets.hits(start, end) {
                if indices.binary_search(&i).is_ok() {
                    enter(
                        chains,
                        i,
                        Scope {
                            die,
                            inlined,
                            call: code.call,
                            depth,
                        },
                    );
                }
            }
        })?;
    }
    Ok(())
}

/// Adds a function to an address' chain.
fn enter(chains: &mut BTreeMap<usize, Vec<Scope>>, index: usize, scope: Scope) {
    if !scope.inlined {
        let chain = chains.entry(index).or_default();
        // A function with code of its own starts the chain anew when it lies inside of the last
        // one. Otherwise two share the code (identical ones are folded): the first stands.
        if chain.first().is_none_or(|outer| scope.depth > outer.depth) {
            chain.clear();
            chain.push(scope);
        }
    } else if let Some(chain) = chains.get_mut(&index)
        && chain.len() < MAX_DEPTH
        && chain.last().is_some_and(|outer| scope.depth > outer.depth)
    {
        chain.push(scope);
    }
}

/// Where the code of a function lies, and where it was inlined.
#[derive(Default)]
struct Code {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    ranges: Option<RangeListsOffset>,
    call: Location,
}

impl Code {
    fn take<'d>(
        &mut self,
        dwarf: &Dwarf<'d>,
        unit: &Unit<'d>,
        name: gimli::DwAt,
        value: AttributeValue<Slice<'d>>,
    ) -> gimli::Result<()> {
        match name {
            gimli::DW_AT_low_pc => self.low = dwarf.attr_address(unit, value)?,
            gimli::DW_AT_high_pc => match value {
                AttributeValue::Udata(size) => self.size = Some(size),
                value => self.high = dwarf.attr_address(unit, value)?,
            },
            gimli::DW_AT_ranges => self.ranges = dwarf.attr_ranges_offset(unit, value)?,
            gimli::DW_AT_call_file => {
                self.call.file = match value {
                    AttributeValue::FileIndex(index) => Some(index),
                    value => value.udata_value(),
                }
            }
            gimli::DW_AT_call_line => {
                let line = value.udata_value().and_then(|l| u32::try_from(l).ok());
                self.call.line = line.filter(|&l| l > 0);
            }
            _ => {}
        }
        Ok(())
    }

    fn for_each<'d>(
        &self,
        dwarf: &Dwarf<'d>,
        unit: &Unit<'d>,
        mut f: impl FnMut(u64, u64),
    ) -> gimli::Result<()> {
        if let Some(offset) = self.ranges {
            let mut ranges = dwarf.ranges(unit, offset)?;
            while let Some(range) = ranges.next()? {
                f(range.begin, range.end);
            }
        } else if let Some(low) = self.low {
            let end = self.high.or_else(|| low.checked_add(self.size?));
            f(low, end.unwrap_or(low));
        }
        Ok(())
    }
}
