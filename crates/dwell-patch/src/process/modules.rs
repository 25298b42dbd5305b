//! The files of a process and the functions that are wanted of them.
use super::PatchError;
use super::space::{Mapping, Space};
use crate::Hook;
use crate::plan::{Image, Place, Request, parts};
use dwell_elf::ElfFile;
use memmap2::Mmap;
use std::collections::HashMap;
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

impl Probe {
    /// Whether the hook can be at such a place at all.
    pub(super) fn is_possible(&self) -> bool {
        !matches!(self.hook, Hook::Inline(_)) || matches!(self.place, Place::Entry | Place::Head)
    }
}

/// A file that a process runs code of.
pub struct Module {
    pub(super) path: String,
    pub(super) bias: u64,
    /// Actual addresses of its code.
    pub(super) code: Range<u64>,
    data: Mmap,
}

/// The files that a process runs code of, by address.
pub fn modules(pid: i32) -> Result<Vec<Module>, PatchError> {
    let space = Space::open(pid)?;
    Module::all(&space, &space.mappings()?, |_| true)
}

impl Module {
    /// Its path, as the process sees it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What an actual address exceeds its stated one by.
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// Those of a process whose paths are wanted, by address.
    pub(super) fn all(
        space: &Space,
        mappings: &[Mapping],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Module>, PatchError> {
        let mut modules: Vec<Module> = Vec::new();
        let mut seen: Vec<(u64, u64, u64)> = Vec::new();
        for mapping in mappings.iter().filter(|m| m.executable && m.inode != 0) {
            if !is_wanted(mapping.file()) {
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
            let identity = (mapping.inode, mapping.device, bias);
            match seen.iter().position(|s| *s == identity) {
                Some(known) => {
                    let code = &mut modules[known].code;
                    code.start = code.start.min(mapping.start);
                    code.end = code.end.max(mapping.end);
                }
                None => {
                    seen.push(identity);
                    let path = mapping.file().to_owned();
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

    /// What the file holds.
    pub fn image(&self) -> Result<Image<'_>, PatchError> {
        Image::parse(&self.data).map_err(|error| PatchError::Elf {
            path: self.path.clone(),
            error,
        })
    }

    /// Bytes of the file at a stated address; none where there are fewer.
    pub(super) fn bytes(&self, stated: u64, len: usize) -> Vec<u8> {
        let file = ElfFile::parse(&self.data).ok();
        let found = file.and_then(|f| f.bytes_at(stated, len).map(<[u8]>::to_vec));
        found.unwrap_or_default()
    }

    /// What the probes want of this file: index of the probe and the request. `ret`s are those of all
    /// parts of the function.
    pub(super) fn requests(&self, image: &Image<'_>, probes: &[Probe]) -> Vec<(usize, Request)> {
        let mut requests = Vec::new();
        let mut rets: HashMap<u64, Vec<usize>> = HashMap::new();
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
            if probe.place == Place::Rets {
                functions = functions.iter().flat_map(|&f| parts(image, f)).collect();
            }
            functions.sort_unstable();
            functions.dedup();
            let place = probe.place;
            for function in functions {
                // A part that several probes lead to is the first one's.
                if place == Place::Rets {
                    let known = rets.entry(function).or_default();
                    if known.iter().any(|other| probes[*other].hook == probe.hook) {
                        continue;
                    }
                    known.push(index);
                }
                requests.push((index, Request { function, place }));
            }
        }
        requests
    }
}
