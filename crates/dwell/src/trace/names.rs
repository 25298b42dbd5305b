//! What addresses and probes are called, for the printer.
use dwell_elf::ElfFile;
use dwell_maps::Mapping;
use dwell_script::output::{LocalTime, Names, Place};
use dwell_script::schema::ProbeName;
use dwell_symbols::demangle;
use dwell_trace::Session;
use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::path::PathBuf;

/// Names by session and by what files and the kernel say. Everything is read when it is first asked for, and kept:
/// a process that has ended is still known.
pub struct Known<'s, 'c> {
    pub session: &'c Session<'s>,
    pub kept: &'c mut Kept,
}

/// Address, module and name.
type KernelSymbol = (u64, Box<str>, Box<str>);

/// What was read.
#[derive(Default)]
pub struct Kept {
    kernel: Option<Vec<KernelSymbol>>,
    processes: HashMap<u32, Vec<Mapping>>,
    files: HashMap<String, File>,
}

/// Functions of a file.
#[derive(Default)]
struct File {
    /// Address, size and name, by address.
    functions: Vec<(u64, u64, Box<str>)>,
    /// Of each executable segment: offset in the file, size, address.
    segments: Vec<(u64, u64, u64)>,
}

impl Kept {
    /// Reads a process' mappings, while it is there.
    pub fn read_process(&mut self, pid: u32) {
        let mut mappings = dwell_maps::read(pid).unwrap_or_default();
        mappings.retain(|m| m.executable && !m.path.is_empty());
        for mapping in &mappings {
            self.read_file(mapping, || mapping.link(pid).into());
        }
        if !mappings.is_empty() {
            self.processes.insert(pid, mappings);
        }
    }

    /// The same of what a session knows of a process that may be over.
    fn take_process(&mut self, pid: u32, mapped: Vec<(Mapping, PathBuf)>) {
        for (mapping, readable) in &mapped {
            self.read_file(mapping, || readable.clone());
        }
        if !mapped.is_empty() {
            let mappings = mapped.into_iter().map(|(mapping, _)| mapping);
            self.processes.insert(pid, mappings.collect());
        }
    }

    fn read_file(&mut self, mapping: &Mapping, readable: impl FnOnce() -> PathBuf) {
        if !self.files.contains_key(&mapping.path) {
            let data = fs::read(readable()).ok();
            let file = data.map(|data| functions(&data)).unwrap_or_default();
            self.files.insert(mapping.path.clone(), file);
        }
    }

    fn find(&self, pid: u32, address: u64) -> Option<Place> {
        let mappings = self.processes.get(&pid)?;
        let mapping = mappings.iter().find(|m| m.contains(address))?;
        let offset = address - mapping.start + mapping.file_offset;
        let module = Some(mapping.file_name().into());
        let symbol = self
            .files
            .get(&mapping.path)
            .and_then(|file| file.symbol(offset));
        let first = mappings
            .iter()
            .find(|m| m.path == mapping.path)
            .map_or(mapping.start, |m| m.start - m.file_offset);
        Some(Place {
            module,
            module_offset: address - first,
            symbol,
        })
    }

    fn kernel_symbols(&mut self) -> &[KernelSymbol] {
        self.kernel.get_or_insert_with(|| {
            let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
            let mut symbols: Vec<_> = text.lines().filter_map(kernel_symbol).collect();
            symbols.sort();
            symbols
        })
    }
}

impl File {
    fn symbol(&self, offset: u64) -> Option<(Box<str>, u64)> {
        let segment = self
            .segments
            .iter()
            .find(|(at, size, _)| (*at..at + size).contains(&offset));
        let (at, _, stated) = segment?;
        let address = offset - at + stated;
        let after = self
            .functions
            .partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        let inside = address - start < (*size).max(1);
        inside.then(|| (demangle(name).into(), address - start))
    }
}

fn functions(data: &[u8]) -> File {
    let Ok(elf) = ElfFile::parse(data) else {
        return File::default();
    };
    let named = elf.symbols().filter_map(|s| {
        let name = std::str::from_utf8(s.name).ok()?;
        Some((s.address, s.size, Box::from(name)))
    });
    let mut functions: Vec<(u64, u64, Box<str>)> = named.collect();
    functions.sort();
    functions.dedup_by_key(|(address, ..)| *address);
    let segments = elf.segments().filter(|s| s.executable);
    File {
        functions,
        segments: segments
            .map(|s| (s.file_offset, s.file_size, s.stated_address))
            .collect(),
    }
}

fn kernel_symbol(line: &str) -> Option<KernelSymbol> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16)
        .ok()
        .filter(|a| *a != 0)?;
    let (kind, name) = (words.next()?, words.next()?);
    let module = words
        .next()
        .map_or("vmlinux", |m| m.trim_matches(['[', ']']));
    matches!(kind, "t" | "T" | "w" | "W").then(|| (address, name.into(), module.into()))
}

impl Names for Known<'_, '_> {
    fn kernel(&mut self, address: u64) -> Place {
        let symbols = self.kept.kernel_symbols();
        let after = symbols.partition_point(|(start, ..)| *start <= address);
        let Some((start, name, module)) = after.checked_sub(1).and_then(|at| symbols.get(at))
        else {
            return Place::default();
        };
        Place {
            module: Some(module.clone()),
            module_offset: 0,
            symbol: Some((name.clone(), address - start)),
        }
    }

    fn user(&mut self, pid: u32, address: u64) -> Place {
        if let Some(place) = self.kept.find(pid, address) {
            return place;
        }
        if let Some((language, method, offset)) = self.session.method_at(pid, address) {
            return Place {
                module: Some(language.into()),
                module_offset: 0,
                symbol: Some((method.into(), offset)),
            };
        }
        // New to us, or mapped since.
        self.kept.read_process(pid);
        if let Some(place) = self.kept.find(pid, address) {
            return place;
        }
        self.kept.take_process(pid, self.session.mappings(pid));
        self.kept.find(pid, address).unwrap_or_default()
    }

    fn probe(&mut self, id: u32) -> Option<&ProbeName> {
        self.session.probe(id)
    }

    fn local_time(&mut self, seconds: i64) -> LocalTime {
        // SAFETY: `broken` is plain data that the call fills in; the zone's name is a string of the C library.
        unsafe {
            let mut broken: libc::tm = std::mem::zeroed();
            libc::localtime_r(&seconds, &mut broken);
            let zone = match broken.tm_zone.is_null() {
                true => "UTC".into(),
                false => CStr::from_ptr(broken.tm_zone)
                    .to_string_lossy()
                    .into_owned(),
            };
            LocalTime {
                offset: broken.tm_gmtoff as i32,
                zone: zone.into(),
            }
        }
    }
}
