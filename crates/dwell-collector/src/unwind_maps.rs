//! What the unwinder in the kernel reads (`tables.h`), in whichever object it is: processes' mappings, modules'
//! tables, and the chunks of the cell space.
use crate::error::CollectError;
use dwell_abi::events;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, OpenObject};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// See the module's text.
pub struct UnwindMaps {
    processes: MapHandle,
    tables: MapHandle,
    chunks: MapHandle,
    code_heaps: MapHandle,
    heap_numbers: Numbers,
    interpreters: MapHandle,
    interpreter_numbers: Numbers,
    /// The chunk that stood for all when the object was loaded.
    first_chunk: MapHandle,
}

impl UnwindMaps {
    /// Readies an object that includes `tables.h` for being loaded: the chunk goes to [`UnwindMaps::of`].
    pub(crate) fn prepare(open: &mut OpenObject) -> Result<MapHandle, CollectError> {
        let chunk = new_chunk()?;
        for mut map in open.maps_mut() {
            if map.name() == "chunks" {
                map.set_inner_map_fd(chunk.as_fd())
                    .map_err(CollectError::load)?;
            }
        }
        Ok(chunk)
    }

    /// Those of a loaded object.
    pub(crate) fn of(object: &Object, first_chunk: MapHandle) -> Result<Self, CollectError> {
        let handle = |name| {
            let map = crate::programs::map(object, name)?;
            MapHandle::try_from(&map).map_err(CollectError::map)
        };
        Ok(UnwindMaps {
            processes: handle("processes")?,
            tables: handle("tables")?,
            chunks: handle("chunks")?,
            code_heaps: handle("code_heaps")?,
            heap_numbers: Numbers::below(events::MAX_CODE_HEAPS),
            interpreters: handle("interpreters")?,
            interpreter_numbers: Numbers::below(events::MAX_INTERPRETERS),
            first_chunk,
        })
    }

    /// Replaces what the unwinder knows of a process (`bytes` is C's `struct process_maps`).
    pub fn set_process(&self, tgid: u32, bytes: &[u8]) -> Result<(), CollectError> {
        self.processes
            .update(&tgid.to_ne_bytes(), bytes, MapFlags::ANY)
            .map_err(CollectError::map)
    }

    /// Forgets a process' mappings.
    pub fn remove_process(&self, tgid: u32) {
        let _ = self.processes.delete(&tgid.to_ne_bytes());
    }

    /// Sets a module's table.
    pub fn set_table(&self, index: u32, bytes: &[u8]) -> Result<(), CollectError> {
        self.tables
            .update(&index.to_ne_bytes(), bytes, MapFlags::ANY)
            .map_err(CollectError::map)
    }

    /// Adds a JVM's code heap and returns its number; none when there are too many.
    pub fn add_code_heap(&self, heap: &events::CodeHeap) -> Result<Option<u32>, CollectError> {
        let Some(index) = self.heap_numbers.take() else {
            return Ok(None);
        };
        self.set_code_heap(index, heap)?;
        Ok(Some(index))
    }

    /// Gives back the number of a code heap that is gone.
    pub fn free_code_heap(&self, index: u32) {
        self.heap_numbers.give_back(index);
    }

    /// Adds a Python and returns its number; none when there are too many.
    pub fn add_interpreter(
        &self,
        interpreter: &events::Interpreter,
    ) -> Result<Option<u32>, CollectError> {
        let Some(index) = self.interpreter_numbers.take() else {
            return Ok(None);
        };
        self.interpreters
            .update(&index.to_ne_bytes(), &interpreter.to_bytes(), MapFlags::ANY)
            .map_err(CollectError::map)?;
        Ok(Some(index))
    }

    /// Gives back the number of a Python that is gone.
    pub fn free_interpreter(&self, index: u32) {
        self.interpreter_numbers.give_back(index);
    }

    /// Replaces what is known of a code heap.
    pub fn set_code_heap(&self, index: u32, heap: &events::CodeHeap) -> Result<(), CollectError> {
        self.code_heaps
            .update(&index.to_ne_bytes(), &heap.to_bytes(), MapFlags::ANY)
            .map_err(CollectError::map)
    }

    /// Adds the `number`-th chunk of cells and returns it, to be filled.
    pub fn add_chunk(&self, number: u32) -> Result<MapHandle, CollectError> {
        let chunk = if number == 0 {
            MapHandle::try_from(&self.first_chunk).map_err(CollectError::map)?
        } else {
            new_chunk()?
        };
        let fd = chunk.as_fd().as_raw_fd();
        self.chunks
            .update(&number.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
            .map_err(CollectError::map)?;
        Ok(chunk)
    }
}

/// Numbers that are given out, each to one at a time.
struct Numbers {
    most: u32,
    /// How many there were at a time.
    known: Cell<u32>,
    free: RefCell<Vec<u32>>,
}

impl Numbers {
    fn below(most: u32) -> Self {
        Numbers {
            most,
            known: Cell::new(0),
            free: RefCell::default(),
        }
    }

    fn take(&self) -> Option<u32> {
        let free = self.free.borrow_mut().pop();
        let next = self.known.get();
        free.or_else(|| {
            (next < self.most).then(|| {
                self.known.set(next + 1);
                next
            })
        })
    }

    fn give_back(&self, number: u32) {
        self.free.borrow_mut().push(number);
    }
}

fn new_chunk() -> Result<MapHandle, CollectError> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    MapHandle::create(
        MapType::Array,
        Some("dwell_chunk"),
        4,
        8 << events::CHUNK_SHIFT,
        1,
        &options,
    )
    .map_err(CollectError::load)
}

/// A borrowed descriptor of a chunk, for mapping it.
pub fn chunk_fd(chunk: &MapHandle) -> BorrowedFd<'_> {
    chunk.as_fd()
}
