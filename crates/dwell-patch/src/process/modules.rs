//! The files of a process and the functions that are wanted of them.
use super::PatchError;
use super::space::{Mapping, Space};
use crate::Hook;
use crate::plan::{Image, Place, Request};
use dwell_elf::ElfFile;
use memmap2::Mmap;
use std::ops::Range;

/// A function of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionAt {
    /// By the name in its symbol table; all of that name.
    Name(String),
    /// By its stated address.
    Address(u64),
}

/// What to do where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// How the path of the file ends; every path ends with the empty one.
    pub file: String,
    /// The function.
    pub function: FunctionAt,
    /// Where in it.
    pub place: Place,
    /// What to do.
    pub hook: Hook,
}

/// A file that a process runs code of.
pub(super) struct Module {
    pub path: String,
    pub bias: u64,
    /// Actual addresses of its code.
    pub code: Range<u64>,
    data: Mmap,
}

impl Module {
    /// All of a process, by address.
    pub fn all(
        space: &Space,
        mappings: &[Mapping],
        wanted: &[Probe],
    ) -> Result<Vec<Module>, PatchError> {
        let mut modules: Vec<Module> = Vec::new();
        let mut seen: Vec<(u64, &str, u64)> = Vec::new();
        for mapping in mappings.iter().filter(|m| m.executable && m.inode != 0) {
            if !wanted.iter().any(|p| path_of(mapping).ends_with(&p.file)) {
                continue;
            }
            // A file that cannot be opened or parsed (a device, a font) holds no functions.
            let Ok(file) = space.open_mapped(mapping) else {
                continue;
            };
            // SAFETY: the file is one that the target runs; who rewrites such a file in place breaks
            // the target as well.
            let Ok(data) = (unsafe { Mmap::map(&file) }) else {
                continue;
            };
            let Some(bias) = ElfFile::parse(&data)
                .ok()
                .and_then(|elf| elf.mapping_bias(mapping.start, mapping.file_offset))
            else {
                continue;
            };
            let identity = (mapping.inode, mapping.device.as_str(), bias);
            match seen.iter().position(|s| *s == identity) {
                Some(known) => {
                    let code = &mut modules[known].code;
                    code.start = code.start.min(mapping.start);
                    code.end = code.end.max(mapping.end);
                }
                None => {
                    seen.push(identity);
                    let path = path_of(mapping).to_owned();
                    modules.push(Module {
                        path,
                        bias,
                        code: mapping.start..mapping.end,
                        data,
                    });
                }
            }
        }
        Ok(modules)
    }

    pub fn image(&self) -> Result<Image<'_>, PatchError> {
        Image::parse(&self.data).map_err(|error| PatchError::Elf {
            path: self.path.clone(),
            error,
        })
    }

    /// Bytes of the file at a stated address; fewer where there are none.
    pub fn bytes(&self, stated: u64, len: usize) -> Vec<u8> {
        let file = ElfFile::parse(&self.data).ok();
        let found = file.and_then(|f| f.bytes_at(stated, len).map(<[u8]>::to_vec));
        found.unwrap_or_default()
    }

    /// What the probes want of this file: index of the probe and the request.
    pub fn requests(&self, image: &Image<'_>, probes: &[Probe]) -> Vec<(usize, Request)> {
        let mut requests = Vec::new();
        for (index, probe) in probes.iter().enumerate() {
            if !self.path.ends_with(&probe.file) {
                continue;
            }
            let mut functions: Vec<u64> = match &probe.function {
                FunctionAt::Address(address) => vec![*address],
                FunctionAt::Name(name) => image
                    .symbols()
                    .filter(|s| s.name == name.as_bytes())
                    .map(|s| s.address)
                    .collect(),
            };
            functions.sort_unstable();
            functions.dedup();
            let place = probe.place;
            requests.extend(
                functions
                    .into_iter()
                    .map(|function| (index, Request { function, place })),
            );
        }
        requests
    }
}

fn path_of(mapping: &Mapping) -> &str {
    mapping
        .path
        .strip_suffix(" (deleted)")
        .unwrap_or(&mapping.path)
}
