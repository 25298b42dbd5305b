//! One place that knows all sources of names and their order.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dwell_elf::ElfFile;
use dwell_elf::unwind::CfiSections;
use memmap2::Mmap;
use object::{Object, ObjectSection};

use crate::debug_data::DebugData;
use crate::debug_files::{self, Places};
use crate::debuginfod::{Client, Debuginfod};
use crate::demangle::{Demangled, demangle, is_mangled};
use crate::dwarf::{self, Frame, Name, Sections};
use crate::elf::Elf;
use crate::files;
use crate::jit::{self, JitProcess};
use crate::kernel::KernelSymbols;
use crate::minidebug;
use crate::notes::Notes;
use crate::plt;
use crate::queries::Queries;
use crate::symtab::Names;
use crate::variables::{self, Variable};

/// Most modules named in the note about missing debug information.
const MAX_NAMED_MODULES: usize = 4;

/// A function at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, demangled in full.
    pub function: String,
    /// Source file, where something tells it.
    pub file: Option<String>,
    /// Source line: of the address itself in the innermost function, of the call in the others.
    pub line: Option<u32>,
    /// True when it was inlined into the function that follows.
    pub inlined: bool,
}

/// A file with code, as it was mapped by a process.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// Where it can be read now: `/proc/PID/map_files/A-B`, `/proc/PID/root/usr/bin/x`,
    /// `/proc/self/fd/7`, or simply its path.
    pub file: &'a Path,
    /// Its path as the process sees it.
    pub path: &'a str,
    /// The build id it had when it was recorded; a file with another one is not used. None: it
    /// has none, or nobody knows.
    pub build_id: Option<&'a [u8]>,
    /// Root of the process' mount namespace (`/proc/PID/root`), where debug files are looked for
    /// before the host's. None: only the host's.
    pub root: Option<&'a Path>,
}

/// What to look for, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Source files, lines and inlined functions are wanted. Without, symbol tables suffice.
    pub lines: bool,
    /// Debuginfod servers to ask for debug files that are nowhere on this machine.
    pub debuginfod: Option<Debuginfod>,
    /// Directories with debug files, absolute.
    pub debug_directories: Vec<PathBuf>,
}

impl Default for Options {
    /// With lines, from local files only.
    fn default() -> Self {
        Self {
            lines: true,
            debuginfod: None,
            debug_directories: vec!["/usr/lib/debug".into()],
        }
    }
}

/// Turns addresses into names.
pub struct Symbolizer {
    options: Options,
    debuginfod: Option<Client>,
    kernel: Option<Kernel>,
    /// It is from some time ago, and may lack what was loaded since.
    kernel_is_earlier: bool,
    notes: Notes,
    without_lines: BTreeMap<String, usize>,
}

/// A file that may hold DWARF.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// Its path in the tree it was found in.
    path: &'a Path,
    map: &'a Mmap,
    elf: &'a Elf<'a>,
}

/// The kernel's symbols, or why there are none.
type Kernel = Result<KernelSymbols, String>;

impl Symbolizer {
    /// Reads nothing yet.
    pub fn new(options: Options) -> Self {
        let debuginfod = options.debuginfod.clone().map(Client::new);
        Self {
            options,
            debuginfod,
            kernel: None,
            kernel_is_earlier: false,
            notes: Notes::default(),
            without_lines: BTreeMap::new(),
        }
    }

    /// The functions at each *stated* address of a file, innermost first; empty where nobody
    /// knows. All addresses of one file are best given at once: it is opened for each call and
    /// closed again.
    pub fn module(&mut self, module: &Module<'_>, addresses: &[u64]) -> Vec<Vec<Symbol>> {
        let nothing = || vec![Vec::new(); addresses.len()];
        let map = files::open_regular(module.file).and_then(|file| files::map(&file));
        let Ok(map) = map else { return nothing() };
        let Some(elf) = Elf::parse(&map) else {
            return nothing();
        };
        if !elf.is_build(module.build_id) {
            self.notes.add(format!(
                "{} was replaced since it was recorded; its functions have no names",
                module.path
            ));
            return nothing();
        }
        let mut queries = Queries::new(addresses);
        let answers = self.resolve(module, &map, &elf, &mut queries);
        queries.spread(addresses, &answers)
    }

    /// What `read` makes of the bytes of a file; none when it cannot be read, or is not the one that was
    /// recorded.
    pub fn file<R>(&self, module: &Module<'_>, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let map = files::map(&files::open_regular(module.file).ok()?).ok()?;
        let is_recorded = Elf::parse(&map)?.is_build(module.build_id);
        is_recorded.then(|| read(&map))
    }

    /// The variable at each *stated* address in the data of a file; none where nobody knows.
    pub fn variables(&mut self, module: &Module<'_>, addresses: &[u64]) -> Vec<Option<Variable>> {
        let nothing = vec![None; addresses.len()];
        let map = files::open_regular(module.file).and_then(|file| files::map(&file));
        let Ok(map) = map else { return nothing };
        let Some(elf) = Elf::parse(&map).filter(|elf| elf.is_build(module.build_id)) else {
            return nothing;
        };
        let debug = self.debug_file(module, &elf);
        let debug_elf = debug.as_ref().and_then(|found| Elf::parse(&found.map));
        let mut queries = Queries::new(addresses);
        let files = [Some(&elf), debug_elf.as_ref()].into_iter().flatten();
        let found = variables::find(files, &mut queries);
        queries.spread(addresses, &found)
    }

    /// The file and what holds its debug information; none when it cannot be read, or is not the one that was
    /// recorded.
    pub fn debug_data(&mut self, module: &Module<'_>) -> Option<DebugData> {
        let file = files::map(&files::open_regular(module.file).ok()?).ok()?;
        let elf = Elf::parse(&file).filter(|elf| elf.is_build(module.build_id))?;
        let debug = self.debug_file(module, &elf);
        let debug_elf = debug.as_ref().and_then(|found| Elf::parse(&found.map));
        let source = match (&debug, &debug_elf) {
            (Some(found), Some(elf)) => Source {
                path: &found.path,
                map: &found.map,
                elf,
            },
            _ => Source {
                path: Path::new(module.path),
                map: &file,
                elf: &elf,
            },
        };
        let shared = self.shared_file(module, source).map(|found| found.map);
        let debug = debug.map(|found| found.map);
        Some(DebugData {
            file,
            debug,
            shared,
        })
    }

    fn resolve(
        &mut self,
        module: &Module<'_>,
        map: &Mmap,
        elf: &Elf<'_>,
        queries: &mut Queries,
    ) -> Vec<Vec<Symbol>> {
        let debug = self.debug_file(module, elf);
        let debug_elf = debug.as_ref().and_then(|found| Elf::parse(&found.map));
        let mini = minidebug::unpack(elf);
        let mini_elf = mini.as_deref().and_then(Elf::parse);
        let mut names = Names::new(queries);
        for source in [Some(elf), debug_elf.as_ref(), mini_elf.as_ref()]
            .into_iter()
            .flatten()
        {
            names.add(source, queries);
        }
        let names = names.finish(queries, &elf.code_ranges());
        let own = Source {
            path: Path::new(module.path),
            map,
            elf,
        };
        let separate = debug.as_ref().zip(debug_elf.as_ref());
        let separate = separate.map(|(f, elf)| Source {
            path: &f.path,
            map: &f.map,
            elf,
        });
        let frames = self.frames(module, own, separate, queries);
        let mut demangled = Demangled::default();
        let both = names.into_iter().zip(frames);
        let mut answers: Vec<_> = both
            .map(|(name, frames)| merge(name, frames, &mut demangled))
            .collect();
        for (i, function) in plt::stub_names(elf, queries) {
            if answers[i].is_empty() {
                answers[i] = vec![Symbol {
                    function,
                    ..Symbol::default()
                }];
            }
        }
        name_by_start(elf, map, module.path, queries, &mut answers);
        answers
    }

    /// The separate debug file, when the module itself does not hold what is wanted.
    fn debug_file(&mut self, module: &Module<'_>, elf: &Elf<'_>) -> Option<debug_files::Found> {
        let complete = elf.has_symtab() && (elf.has_dwarf() || !self.options.lines);
        if complete || elf.has_dwarf() {
            return None;
        }
        let places = Places::new(module.root, &self.options.debug_directories);
        let wanted = debug_files::wanted(elf, Path::new(module.path));
        places
            .find(&wanted)
            .or_else(|| self.download(elf.build_id()?))
    }

    fn download(&mut self, build_id: &[u8]) -> Option<debug_files::Found> {
        let path = self.debuginfod.as_mut()?.find(build_id, &mut self.notes)?;
        let map: Mmap = files::map(&files::open_regular(&path).ok()?).ok()?;
        Some(debug_files::Found { map, path })
    }

    /// What DWARF knows, one chain for each address.
    fn frames(
        &mut self,
        module: &Module<'_>,
        own: Source<'_>,
        separate: Option<Source<'_>>,
        queries: &mut Queries,
    ) -> Vec<Vec<Frame>> {
        let nothing = vec![Vec::new(); queries.len()];
        if !self.options.lines {
            return nothing;
        }
        let mut sources = [Some(own), separate].into_iter().flatten();
        let Some(source) = sources.find(|source| source.elf.has_dwarf()) else {
            self.without_lines
                .insert(module.path.to_owned(), queries.len());
            return nothing;
        };
        let shared = self.shared_file(module, source);
        let shared = shared.as_ref().and_then(|found| Elf::parse(&found.map));
        let own_code = own.elf;
        let loaded = Sections::load(source.elf)
            .and_then(|own| Ok((own, shared.as_ref().map(Sections::load).transpose()?)));
        match loaded {
            // The code is in the module; a debug file may have lost the flags of its sections.
            Ok((own, shared)) => {
                dwarf::resolve(own_code, source.map, &own, shared.as_ref(), queries)
            }
            Err(error) => {
                self.notes
                    .add(format!("no source lines for {}: {error}", module.path));
                nothing
            }
        }
    }

    /// The file that `source` shares entries with.
    fn shared_file(
        &mut self,
        module: &Module<'_>,
        source: Source<'_>,
    ) -> Option<debug_files::Found> {
        let (name, build_id) = source.elf.file.gnu_debugaltlink().ok().flatten()?;
        let places = Places::new(module.root, &self.options.debug_directories);
        places
            .find_shared(source.path, name, build_id)
            .or_else(|| self.download(build_id))
    }

    /// The functions at each address of the kernel, its modules and BPF programs. Symbols are read
    /// on first use and kept; that takes some 60 ms, so a recorder may call this without addresses
    /// while it waits for something else.
    pub fn kernel(&mut self, addresses: &[u64]) -> Vec<Vec<Symbol>> {
        let lacks = |kernel: &Kernel| {
            let symbols = kernel.as_ref().ok();
            symbols.is_some_and(|s| addresses.iter().any(|&a| s.name(a).is_none()))
        };
        if self.kernel_is_earlier && self.kernel.as_ref().is_some_and(lacks) {
            self.kernel = None;
            self.kernel_is_earlier = false;
        }
        let read = || KernelSymbols::read().map_err(|error| error.to_string());
        let symbols = match self.kernel.get_or_insert_with(read) {
            Ok(symbols) => symbols,
            Err(reason) => {
                self.notes.add(reason.clone());
                return vec![Vec::new(); addresses.len()];
            }
        };
        let symbol = |name: &str| Symbol {
            function: demangle(name),
            ..Symbol::default()
        };
        addresses
            .iter()
            .map(|&a| symbols.name(a).map(symbol).into_iter().collect())
            .collect()
    }

    /// Takes the kernel's symbols from another list than the running kernel's, of the form of `/proc/kallsyms`:
    /// a copy of that of the kernel that recorded.
    pub fn use_kernel_symbols(&mut self, list: &Path) {
        self.kernel = Some(KernelSymbols::read_from(list).map_err(|error| error.to_string()));
    }

    /// Takes the running kernel's symbols from the text of `/proc/kallsyms` as it was some time ago. Addresses
    /// that are in none of these, as those of modules that were loaded since, have it read anew.
    pub fn use_earlier_kernel_symbols(&mut self, list: &str) {
        let symbols = KernelSymbols::parse(list.as_bytes());
        self.kernel = Some(symbols.map_err(|error| error.to_string()));
        self.kernel_is_earlier = true;
    }

    /// Why the kernel's functions have no names. None when they have, or before they were asked
    /// for.
    pub fn kernel_hidden(&self) -> Option<&str> {
        self.kernel.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// The functions at each actual address of code that a process wrote itself: from jitdump
    /// files and perf maps, code that was made later winning where code was replaced.
    pub fn jit(&mut self, process: &JitProcess<'_>, addresses: &[u64]) -> Vec<Vec<Symbol>> {
        jit::symbols(process, addresses, &mut self.notes)
    }

    /// What a person should know about missing names: a handful of sentences.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.messages().to_vec();
        notes.extend(self.note_without_lines());
        notes
    }

    /// One sentence about the modules without debug information, those with most addresses first.
    fn note_without_lines(&self) -> Option<String> {
        // The vDSO comes without any, and nobody can install some.
        let mut modules: Vec<_> = self
            .without_lines
            .iter()
            .filter(|(path, _)| !path.starts_with('['))
            .collect();
        modules.sort_by_key(|(path, count)| (std::cmp::Reverse(**count), path.as_str()));
        let named: Vec<_> = modules
            .iter()
            .take(MAX_NAMED_MODULES)
            .map(|(p, _)| p.as_str())
            .collect();
        let more = match modules.len().saturating_sub(MAX_NAMED_MODULES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!named.is_empty()).then(|| {
            format!(
                "no debug information, so no source lines, for {}{more}; install their debug packages (-dbgsym, -debuginfo) or set DEBUGINFOD_URLS",
                named.join(", ")
            )
        })
    }
}

/// Joins what the symbol table and DWARF say about one address.
fn merge(name: Option<&[u8]>, frames: Vec<Frame>, demangled: &mut Demangled) -> Vec<Symbol> {
    let name = name.map(String::from_utf8_lossy);
    if frames.is_empty() {
        let symbol = |n: &str| Symbol {
            function: demangled.get(n),
            ..Symbol::default()
        };
        return name.as_deref().map(symbol).into_iter().collect();
    }
    let symbol = |frame: Frame| {
        // The symbol belongs to the function that has the code, and says more than a bare name.
        let full = name.as_deref().filter(|n| !frame.inlined && is_mangled(n));
        let function = match (&frame.name, full) {
            (Some(Name::Linkage(linkage)), _) => demangled.get(linkage),
            (_, Some(full)) => demangled.get(full),
            (Some(Name::Plain(plain)), None) => plain.clone(),
            (None, None) => demangled.get(name.as_deref()?),
        };
        Some(Symbol {
            function,
            file: frame.file,
            line: frame.line,
            inlined: frame.inlined,
        })
    };
    frames.into_iter().filter_map(symbol).collect()
}

/// Gives functions that nothing names the name of the place where they begin: call frame information stays in stripped
/// programs, so the time of such a function is that of one function still, and not of as many places as it was seen at.
fn name_by_start(
    elf: &Elf<'_>,
    map: &Mmap,
    path: &str,
    queries: &Queries,
    answers: &mut [Vec<Symbol>],
) {
    // One entry covers all stubs of a section.
    let sections = elf.file.sections();
    let stubs = sections.filter(plt::holds_stubs);
    let stubs: Vec<_> = stubs
        .map(|s| queries.within(s.address(), s.address().saturating_add(s.size())))
        .collect();
    let nameless = |at: &usize| answers[*at].is_empty() && !stubs.iter().any(|s| s.contains(at));
    let nameless: Vec<usize> = (0..answers.len()).filter(nameless).collect();
    if nameless.is_empty() {
        return;
    }
    let Ok(file) = ElfFile::parse(map) else {
        return;
    };
    let functions = CfiSections::find(&file);
    for at in nameless {
        let function = functions.function_at(queries.all()[at]);
        answers[at].extend(function.map(|function| Symbol {
            function: fallback_name(path, function.start),
            ..Symbol::default()
        }));
    }
}

/// How to show an address of a file that has no name: `[libfoo.so.1+0x1234]`.
pub fn fallback_name(module_path: &str, address: u64) -> String {
    let name = module_path
        .rsplit('/')
        .next()
        .filter(|n| !n.is_empty())
        .unwrap_or(module_path);
    // Special modules (`[vdso]`) have their brackets already.
    let name = name.trim_start_matches('[').trim_end_matches(']');
    format!("[{name}+{address:#x}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallback_names() {
        assert_eq!(
            fallback_name("/usr/lib/libfoo.so.1", 0x1234),
            "[libfoo.so.1+0x1234]"
        );
        assert_eq!(fallback_name("[vdso]", 0x10), "[vdso+0x10]");
    }

    #[test]
    fn missing_debug_information_is_one_note() {
        let mut symbolizer = Symbolizer::new(Options::default());
        for (i, count) in [1, 9, 3, 2, 4, 5].into_iter().enumerate() {
            symbolizer.without_lines.insert(format!("/lib/{i}"), count);
        }
        let notes = symbolizer.notes();
        assert_eq!(notes.len(), 1);
        assert!(
            notes[0].contains("/lib/1, /lib/5, /lib/4, /lib/2 and 2 more"),
            "{}",
            notes[0]
        );
    }
}
