//! What the unwinder in the kernel reads (`tables.h`), in whichever object it is: processes' mappings, modules'
//! tables, and the chunks of the cell space.
use crate::error::CollectError;
use dwell_abi::events;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, OpenObject};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::thread::{self, JoinHandle};

/// See the module's text.
pub struct UnwindMaps {
    processes: MapHandle,
    tables: MapHandle,
    chunks: MapHandle,
    /// JVMs' code heaps (`CodeHeap`).
    pub code_heaps: Numbered,
    /// Pythons (`Interpreter`).
    pub interpreters: Numbered,
    /// Until it is asked for.
    first_chunk: Cell<Option<FirstChunk>>,
}

/// The chunk that stood for all when the object was opened, on its way into the map of chunks. A change of that map
/// waits for all processors (some 20 ms): this one while something else is done.
pub(crate) struct FirstChunk {
    chunk: MapHandle,
    insertion: JoinHandle<io::Result<()>>,
}

impl FirstChunk {
    /// `chunks`: the map, as soon as there is one; `chunk`: of [`UnwindMaps::prepare`].
    pub fn put(chunks: BorrowedFd<'_>, chunk: MapHandle) -> Result<Self, CollectError> {
        let own = |fd: BorrowedFd<'_>| {
            fd.try_clone_to_owned()
                .map_err(|e| CollectError::from_io("keeping an eBPF map", e, ""))
        };
        let (chunks, inner) = (own(chunks)?, own(chunk.as_fd())?);
        let insertion = thread::spawn(move || {
            let (key, value) = (0u32, inner.as_raw_fd());
            // SAFETY: the map has a key and a value of 4 bytes, and both descriptors live.
            let error = unsafe {
                libbpf_sys::bpf_map_update_elem(
                    chunks.as_raw_fd(),
                    (&raw const key).cast(),
                    (&raw const value).cast(),
                    0,
                )
            };
            match error {
                0 => Ok(()),
                _ => Err(io::Error::from_raw_os_error(-error)),
            }
        });
        Ok(FirstChunk { chunk, insertion })
    }

    /// It is in the map.
    fn wait(self) -> Result<MapHandle, CollectError> {
        let inserted = self.insertion.join();
        inserted
            .map_err(|_| CollectError::Internal("a thread that changes a map".to_owned()))?
            .map_err(|e| CollectError::map(e.into()))?;
        Ok(self.chunk)
    }
}

impl UnwindMaps {
    /// Readies an object that includes `tables.h` for being loaded: the chunk goes to [`FirstChunk::put`].
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
    pub(crate) fn of(object: &Object, first_chunk: FirstChunk) -> Result<Self, CollectError> {
        let handle = |name| {
            let map = crate::programs::map(object, name)?;
            MapHandle::try_from(&map).map_err(CollectError::map)
        };
        Ok(UnwindMaps {
            processes: handle("processes")?,
            tables: handle("tables")?,
            chunks: handle("chunks")?,
            code_heaps: Numbered::of(handle("code_heaps")?, events::MAX_CODE_HEAPS),
            interpreters: Numbered::of(handle("interpreters")?, events::MAX_INTERPRETERS),
            first_chunk: Cell::new(Some(first_chunk)),
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

    /// Adds the `number`-th chunk of cells and returns it, to be filled.
    pub fn add_chunk(&self, number: u32) -> Result<MapHandle, CollectError> {
        if let Some(first) = self.first_chunk.take() {
            return first.wait();
        }
        let chunk = new_chunk()?;
        let fd = chunk.as_fd().as_raw_fd();
        self.chunks
            .update(&number.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
            .map_err(CollectError::map)?;
        Ok(chunk)
    }
}

/// A map whose values have numbers, each given to one at a time.
pub struct Numbered {
    map: MapHandle,
    most: u32,
    /// How many numbers there were at a time.
    known: Cell<u32>,
    free: Rc<RefCell<Vec<u32>>>,
}

/// A number that is in use. When it goes another may have it.
pub struct Number {
    number: u32,
    free: Rc<RefCell<Vec<u32>>>,
}

impl Drop for Number {
    fn drop(&mut self) {
        self.free.borrow_mut().push(self.number);
    }
}

impl Number {
    /// As the kernel side has it.
    pub fn get(&self) -> u32 {
        self.number
    }
}

impl Numbered {
    fn of(map: MapHandle, most: u32) -> Self {
        Numbered {
            map,
            most,
            known: Cell::new(0),
            free: Rc::default(),
        }
    }

    /// Adds a value and returns its number; none when there are too many.
    pub fn add(&self, value: &[u8]) -> Result<Option<Number>, CollectError> {
        let Some(number) = self.take() else {
            return Ok(None);
        };
        self.set(&number, value)?;
        Ok(Some(number))
    }

    /// Replaces the value with a number.
    pub fn set(&self, number: &Number, value: &[u8]) -> Result<(), CollectError> {
        self.map
            .update(&number.number.to_ne_bytes(), value, MapFlags::ANY)
            .map_err(CollectError::map)
    }

    fn take(&self) -> Option<Number> {
        let freed = self.free.borrow_mut().pop();
        let number = freed.unwrap_or(self.known.get());
        if number == self.most {
            return None;
        }
        self.known.set(self.known.get().max(number + 1));
        let free = self.free.clone();
        Some(Number { number, free })
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
