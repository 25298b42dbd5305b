//! Files with code: which copy of it is still here, where its bytes stood, and how its stacks unwind.
use super::file::PerfFile;
use super::file::hex;
use super::records::Mapped;
use dwell_elf::step::UnwindInfo;
use dwell_elf::unwind::{self, CfiSections};
use dwell_elf::{ElfFile, Segment};
use dwell_symbols::{Module as Named, Symbolizer};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file with code.
pub struct Module {
    /// As the process saw it, or a name in brackets.
    pub path: String,
    /// Hex: as recorded, else that of the file that is here now; empty when it has none.
    pub build_id: String,
    /// Where the file, or perf's copy of it, can be read now.
    pub file: Option<PathBuf>,
    /// Memory without a file: compilers at run time write there.
    pub is_anonymous: bool,
    segments: Vec<Segment>,
    unwind: OnceCell<Option<UnwindInfo<'static>>>,
}

impl Module {
    /// Actual minus stated address of a mapping; without the file, addresses count from its start.
    fn bias(&self, start: u64, file_offset: u64) -> u64 {
        const PAGE: u64 = 4096;
        let covers = |s: &&Segment| {
            let first = s.file_offset & !(PAGE - 1);
            (first..s.file_offset.saturating_add(s.file_size)).contains(&file_offset)
        };
        let segment = self.segments.iter().filter(|s| s.executable).find(covers);
        let stated = segment.map_or(file_offset, |s| {
            s.stated_address
                .wrapping_add(file_offset.wrapping_sub(s.file_offset))
        });
        start.wrapping_sub(stated)
    }

    /// As the symbolizer wants it; none when no copy is here.
    pub fn named<'m>(&'m self, build_id: &'m [u8]) -> Option<Named<'m>> {
        Some(Named {
            file: self.file.as_deref()?,
            path: &self.path,
            build_id: (!build_id.is_empty()).then_some(build_id),
            root: None,
        })
    }

    /// How its stacks unwind; read when first asked for.
    pub fn unwind(&self, symbolizer: &Symbolizer) -> Option<&UnwindInfo<'static>> {
        let read = |bytes: &[u8]| {
            let elf = ElfFile::parse(bytes).ok()?;
            let sections = CfiSections::find(&elf);
            let table = unwind::compile_with(&elf, &sections).ok()?;
            Some(UnwindInfo::with_table(
                sections.into_owned(),
                Arc::new(table),
            ))
        };
        let load = || {
            let build_id = from_hex(&self.build_id);
            symbolizer.file(&self.named(&build_id)?, read)?
        };
        self.unwind.get_or_init(load).as_ref()
    }
}

/// Every file with code.
pub struct Modules {
    modules: Vec<Module>,
    by_file: FxHashMap<(String, String), usize>,
    /// Build ids that the file tells, by path.
    recorded: FxHashMap<String, String>,
    cache: Option<PathBuf>,
    /// Files that were here but are another build, or of which no build id was recorded.
    pub replaced: Vec<String>,
}

impl Modules {
    /// Of a file; `cache` is where perf keeps copies.
    pub fn of(file: &PerfFile, cache: Option<PathBuf>) -> Self {
        let recorded = file.build_ids.iter();
        Modules {
            modules: Vec::new(),
            by_file: FxHashMap::default(),
            recorded: recorded
                .map(|b| (b.path.clone(), b.build_id.clone()))
                .collect(),
            cache,
            replaced: Vec::new(),
        }
    }

    /// The module with this number.
    pub fn get(&self, module: usize) -> &Module {
        &self.modules[module]
    }

    /// The build id that was recorded for a path.
    pub fn recorded(&self, path: &str) -> Option<&str> {
        self.recorded.get(path).map(String::as_str)
    }

    /// The module that is mapped, and the bias of this mapping.
    pub fn mapped(&mut self, mapped: &Mapped, symbolizer: &Symbolizer) -> (usize, u64) {
        let build_id = match mapped.build_id.as_str() {
            "" => self.recorded(&mapped.path).unwrap_or_default(),
            known => known,
        };
        let key = (mapped.path.clone(), build_id.to_owned());
        let module = match self.by_file.get(&key) {
            Some(module) => *module,
            None => {
                let module = self.find(&key.0, &key.1, symbolizer);
                self.modules.push(module);
                self.by_file.insert(key, self.modules.len() - 1);
                self.modules.len() - 1
            }
        };
        let bias = self.modules[module].bias(mapped.start, mapped.file_offset);
        (module, bias)
    }

    /// Looks for the file, then for perf's copy.
    fn find(&mut self, path: &str, build_id: &str, symbolizer: &Symbolizer) -> Module {
        let is_anonymous = is_anonymous(path);
        let mut module = Module {
            path: if is_anonymous { "[anon]" } else { path }.into(),
            build_id: build_id.into(),
            file: None,
            is_anonymous,
            segments: Vec::new(),
            unwind: OnceCell::new(),
        };
        let wanted = from_hex(build_id);
        let mut candidates = Vec::new();
        if Path::new(path).is_absolute() && !is_anonymous {
            candidates.push(PathBuf::from(path));
        }
        candidates.extend(self.copies(path, build_id));
        for candidate in candidates {
            let named = Named {
                file: &candidate,
                path,
                build_id: (!wanted.is_empty()).then_some(&wanted),
                root: None,
            };
            let read = |bytes: &[u8]| {
                let elf = ElfFile::parse(bytes).ok()?;
                let build_id = hex(elf.build_id().unwrap_or_default());
                Some((build_id, elf.segments().collect()))
            };
            if let Some((found, segments)) = symbolizer.file(&named, read).flatten() {
                module.build_id = found;
                module.segments = segments;
                module.file = Some(candidate);
                return module;
            }
            if candidate.exists() {
                self.replaced.push(path.into());
            }
        }
        module
    }

    /// Where perf may have a copy: `~/.debug/.build-id/ab/cdef…/elf`.
    fn copies(&self, path: &str, build_id: &str) -> Option<PathBuf> {
        let (first, rest) = build_id.split_at_checked(2)?;
        let name = if path == "[vdso]" { "vdso" } else { "elf" };
        let cache = self.cache.as_ref()?;
        Some(cache.join(".build-id").join(first).join(rest).join(name))
    }
}

/// Memory that no file stands for, as perf names it.
fn is_anonymous(path: &str) -> bool {
    [
        "//anon",
        "[heap]",
        "[stack",
        "[anon",
        "/dev/zero",
        "/memfd:",
        "/SYSV",
        "/anon_hugepage",
    ]
    .iter()
    .any(|prefix| path.starts_with(prefix))
}

/// Hex into bytes; what is no hex counts as 0.
pub fn from_hex(text: &str) -> Vec<u8> {
    let digit = |b: u8| char::from(b).to_digit(16).unwrap_or(0) as u8;
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter();
    bytes
        .map(|[high, low]| digit(*high) << 4 | digit(*low))
        .collect()
}
