//! The merged version tables: what the file defines, and what it needs of which library.
use super::strings::Strings;
use object::elf;
use std::collections::BTreeMap;

/// Version indices and the tables that define them.
#[derive(Debug)]
pub(crate) struct VersionTables {
    soname: String,
    defined: BTreeMap<String, u16>,
    /// Library, then version.
    needed: BTreeMap<String, BTreeMap<String, u16>>,
}

/// Index 2 stays free: a reference without version would take it for the oldest version.
const FIRST: u16 = 3;

impl VersionTables {
    /// `needed`: (version, library).
    pub(crate) fn new<'a>(
        soname: &str,
        defined: &[&str],
        needed: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut tables = VersionTables {
            soname: soname.to_owned(),
            defined: BTreeMap::new(),
            needed: BTreeMap::new(),
        };
        for (index, name) in (FIRST..).zip(defined) {
            tables.defined.insert((*name).to_owned(), index);
        }
        for (version, file) in needed {
            let versions = tables.needed.entry(file.to_owned()).or_default();
            versions.insert(version.to_owned(), 0);
        }
        let all = tables.needed.values_mut().flat_map(|v| v.values_mut());
        for (index, slot) in (FIRST + defined.len() as u16..).zip(all) {
            *slot = index;
        }
        tables
    }

    /// The index of a version; 1, the file itself, for one that is in neither table.
    pub(crate) fn index(&self, name: &str, file: Option<&str>) -> u16 {
        let needed = file.and_then(|f| self.needed.get(f)?.get(name));
        let index = needed.or_else(|| self.defined.get(name));
        index.copied().unwrap_or(1)
    }

    /// How many definitions there are, with the one that names the file.
    pub(crate) fn defined_len(&self) -> usize {
        self.defined.len() + 1
    }

    /// How many libraries versions are needed of.
    pub(crate) fn needed_len(&self) -> usize {
        self.needed.len()
    }

    /// `.gnu.version_d`.
    pub(crate) fn definitions(&self, strings: &mut Strings) -> Vec<u8> {
        const RECORD: u32 = 20;
        const NAME: u32 = 8;
        let mut all: Vec<(&str, u16)> = vec![(&self.soname, 1)];
        all.extend(self.defined.iter().map(|(n, &i)| (n.as_str(), i)));
        let mut bytes = Vec::new();
        for (number, &(name, index)) in all.iter().enumerate() {
            let flags = u16::from(index == 1);
            let last = number + 1 == all.len();
            for half in [1u16, flags, index, 1] {
                bytes.extend(half.to_le_bytes());
            }
            let next = if last { 0 } else { RECORD + NAME };
            for word in [
                elf::hash(name.as_bytes()),
                RECORD,
                next,
                strings.add(name.as_bytes()),
                0,
            ] {
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes
    }

    /// `.gnu.version_r`.
    pub(crate) fn needs(&self, strings: &mut Strings) -> Vec<u8> {
        const RECORD: u32 = 16;
        let mut bytes = Vec::new();
        for (number, (file, versions)) in self.needed.iter().enumerate() {
            let count = versions.len() as u16;
            let last = number + 1 == self.needed.len();
            let next = if last {
                0
            } else {
                RECORD * (1 + u32::from(count))
            };
            bytes.extend(1u16.to_le_bytes());
            bytes.extend(count.to_le_bytes());
            for word in [strings.add(file.as_bytes()), RECORD, next] {
                bytes.extend(word.to_le_bytes());
            }
            for (at, (name, index)) in versions.iter().enumerate() {
                let next = if at + 1 == versions.len() { 0 } else { RECORD };
                bytes.extend(elf::hash(name.as_bytes()).to_le_bytes());
                bytes.extend(0u16.to_le_bytes());
                bytes.extend(index.to_le_bytes());
                bytes.extend(strings.add(name.as_bytes()).to_le_bytes());
                bytes.extend(next.to_le_bytes());
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hash_of_a_version() {
        // As `readelf -V -W` and the linker have it for glibc's first version.
        assert_eq!(object::elf::hash(b"GLIBC_2.2.5"), 0x0969_1a75);
    }
}
