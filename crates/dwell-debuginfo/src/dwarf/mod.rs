//! A module's DWARF: its units and entries.
mod entry;
mod index;
mod records;
mod types;
mod variables;

use std::cell::OnceCell;
use std::collections::HashMap;

use gimli::{
    DwarfSections, EndianSlice, LittleEndian, SectionId, UnitHeader, UnitOffset, UnitType,
};

use crate::files::Files;
pub(crate) use entry::Entry;
pub(crate) use index::{Index, Kind, Named};
pub(crate) use types::{Converted, Converter};
pub(crate) use variables::Location;

type Slice<'m> = EndianSlice<'m, LittleEndian>;
type Dwarf<'m> = gimli::Dwarf<Slice<'m>>;
type Unit<'m> = gimli::Unit<Slice<'m>>;

/// Most units of a file that are looked at: ten times those of a large browser.
const MAX_UNITS: usize = 1 << 20;

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    /// In the file that several debug files share.
    shared: bool,
    unit: u32,
    offset: usize,
}

/// The debug information of a module.
pub(crate) struct Debug<'m> {
    dwarf: Dwarf<'m>,
    own: Units<'m>,
    shared: Units<'m>,
    index: OnceCell<Index>,
}

impl<'m> Debug<'m> {
    /// None if the module has no debug information.
    pub(crate) fn open(files: &'m Files) -> Option<Debug<'m>> {
        if files.section(SectionId::DebugInfo).is_empty() {
            return None;
        }
        let own = sections(|id| files.section(id));
        let shared = sections(|id| files.shared_section(id));
        let slice = |data: &&'m [u8]| EndianSlice::new(data, LittleEndian);
        let dwarf = own.borrow_with_sup(Some(&shared), slice);
        let own = Units::read(&dwarf);
        let shared = dwarf.sup().map(Units::read).unwrap_or_default();
        Some(Debug {
            dwarf,
            own,
            shared,
            index: OnceCell::new(),
        })
    }

    /// What has a name.
    pub(crate) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::read(self))
    }

    /// The entry at a place.
    pub(crate) fn entry(&self, place: Place) -> Option<Entry<'_, 'm>> {
        Entry::read(self, place)
    }

    /// The places of the first entries of all units.
    pub(crate) fn roots(&self) -> impl Iterator<Item = Place> {
        let of = |shared, units: &Units<'m>| {
            let headers = units.headers.iter().enumerate();
            let roots = headers.map(move |(unit, header)| Place {
                shared,
                unit: unit as u32,
                offset: header.header_size(),
            });
            roots.collect::<Vec<_>>()
        };
        let both = [of(false, &self.own), of(true, &self.shared)];
        both.into_iter().flatten()
    }

    fn dwarf(&self, shared: bool) -> &Dwarf<'m> {
        match self.dwarf.sup() {
            Some(sup) if shared => sup,
            _ => &self.dwarf,
        }
    }

    fn units(&self, shared: bool) -> &Units<'m> {
        if shared { &self.shared } else { &self.own }
    }

    fn unit(&self, shared: bool, unit: u32) -> Option<&Unit<'m>> {
        let units = self.units(shared);
        let read = || {
            let header = *units.headers.get(unit as usize)?;
            self.dwarf(shared).unit(header).ok()
        };
        units.read.get(unit as usize)?.get_or_init(read).as_ref()
    }
}

fn sections<'m>(section: impl Fn(SectionId) -> &'m [u8]) -> DwarfSections<&'m [u8]> {
    let load = |id| Ok::<_, std::convert::Infallible>(section(id));
    match DwarfSections::load(load) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

/// The units of one file.
#[derive(Default)]
struct Units<'m> {
    headers: Vec<UnitHeader<Slice<'m>>>,
    read: Vec<OnceCell<Option<Unit<'m>>>>,
    /// The first byte of each unit of `.debug_info`, ascending, with its number.
    starts: Vec<(usize, u32)>,
    /// The types that units are made for, by signature.
    signatures: HashMap<u64, (u32, UnitOffset)>,
}

impl<'m> Units<'m> {
    /// Nothing can be found behind a damaged header.
    fn read(dwarf: &Dwarf<'m>) -> Units<'m> {
        let mut units = Units::default();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            units.add(header);
        }
        let mut headers = dwarf.type_units();
        while let Ok(Some(header)) = headers.next() {
            units.add(header);
        }
        units
    }

    fn add(&mut self, header: UnitHeader<Slice<'m>>) {
        if self.headers.len() >= MAX_UNITS {
            return;
        }
        let number = self.headers.len() as u32;
        if let Some(start) = header.debug_info_offset() {
            self.starts.push((start.0, number));
        }
        if let UnitType::Type {
            type_signature,
            type_offset,
        } = header.type_()
        {
            self.signatures
                .insert(type_signature.0, (number, type_offset));
        }
        self.headers.push(header);
        self.read.push(OnceCell::new());
    }

    /// The unit that holds a byte of `.debug_info`, and the byte's place in it.
    fn containing(&self, offset: usize) -> Option<(u32, usize)> {
        let after = self.starts.partition_point(|(start, _)| *start <= offset);
        let (start, number) = *self.starts.get(after.checked_sub(1)?)?;
        Some((number, offset - start))
    }
}
