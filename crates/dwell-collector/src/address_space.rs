//! What is mapped executable where in a process.
use crate::modules::{ModuleId, Modules};
use crate::perf::MapEvent;
use dwell_abi::events::{
    Engine, MAX_MAPPINGS, Mapping, TABLE_CODE_HEAP, TABLE_FRAME_POINTER, TABLE_LIKE_ENTRY,
};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// One executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// First actual address past the end.
    pub end: u64,
    /// Offset in the file of the first byte.
    pub file_offset: u64,
    /// The module; none for memory without a file.
    pub module: Option<ModuleId>,
    /// Path as the process sees it, or a name in brackets.
    pub path: String,
    /// When it was mapped.
    pub time: u64,
    /// It is a copy of the file's code in memory without a file, see `copied_code.rs`.
    pub is_copy: bool,
}

/// Executable mappings by their start. They never overlap.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    mapped: BTreeMap<u64, Mapped>,
    /// What the kernel side shall not unwind.
    hidden: Vec<Range<u64>>,
    /// Where in it the stack is as at a function's entry.
    like_entries: Vec<u64>,
    /// Where JVMs keep code that they compiled, each with its number for the kernel side.
    code_heaps: Vec<(Range<u64>, u32)>,
    /// The number of its Python for the kernel side.
    python: Option<u32>,
    /// Its engine of JavaScript.
    engine: Option<Engine>,
    version: u32,
}

/// Whether the kernel side can unwind code there. The page of old system calls lies in the kernel's half, which its search
/// does not expect; code there is emulated and keeps no frame.
pub fn is_code(mapping: &dwell_maps::Mapping) -> bool {
    mapping.executable && mapping.start >> 63 == 0
}

/// A mapping that was there before, as if it came to be now.
pub fn mapped_before(pid: u32, time: u64, mapping: &dwell_maps::Mapping) -> MapEvent {
    let path = match mapping.file() {
        "" => "//anon",
        path => path,
    };
    MapEvent {
        time,
        pid,
        start: mapping.start,
        end: mapping.end,
        file_offset: mapping.file_offset,
        device: mapping.device,
        inode: mapping.inode,
        path: path.into(),
    }
}

impl AddressSpace {
    /// Maps `start..` anew; what was there before is cut away.
    pub fn insert(&mut self, start: u64, new: Mapped) {
        self.version += 1;
        let overlapping: Vec<u64> = self
            .mapped
            .range(..new.end)
            .rev()
            .take_while(|(_, m)| m.end > start)
            .map(|(&s, _)| s)
            .collect();
        for old_start in overlapping {
            let Some(old) = self.mapped.remove(&old_start) else {
                continue;
            };
            if old.end > new.end {
                let file_offset = old.file_offset + (new.end - old_start);
                self.mapped.insert(
                    new.end,
                    Mapped {
                        file_offset,
                        ..old.clone()
                    },
                );
            }
            if old_start < start {
                self.mapped.insert(old_start, Mapped { end: start, ..old });
            }
        }
        self.mapped.insert(start, new);
    }

    /// Changes whenever something else is mapped.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Code without a file is not what it was.
    pub fn code_has_changed(&mut self) {
        self.version += 1;
    }

    /// True when exactly this is mapped there already, of this module or another.
    pub fn has(&self, start: u64, new: &Mapped) -> bool {
        let found = self.mapped.get(&start);
        found.is_some_and(|m| {
            m.end == new.end && m.file_offset == new.file_offset && m.path == new.path
        })
    }

    /// True when code of a file is mapped somewhere in this range.
    pub fn has_module(&self, range: Range<u64>) -> bool {
        let below = self.mapped.range(..range.end).rev();
        let mut overlapping = below.take_while(|(_, m)| m.end > range.start);
        overlapping.any(|(_, m)| m.module.is_some())
    }

    /// The mapping an actual address is in, with its start.
    pub fn find(&self, address: u64) -> Option<(u64, &Mapped)> {
        let (&start, mapped) = self.mapped.range(..=address).next_back()?;
        (address < mapped.end).then_some((start, mapped))
    }

    /// All mappings with their starts.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Mapped)> {
        self.mapped.iter().map(|(&s, m)| (s, m))
    }

    /// Actual addresses of what the dynamic symbols with wanted names define, of the first file with such a path that defines
    /// some.
    pub fn symbols(
        &self,
        modules: &Modules,
        is_file: impl Fn(&str) -> bool,
        is_wanted: impl Fn(&str) -> bool,
    ) -> HashMap<String, u64> {
        let mapped = self.iter().filter(|(_, mapped)| is_file(&mapped.path));
        let mut defined = mapped.filter_map(|(start, mapped)| {
            let module = modules.get(mapped.module?);
            let bias = bias(start, mapped, module)?;
            let stated = module.symbols(&is_wanted).into_iter();
            let actual = stated.map(|(name, at)| (name, at.wrapping_add(bias)));
            Some(actual.collect::<HashMap<_, _>>()).filter(|symbols| !symbols.is_empty())
        });
        defined.next().unwrap_or_default()
    }

    /// Where the code of the function at an actual address is: see [`CfiSections::parts_of_function`].
    ///
    /// [`CfiSections::parts_of_function`]: dwell_elf::unwind::CfiSections::parts_of_function
    pub fn parts_of_function(&self, modules: &Modules, address: u64) -> Vec<Range<u64>> {
        let parts = || {
            let (start, mapped) = self.find(address)?;
            let module = modules.get(mapped.module?);
            let bias = bias(start, mapped, module)?;
            let parts = module.parts_of_function(address.wrapping_sub(bias));
            let actual =
                |part: Range<u64>| part.start.wrapping_add(bias)..part.end.wrapping_add(bias);
            Some(parts.into_iter().map(actual).collect())
        };
        parts().unwrap_or_default()
    }

    /// Forgets what was mapped before an exec. The new program's mappings are older than the
    /// kernel's report of the exec, but not than the process' new name.
    pub fn clear_before(&mut self, time: u64) {
        self.version += 1;
        self.hidden.clear();
        self.like_entries.clear();
        self.code_heaps.clear();
        self.python = None;
        self.engine = None;
        self.mapped.retain(|_, m| m.time >= time);
    }

    /// Hides code from the kernel side, whose stacks end there: a copy comes instead. Not so at `like_entries`,
    /// where the stack is as at a function's entry.
    pub fn hide(&mut self, ranges: &[Range<u64>], like_entries: &[u64]) {
        self.version += 1;
        self.hidden.extend_from_slice(ranges);
        self.like_entries.extend_from_slice(like_entries);
    }

    /// Where JVMs keep code that they compiled, each with its number for the kernel side.
    pub fn set_code_heaps(&mut self, heaps: Vec<(Range<u64>, u32)>) {
        self.version += 1;
        self.code_heaps = heaps;
    }

    /// Its Python has a number for the kernel side.
    pub fn set_python(&mut self, number: u32) {
        self.version += 1;
        self.python = Some(number);
    }

    /// It has an engine of JavaScript.
    pub fn set_engine(&mut self, engine: Engine) {
        self.version += 1;
        self.engine = Some(engine);
    }

    /// The whole heap that a mapping without a file is part of: it grows.
    fn code_heap(&self, start: u64, mapped: &Mapped) -> Option<Mapping> {
        let mut heaps = self.code_heaps.iter();
        let (range, heap) = heaps.find(|(range, _)| range.contains(&start))?;
        mapped.module.is_none().then_some(Mapping {
            start: range.start,
            end: range.end,
            text_base: 0,
            table: TABLE_CODE_HEAP,
            heap: *heap,
        })
    }

    /// What the kernel side shall know of a hidden mapping.
    fn shown(&self, start: u64, end: u64) -> impl Iterator<Item = Mapping> {
        let inside = self.like_entries.iter().copied();
        let inside = inside.filter(move |at| (start..end).contains(at));
        inside.map(|at| Mapping {
            start: at,
            end: at + 1,
            text_base: at,
            table: TABLE_LIKE_ENTRY,
            heap: 0,
        })
    }

    fn is_hidden(&self, start: u64, end: u64) -> bool {
        let overlaps = |range: &Range<u64>| range.start < end && start < range.end;
        self.hidden.iter().any(overlaps)
    }

    /// The same for the kernel side: C's `struct process_maps`. The second value counts mappings
    /// that did not fit.
    pub fn to_kernel(&self, modules: &Modules) -> (Vec<u8>, usize) {
        let mut rows: Vec<Mapping> = Vec::new();
        for (start, mapped) in self.iter() {
            if self.is_hidden(start, mapped.end) {
                rows.extend(self.shown(start, mapped.end));
                continue;
            }
            let row = self
                .code_heap(start, mapped)
                .unwrap_or_else(|| kernel_row(start, mapped, modules));
            match rows.last_mut() {
                Some(last) if last.table == TABLE_CODE_HEAP && last.start == row.start => {}
                // Neighbours without tables are one: JIT regions come in large numbers.
                Some(last)
                    if last.end == start
                        && last.table == TABLE_FRAME_POINTER
                        && row.table == TABLE_FRAME_POINTER =>
                {
                    last.end = row.end;
                }
                _ => rows.push(row),
            }
        }
        let kept = rows.len().min(MAX_MAPPINGS as usize);
        let head = [kept as u32, self.python.map_or(0, |number| number + 1)];
        let engine = self
            .engine
            .map_or_else(Default::default, |engine| engine.words());
        let size =
            size_of_val(&head) + size_of::<Engine>() + MAX_MAPPINGS as usize * size_of::<Mapping>();
        let mut bytes = Vec::with_capacity(size);
        for word in head.into_iter().chain(engine) {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        for row in &rows[..kept] {
            for word in [row.start, row.end, row.text_base] {
                bytes.extend_from_slice(&word.to_ne_bytes());
            }
            bytes.extend_from_slice(&row.table.to_ne_bytes());
            bytes.extend_from_slice(&row.heap.to_ne_bytes());
        }
        bytes.resize(size, 0);
        (bytes, rows.len() - kept)
    }
}

fn kernel_row(start: u64, mapped: &Mapped, modules: &Modules) -> Mapping {
    let known = mapped
        .module
        .map(|id| modules.get(id))
        .filter(|m| m.table != TABLE_FRAME_POINTER);
    let based =
        known.and_then(|m| Some((m.table, bias(start, mapped, m)?.wrapping_add(m.text_start))));
    let (table, text_base) = based.unwrap_or((TABLE_FRAME_POINTER, 0));
    Mapping {
        start,
        end: mapped.end,
        text_base,
        table,
        heap: 0,
    }
}

/// Actual minus stated address of a module's mapping.
pub fn bias(start: u64, mapped: &Mapped, module: &crate::modules::Module) -> Option<u64> {
    Some(start.wrapping_sub(module.stated_address(mapped.file_offset)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(end: u64, file_offset: u64) -> Mapped {
        Mapped {
            end,
            file_offset,
            module: None,
            path: "x".into(),
            time: 0,
            is_copy: false,
        }
    }

    #[test]
    fn later_mappings_cut_earlier_ones() {
        let mut space = AddressSpace::default();
        space.insert(0x1000, mapped(0x5000, 0));
        space.insert(0x2000, mapped(0x3000, 0x100));
        let all: Vec<_> = space
            .iter()
            .map(|(s, m)| (s, m.end, m.file_offset))
            .collect();
        assert_eq!(
            all,
            [
                (0x1000, 0x2000, 0),
                (0x2000, 0x3000, 0x100),
                (0x3000, 0x5000, 0x2000)
            ]
        );
        space.insert(0, mapped(0x10000, 7));
        assert_eq!(space.iter().count(), 1);
        assert!(space.find(0x10000).is_none());
        assert_eq!(space.find(0xffff).map(|m| m.1.file_offset), Some(7));
    }

    #[test]
    fn code_that_was_there_before() {
        let parse = |line| dwell_maps::Mapping::parse(line).expect("a line");
        let before = |line| mapped_before(7, 1, &parse(line));
        let event = before("7f00-8000 r-xp 00001000 fe:00 1234     /usr/lib/a b.so (deleted)");
        assert_eq!((event.pid, event.start, event.end), (7, 0x7f00, 0x8000));
        assert_eq!(
            (event.file_offset, event.path.as_str()),
            (0x1000, "/usr/lib/a b.so")
        );
        assert_eq!(before("7f00-8000 r-xp 0 00:00 0").path, "//anon");
        let is_code = |line| is_code(&parse(line));
        assert!(is_code("7f00-8000 r-xp 0 00:00 0"));
        assert!(!is_code("7f00-8000 rw-p 00001000 fe:00 1234 /x"));
        assert!(!is_code(
            "ffffffffff600000-ffffffffff601000 --xp 0 00:00 0    [vsyscall]"
        ));
    }
}
