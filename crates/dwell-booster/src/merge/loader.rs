//! What the loader is told: which libraries, which versions of them.
use super::Merge;
use super::exports::{Export, defined_versions};
use super::versions::VersionTables;
use crate::Refusal;
use crate::module::Module;
use crate::selection::LIBC;
use crate::values::Values;
use dwell_elf::LOADER_FOLDERS;
use std::collections::HashSet;

/// The version by which libc says that its loader knows `DT_RELR`.
const PACKED: &str = "GLIBC_ABI_DT_RELR";
/// A symbol names its version by 15 bits.
const MAX_VERSIONS: usize = 32_000;

/// How the loader finds a library that stays: by name in its usual folders, by path elsewhere.
pub(crate) fn needed_name<'a>(module: &'a Module<'_>) -> &'a str {
    let folder = module
        .path
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    match LOADER_FOLDERS.contains(&folder) {
        true => &module.name,
        false => &module.path,
    }
}

impl Merge<'_, '_> {
    /// The libraries that stay, in the original order of lookup.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Module<'_>> {
        let all = self.closure.modules.iter().zip(&self.layout.bases);
        all.filter(|(_, base)| base.is_none()).map(|(m, _)| m)
    }

    /// Whether relocations can be packed: the addresses change, and the loader knows `DT_RELR`.
    pub(crate) fn packs_relocations(&self) -> bool {
        let mut all = self.closure.modules.iter();
        !self.layout.fixed && all.any(|m| m.name == LIBC && m.versions.defined.contains(PACKED))
    }

    /// The version tables for these imports and exports.
    pub(crate) fn versions(
        &self,
        values: &Values,
        exports: &[Export<'_>],
    ) -> Result<VersionTables, Refusal> {
        let merged = self.layout.merged().map(|(i, _)| &self.closure.modules[i]);
        let defined = defined_versions(merged);
        let imports = values.imports.iter().filter_map(|i| i.version.as_ref());
        let imports = imports.map(|(name, file)| (name.as_str(), file.as_str()));
        let is_kept = |file: &str| self.kept().any(|m| m.name == file);
        let copies = exports.iter().filter_map(|e| e.version);
        let copies = copies.filter_map(|(name, file)| Some((name, file?)));
        let copies = copies.filter(|(_, file)| is_kept(file));
        let packed = (self.packs_relocations() && is_kept(LIBC)).then_some((PACKED, LIBC));
        let needed: Vec<(&str, &str)> = imports.chain(copies).chain(packed).collect();
        if defined.len() + needed.iter().collect::<HashSet<_>>().len() > MAX_VERSIONS {
            let program = &self.closure.modules[0];
            return Err(Refusal::unsupported(
                &program.path,
                "it has more than 32 000 symbol versions",
            ));
        }
        Ok(VersionTables::new(
            &self.soname,
            &defined,
            needed.into_iter(),
        ))
    }
}
