//! Modules: files mapped executable, each read once and shared by all processes that map it.
use crate::cells::Cells;
use crate::error::CollectError;
use crate::roots::Root;
use crate::table_cache::TableCache;
use crate::unwind_maps::UnwindMaps;
use dwell_abi::events::{MAX_TABLES, ModuleTable, TABLE_FRAME_POINTER, TABLE_NOT_READY};
use dwell_elf::step::UnwindInfo;
use dwell_elf::unwind::{self, CfiSections, UnwindTable};
use dwell_elf::{ElfError, ElfFile, Segment};
use hashbrown::HashMap;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use std::cell::OnceCell;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// Number of a module in this recording.
pub type ModuleId = u32;

/// What is known of a file mapped executable.
pub struct Module {
    /// Path as the first process that mapped it saw it.
    pub path: String,
    /// Build id, empty when the file has none.
    pub build_id: Vec<u8>,
    /// Index of its table in the kernel, or `TABLE_FRAME_POINTER`.
    pub table: u32,
    /// First stated address the table covers.
    pub text_start: u64,
    /// Root of the first process that mapped it, if that is not ours.
    pub root: Option<Arc<Root>>,
    segments: Vec<Segment>,
    /// Open as long as we run: it stays readable when it is deleted, replaced, or out of sight in
    /// another mount namespace.
    file: File,
    unwind_info: OnceCell<Option<UnwindInfo<'static>>>,
    /// The compiled table, if it is kept: to compile that of a large program takes half a second.
    kept: Option<Arc<UnwindTable>>,
}

/// Bytes of compiled tables that are kept at most.
const MOST_KEPT: usize = 16 << 20;

impl Module {
    /// Stated address of a byte of an executable mapping of the file. Mappings begin at page
    /// boundaries, so the first page can hold the end of the segment before: executable ones go first. A file in a
    /// format of its own (the core of a Lisp) states no addresses: its offsets stand for them.
    pub fn stated_address(&self, file_offset: u64) -> Option<u64> {
        if self.segments.is_empty() {
            return Some(file_offset);
        }
        let page_end = |at: u64| at.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let holds = |s: &&Segment| {
            let first = s.file_offset & !(PAGE - 1);
            file_offset >= first
                && file_offset < page_end(s.file_offset.saturating_add(s.file_size))
        };
        let mut executable = self.segments.iter().filter(|s| s.executable);
        let segment = executable
            .find(holds)
            .or_else(|| self.segments.iter().find(holds))?;
        Some(
            segment
                .stated_address
                .wrapping_add(file_offset)
                .wrapping_sub(segment.file_offset),
        )
    }

    /// Offset in the file of code at these stated addresses, whole pages of one segment; none where the file has no code.
    pub fn code_offset(&self, stated: Range<u64>) -> Option<u64> {
        let pages_end = |s: &Segment| {
            let end = s.stated_address.checked_add(s.file_size)?;
            end.checked_next_multiple_of(PAGE)
        };
        let holds = |s: &&Segment| {
            s.executable
                && stated.start >= s.stated_address & !(PAGE - 1)
                && pages_end(s).is_some_and(|end| stated.end <= end)
        };
        let segment = self.segments.iter().find(holds)?;
        let within = stated.start.wrapping_sub(segment.stated_address);
        Some(segment.file_offset.wrapping_add(within))
    }

    /// Whether a stated address lies in data that the program can write.
    pub fn has_data(&self, stated: u64) -> bool {
        let mut data = self.segments.iter().filter(|s| s.writable);
        data.any(|s| (s.stated_address..s.stated_end()).contains(&stated))
    }

    /// A path by which this process can read the file now, however it is called elsewhere.
    pub fn readable_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// What its dynamic symbols define, of those with wanted names: their stated addresses.
    pub fn symbols(&self, is_wanted: impl Fn(&str) -> bool) -> HashMap<String, u64> {
        let found = || {
            let bytes = map_file(&self.file)?;
            let file = ElfFile64::<Endianness>::parse(&*bytes).ok()?;
            let named = file.dynamic_symbols().filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| is_wanted(name))?;
                symbol
                    .is_definition()
                    .then(|| (name.to_owned(), symbol.address()))
            });
            Some(named.collect())
        };
        found().unwrap_or_default()
    }

    /// See [`CfiSections::parts_of_function`].
    pub fn parts_of_function(&self, stated: u64) -> Vec<Range<u64>> {
        let parts = || {
            let bytes = map_file(&self.file)?;
            let elf = ElfFile::parse(&bytes).ok()?;
            let parts = CfiSections::find(&elf).parts_of_function(&elf, stated);
            Some(parts.iter().map(|part| part.start..part.end).collect())
        };
        parts().unwrap_or_default()
    }

    /// Full unwind information for stacks that the kernel side could not finish; read on first use.
    pub fn unwind_info(&self) -> Option<&UnwindInfo<'static>> {
        self.unwind_info
            .get_or_init(|| {
                let bytes = map_file(&self.file)?;
                let elf = ElfFile::parse(&bytes).ok()?;
                let sections = CfiSections::find(&elf);
                let table = match &self.kept {
                    Some(table) => table.clone(),
                    None => Arc::new(unwind::compile_with(&elf, &sections).ok()?),
                };
                Some(UnwindInfo::with_table(sections.into_owned(), table))
            })
            .as_ref()
    }
}

/// Maps a file to read it; none that is empty. Privately: what the kernel tells of its types can be mapped in no other way.
pub fn map_file(file: &File) -> Option<memmap2::Mmap> {
    // SAFETY: the file is only read, by parsers that hold for any contents. Another process could
    // truncate it while we read, which raises SIGBUS: the command handles it (what is gone reads
    // as zeros).
    unsafe { memmap2::MmapOptions::new().map_copy_read_only(file) }.ok()
}

#[derive(PartialEq, Eq, Hash)]
struct FileKey {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
}

/// All modules.
#[derive(Default)]
pub struct Modules {
    modules: Vec<Module>,
    by_file: HashMap<FileKey, ModuleId>,
    vdso: Option<ModuleId>,
    cells: Cells,
    cache: TableCache,
    /// Bytes of compiled tables that are kept.
    kept_bytes: usize,
    /// Modules whose unwind information could not be read, with why.
    pub problems: Vec<String>,
}

impl Modules {
    /// None yet. Tables that took long to compile are kept for the next time.
    pub fn new() -> Self {
        Modules {
            cache: TableCache::open(),
            ..Modules::default()
        }
    }

    /// The module with this number.
    pub fn get(&self, id: ModuleId) -> &Module {
        &self.modules[id as usize]
    }

    /// The number that the next new module gets.
    pub fn next_id(&self) -> ModuleId {
        self.modules.len() as ModuleId
    }

    /// Tells in which root a new module was found.
    pub fn set_root(&mut self, id: ModuleId, root: Option<Arc<Root>>) {
        self.modules[id as usize].root = root;
    }

    /// The module of an open file; reads it when it is new.
    pub fn of_file(
        &mut self,
        maps: &UnwindMaps,
        file: File,
        path: &str,
    ) -> Result<ModuleId, CollectError> {
        let meta = file
            .metadata()
            .map_err(|e| CollectError::from_io(format!("reading {path}"), e, ""))?;
        let key = FileKey {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.len(),
            modified_ns: i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()),
        };
        if let Some(&id) = self.by_file.get(&key) {
            return Ok(id);
        }
        let bytes = map_file(&file);
        let bytes = bytes.as_deref().unwrap_or_default();
        let id = self.add(maps, path, bytes, file, Some(&meta))?;
        self.by_file.insert(key, id);
        Ok(id)
    }

    /// The module of the vDSO, read from a process' memory once: it is the same in all.
    pub fn vdso(
        &mut self,
        maps: &UnwindMaps,
        read: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Result<Option<ModuleId>, CollectError> {
        if self.vdso.is_none()
            && let Some(image) = read()
        {
            let file = memory_file(&image)
                .map_err(|e| CollectError::from_io("keeping the vDSO", e, ""))?;
            self.vdso = Some(self.add(maps, "[vdso]", &image, file, None)?);
        }
        Ok(self.vdso)
    }

    fn add(
        &mut self,
        maps: &UnwindMaps,
        path: &str,
        bytes: &[u8],
        file: File,
        meta: Option<&Metadata>,
    ) -> Result<ModuleId, CollectError> {
        let id = self.next_id();
        let mut module = Module {
            path: path.into(),
            build_id: Vec::new(),
            table: TABLE_FRAME_POINTER,
            text_start: 0,
            root: None,
            segments: Vec::new(),
            file,
            unwind_info: OnceCell::new(),
            kept: None,
        };
        match ElfFile::parse(bytes) {
            Ok(elf) => {
                module.build_id = elf.build_id().unwrap_or_default().to_vec();
                module.segments = elf.segments().collect();
                let compiled = self.cache.table(meta, || unwind::compile(&elf));
                self.load_table(maps, id, compiled, &mut module)?;
            }
            Err(error) => self.problems.push(format!("{path}: {error}")),
        }
        self.modules.push(module);
        Ok(id)
    }

    fn load_table(
        &mut self,
        maps: &UnwindMaps,
        id: ModuleId,
        compiled: Result<UnwindTable, ElfError>,
        module: &mut Module,
    ) -> Result<(), CollectError> {
        let table = match compiled {
            Ok(table) if !table.rows.is_empty() => table,
            Ok(_) => return Ok(()),
            Err(error) => {
                self.problems.push(format!("{}: {error}", module.path));
                return Ok(());
            }
        };
        if id >= MAX_TABLES {
            module.table = TABLE_NOT_READY;
            self.problems
                .push(format!("{}: more than {MAX_TABLES} modules", module.path));
            return Ok(());
        }
        let place: ModuleTable = self.cells.add(maps, &table)?;
        let words = [
            place.index_cell,
            place.index_len,
            place.rules_cell,
            place.rules_len,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        maps.set_table(id, &bytes)?;
        module.table = id;
        module.text_start = table.text_start;
        if self.kept_bytes + table.size() <= MOST_KEPT {
            self.kept_bytes += table.size();
            module.kept = Some(Arc::new(table));
        }
        Ok(())
    }
}

/// A file that exists only in memory.
fn memory_file(bytes: &[u8]) -> io::Result<File> {
    // SAFETY: the name is a NUL-terminated string; the descriptor that comes back is ours alone.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"dwell-vdso".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.write_all(bytes)?;
    Ok(file)
}
