//! Java: frames and names of code that a process' HotSpot JVM compiled.
use crate::address_space::AddressSpace;
use crate::error::CollectError;
use crate::java_methods::KnownMethods;
use crate::modules::Modules;
use crate::processes::OfProcess;
use crate::unwind_maps::{Number, UnwindMaps};
use dwell_abi::events::{COMPILED_MASK, CodeHeap, compiled, interpreted};
use dwell_abi::unwind::Row;
use dwell_hotspot::{BlobKind, Jvm, Method, NoJvm};
use dwell_maps::Memory;
use std::ops::Range;
use std::rc::Rc;

/// How often a JVM is looked for in vain: it makes its code heaps some ms after its library is mapped, and those of a
/// process that stands still may never come.
const TRIES: u32 = 1000;

/// A code heap that the kernel side knows.
#[derive(Clone)]
struct Heap {
    range: Range<u64>,
    row: CodeHeap,
    /// Its number there; children have it, too.
    number: Rc<Number>,
}

/// The JVM of a process, as far as one is known.
#[derive(Default)]
pub struct Java {
    jvm: Option<Rc<Jvm>>,
    heaps: Vec<Heap>,
    /// How often it is still looked for.
    tries: u32,
    known: KnownMethods,
}

impl Java {
    /// That of a child that was just forked.
    pub fn of_child(&self) -> Self {
        Java {
            jvm: self.jvm.clone(),
            heaps: self.heaps.clone(),
            ..Java::default()
        }
    }

    /// The library was mapped, or code that may be of a heap that is not known.
    pub fn wanted(&mut self) {
        self.tries = TRIES;
    }

    /// What code was mapped anew without a file: a heap that is not known, perhaps.
    pub fn mapped(&mut self, start: u64) {
        if self.jvm.is_some() && self.heap_of(start).is_none() {
            self.wanted();
        }
    }

    /// Whether something is missing that may be there by now.
    pub fn is_sought(&self) -> bool {
        self.tries > 0
    }

    /// Looks for code heaps, and tells the kernel side of those that are new. True when there are any.
    pub fn look(
        &mut self,
        maps: &UnwindMaps,
        modules: &Modules,
        space: &AddressSpace,
        pid: u32,
    ) -> Result<bool, CollectError> {
        self.tries -= 1;
        let memory = OfProcess(pid);
        if self.jvm.is_none() {
            // Those that lead to its tables.
            let is_wanted = |name: &str| name.starts_with(dwell_hotspot::SYMBOLS);
            let variables = space.symbols(modules, is_library, is_wanted);
            let jvm = Jvm::read(&memory, |name| variables.get(name).copied());
            if variables.is_empty() || jvm.as_ref().is_err_and(|why| *why == NoJvm::Unknown) {
                // Another kind of JVM.
                self.tries = 0;
            }
            self.jvm = jvm.ok().map(Rc::new);
        }
        let Some(jvm) = &self.jvm else {
            return Ok(false);
        };
        let mut is_new = false;
        for (range, row) in jvm.code_heaps(&memory) {
            // They come one by one, the interpreter last.
            let is_whole = row.interpreter_start != 0;
            let known = self.heaps.iter_mut().find(|heap| heap.range == range);
            match known {
                Some(heap) if heap.row == row => {}
                Some(heap) => {
                    maps.code_heaps.set(&heap.number, &row.to_bytes())?;
                    heap.row = row;
                    is_new = true;
                }
                None => {
                    let Some(number) = maps.code_heaps.add(&row.to_bytes())? else {
                        continue;
                    };
                    let number = Rc::new(number);
                    self.heaps.push(Heap { range, row, number });
                    is_new = true;
                }
            }
            if is_whole {
                self.tries = 0;
            }
        }
        Ok(is_new)
    }

    /// The code heaps, each with its number for the kernel side.
    pub fn heaps(&self) -> impl Iterator<Item = (Range<u64>, u32)> {
        self.heaps
            .iter()
            .map(|heap| (heap.range.clone(), heap.number.get()))
    }

    /// The row of compiled code at an actual address, that of a call if a frame `returned` to behind it.
    pub fn row(&self, memory: &impl Memory, pc: u64, returned: bool) -> Option<Row> {
        let heap = self.heap_of(pc)?;
        Some(dwell_hotspot::code_row(memory, &heap.row, pc, returned))
    }

    /// The index of a bytecode by its address, of a method that is interpreted; none if it is not that method's.
    pub fn bytecode(&self, memory: &impl Memory, method: u64, address: u64) -> Option<u32> {
        self.jvm.as_ref()?.bytecode(memory, method, address)
    }

    fn heap_of(&self, address: u64) -> Option<&Heap> {
        self.heaps.iter().find(|heap| heap.range.contains(&address))
    }

    /// The methods at a frame, innermost first: the one that is interpreted, if its word tells so, or what a compiler put
    /// at an actual address. HotSpot's own code there has names in brackets.
    pub fn methods(&mut self, memory: &impl Memory, address: u64) -> Vec<Method> {
        let Some(jvm) = &self.jvm else {
            return Vec::new();
        };
        if let Some((method, bci)) = interpreted(address) {
            self.known.add(jvm, memory, method);
            let method = jvm.method_at(memory, method, bci);
            return method.into_iter().collect();
        }
        let (address, id) = compiled(address);
        let Some(heap) = self.heap_of(address) else {
            return Vec::new();
        };
        if (heap.row.interpreter_start..heap.row.interpreter_end).contains(&address) {
            return vec![Method::stub("interpreter")];
        }
        let is_same = |now: u32| id.is_none_or(|id| id == now & COMPILED_MASK);
        let blob = jvm.blob(memory, &heap.row, address);
        blob.map_or_else(Vec::new, |blob| match blob.kind {
            BlobKind::Stub(name) => vec![Method::stub(&name)],
            BlobKind::Method { method, compile_id } if is_same(compile_id) => {
                jvm.methods_at(memory, blob.address, method, address)
            }
            // What was there is gone.
            BlobKind::Method { .. } => Vec::new(),
        })
    }

    /// Where the compiled code at an actual address starts.
    pub fn start_of(&self, pid: u32, address: u64) -> Option<u64> {
        let (address, _) = compiled(address);
        let heap = self.heap_of(address)?;
        let blob = self
            .jvm
            .as_ref()?
            .blob(&OfProcess(pid), &heap.row, address)?;
        Some(blob.address)
    }

    /// What tells an interpreted method from others that were at its address.
    pub fn generation(&self, method: u64) -> u32 {
        self.known.generation(method)
    }

    /// Forgets methods that are not there any more. True when some were forgotten since the last call.
    pub fn check(&mut self, pid: u32, now: u64) -> bool {
        let jvm = self.jvm.clone();
        jvm.is_some_and(|jvm| self.known.check(&jvm, &OfProcess(pid), now))
    }
}

/// Whether a path is that of a JVM's library.
pub fn is_library(path: &str) -> bool {
    path.ends_with("/libjvm.so")
}
