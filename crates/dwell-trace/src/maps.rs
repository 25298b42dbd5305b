//! The maps of the kernel that a script's stores become.
use crate::error::TraceError;
use crate::thread_time;
use dwell_abi::program::Store;
use dwell_script::codegen::{MEMORY, control};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use libbpf_sys::bpf_map_create_opts;
use std::os::fd::{AsFd, AsRawFd};

/// Maps, by store.
pub(crate) struct Maps {
    maps: Vec<MapHandle>,
    /// The store of threads' times, if there is one.
    thread_times: Option<u32>,
}

/// What found no room, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drops {
    /// Records.
    pub records: u64,
    /// Values that were to be aggregated.
    pub aggregations: u64,
    /// Assignments to `self->` variables and associative arrays.
    pub variables: u64,
    /// Firings that found no scratch memory.
    pub firings: u64,
    /// Errors whose record found no room.
    pub errors: u64,
    /// Errors in clauses of ERROR.
    pub double_errors: u64,
    /// Calls of `speculation()` that found all in use.
    pub speculations: u64,
}

impl std::ops::AddAssign for Drops {
    fn add_assign(&mut self, other: Drops) {
        self.records += other.records;
        self.aggregations += other.aggregations;
        self.variables += other.variables;
        self.firings += other.firings;
        self.errors += other.errors;
        self.double_errors += other.double_errors;
        self.speculations += other.speculations;
    }
}

impl Drops {
    /// By what gives the control word at an offset.
    pub(crate) fn read(word: impl Fn(u32) -> u64) -> Drops {
        Drops {
            records: word(control::RECORD_DROPS),
            aggregations: word(control::AGGREGATION_DROPS),
            variables: word(control::VARIABLE_DROPS),
            firings: word(control::SLOT_DROPS),
            errors: word(control::ERROR_DROPS),
            double_errors: word(control::DOUBLE_ERRORS),
            speculations: word(control::NO_SPECULATION),
        }
    }
}

impl Maps {
    /// Maps for a script's stores, and one for the times of threads if it asks for them.
    pub(crate) fn create(
        stores: &[Store],
        ring_bytes: u32,
        with_times: bool,
    ) -> Result<Maps, TraceError> {
        let all = stores
            .iter()
            .chain(with_times.then_some(&thread_time::TABLE));
        let maps = all.map(|store| create(*store, ring_bytes));
        Ok(Maps {
            maps: maps.collect::<Result<_, _>>()?,
            thread_times: with_times.then_some(stores.len() as u32),
        })
    }

    pub(crate) fn map(&self, store: u32) -> &MapHandle {
        &self.maps[store as usize]
    }

    /// The store of threads' times.
    pub(crate) fn thread_times(&self) -> Option<u32> {
        self.thread_times
    }

    pub(crate) fn descriptor(&self, store: i32) -> Option<i32> {
        let map = self.maps.get(usize::try_from(store).ok()?)?;
        Some(map.as_fd().as_raw_fd())
    }

    /// Sets the whole of a store of memory.
    pub(crate) fn write(&self, store: u32, bytes: &[u8]) -> Result<(), TraceError> {
        let update = self
            .map(store)
            .update(&0u32.to_ne_bytes(), bytes, MapFlags::ANY);
        update.map_err(TraceError::bpf("writing a script's variables"))
    }

    /// The whole of a store of memory.
    pub(crate) fn read(&self, store: u32) -> Result<Vec<u8>, TraceError> {
        let found = self.map(store).lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let memory = found.map_err(TraceError::bpf("reading a script's variables"))?;
        Ok(memory.unwrap_or_default())
    }

    /// What found no room up to now.
    pub(crate) fn drops(&self) -> Result<Drops, TraceError> {
        let memory = self.read(MEMORY)?;
        let word = |at: u32| {
            let bytes = memory.get(at as usize..at as usize + 8);
            bytes.map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("8 bytes")))
        };
        Ok(Drops::read(word))
    }
}

fn create(store: Store, ring_bytes: u32) -> Result<MapHandle, TraceError> {
    let mut options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let (kind, name, key, value, entries) = match store {
        Store::Memory { size } => (MapType::Array, "dwell_memory", 4, size, 1),
        Store::Records => (MapType::RingBuf, "dwell_records", 0, 0, ring_bytes),
        Store::Thread { size } => {
            options.map_flags = libbpf_sys::BPF_F_NO_PREALLOC;
            return thread_store(size, options);
        }
        Store::Table {
            key,
            value,
            entries,
        } => {
            options.map_flags = libbpf_sys::BPF_F_NO_PREALLOC;
            (MapType::Hash, "dwell_table", key, value, entries)
        }
        Store::Sums {
            key,
            value,
            entries,
        } => {
            if !is_small(key, value, entries) {
                options.map_flags = libbpf_sys::BPF_F_NO_PREALLOC;
            }
            (MapType::PercpuHash, "dwell_sums", key, value, entries)
        }
    };
    MapHandle::create(kind, Some(name), key, value, entries, &options)
        .map_err(TraceError::bpf(format!("making a map for {store:?}")))
}

/// Whether all memory for sums is to be had at once. Where the kernel gets it piece by piece, it gives an interrupt (as
/// timers are) one new key only.
fn is_small(key: u32, value: u32, entries: u32) -> bool {
    const MOST: u64 = 16 << 20;
    let processors = libbpf_rs::num_possible_cpus().unwrap_or(1) as u64;
    u64::from(entries) * (u64::from(key) + u64::from(value) * processors) <= MOST
}

/// A map of threads wants to know the types of its keys and values.
fn thread_store(size: u32, mut options: bpf_map_create_opts) -> Result<MapHandle, TraceError> {
    // SAFETY: the type information is ours until it is freed below; the map holds its own reference to what was
    // loaded into the kernel.
    unsafe {
        let btf = libbpf_sys::btf__new_empty();
        let int =
            libbpf_sys::btf__add_int(btf, c"int".as_ptr(), 4, libbpf_sys::BTF_INT_SIGNED as i32);
        let byte = libbpf_sys::btf__add_int(btf, c"byte".as_ptr(), 1, 0);
        let value = libbpf_sys::btf__add_array(btf, int, byte, size);
        let loaded = libbpf_sys::btf__load_into_kernel(btf);
        options.btf_fd = libbpf_sys::btf__fd(btf) as u32;
        options.btf_key_type_id = int as u32;
        options.btf_value_type_id = value as u32;
        let map = match loaded {
            0 => MapHandle::create(
                MapType::TaskStorage,
                Some("dwell_threads"),
                4,
                size,
                0,
                &options,
            )
            .map_err(TraceError::bpf("making a map for self-> variables")),
            code => Err(TraceError::code("loading types for self-> variables", code)),
        };
        libbpf_sys::btf__free(btf);
        map
    }
}
