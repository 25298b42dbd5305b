//! Source lines of addresses, and the paths of source files.
use std::collections::{BTreeMap, HashMap};

use gimli::{FileEntry, LineProgramHeader};

use super::{Dwarf, Slice, Targets, Unit};

/// A place in the source.
#[derive(Clone, Copy, Default)]
pub(super) struct Location {
    /// Number of the file in the unit's table.
    pub(super) file: Option<u64>,
    pub(super) line: Option<u32>,
}

/// The source line of each of the addresses that the unit's line table covers.
pub(super) fn locate(
    unit: &Unit<'_>,
    indices: &[usize],
    targets: &mut Targets<'_>,
) -> BTreeMap<usize, Location> {
    let mut found = BTreeMap::new();
    // Damage ends the walk; what was found before it stands.
    let _ = walk(unit, indices, targets, &mut found);
    found
}

/// Runs the line program. Each row holds up to the address of the next one.
fn walk(
    unit: &Unit<'_>,
    indices: &[usize],
    targets: &mut Targets<'_>,
    found: &mut BTreeMap<usize, Location>,
) -> gimli::Result<()> {
    let Some(program) = unit.line_program.clone() else {
        return Ok(());
    };
    let mut rows = program.rows();
    let mut last: Option<(u64, Location)> = None;
    // A sequence that starts outside of all code belongs to functions that were thrown away,
    // even where it runs on into addresses of others.
    let mut sequence_start = None;
    while let Some((_, row)) = rows.next_row()? {
        let address = row.address();
        let start = *sequence_start.get_or_insert(address);
        if let Some((from, location)) = last
            && from < address
            && crate::elf::range_of(&targets.code, start).is_some()
        {
            for i in targets.hits(from, address) {
                if indices.binary_search(&i).is_ok() {
                    found.entry(i).or_insert(location);
                }
            }
        }
        if row.end_sequence() {
            last = None;
            sequence_start = None;
        } else {
            let line = row.line().and_then(|l| u32::try_from(l.get()).ok());
            last = Some((
                address,
                Location {
                    file: Some(row.file_index()),
                    line,
                },
            ));
        }
    }
    Ok(())
}

/// The files of one unit.
pub(super) struct Files<'u, 'd> {
    dwarf: &'u Dwarf<'d>,
    unit: &'u Unit<'d>,
    paths: HashMap<u64, Option<String>>,
}

impl<'u, 'd> Files<'u, 'd> {
    pub(super) fn new(dwarf: &'u Dwarf<'d>, unit: &'u Unit<'d>) -> Self {
        Self {
            dwarf,
            unit,
            paths: HashMap::new(),
        }
    }

    /// Path of the file with this number.
    pub(super) fn path(&mut self, index: u64) -> Option<String> {
        if let Some(known) = self.paths.get(&index) {
            return known.clone();
        }
        let path = self.render(index);
        self.paths.insert(index, path.clone());
        path
    }

    fn render(&self, index: u64) -> Option<String> {
        let header = self.unit.line_program.as_ref()?.header();
        let entry = header.file(index)?;
        let mut path = self.unit.comp_dir.map(text).unwrap_or_default();
        if let Some(directory) = directory(entry, header) {
            push(
                &mut path,
                &text(self.dwarf.attr_string(self.unit, directory).ok()?),
            );
        }
        push(
            &mut path,
            &text(self.dwarf.attr_string(self.unit, entry.path_name()).ok()?),
        );
        Some(path)
    }
}

/// The directory of a file, unless it is that of the unit.
fn directory<'d>(
    entry: &FileEntry<Slice<'d>>,
    header: &LineProgramHeader<Slice<'d>>,
) -> Option<gimli::AttributeValue<Slice<'d>>> {
    (entry.directory_index() != 0)
        .then(|| entry.directory(header))
        .flatten()
}

fn text(slice: Slice<'_>) -> String {
    slice.to_string_lossy().into_owned()
}

/// Appends to a path; an absolute part replaces it.
fn push(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}
