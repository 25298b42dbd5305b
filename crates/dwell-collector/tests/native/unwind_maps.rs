//! Stands in for the maps of loaded eBPF programs where `cells.rs` asks them for a chunk.
use crate::error::CollectError;
use dwell_abi::events::CHUNK_SHIFT;
use libbpf_rs::{MapHandle, MapType};
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

const CELLS: usize = 1 << CHUNK_SHIFT;

/// Chunks of cells: real maps, that no program uses.
#[derive(Default)]
pub struct UnwindMaps {
    chunks: RefCell<Vec<*mut u64>>,
}

impl UnwindMaps {
    /// A new chunk.
    pub fn add_chunk(&self, number: u32) -> Result<MapHandle, CollectError> {
        assert_eq!(number as usize, self.chunks.borrow().len(), "in order");
        // SAFETY: all bytes zero is a valid value of this plain C struct; zero means default.
        let mut options: libbpf_sys::bpf_map_create_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as libbpf_sys::size_t;
        options.map_flags = libbpf_sys::BPF_F_MMAPABLE;
        let map = MapHandle::create(
            MapType::Array,
            Some("cells"),
            4,
            8 * CELLS as u32,
            1,
            &options,
        )
        .map_err(CollectError::map)?;
        // SAFETY: a fresh shared mapping of the whole value of an mmapable array map.
        let base = unsafe {
            let fd = map.as_fd().as_raw_fd();
            libc::mmap(
                std::ptr::null_mut(),
                CELLS * 8,
                libc::PROT_READ,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "map a chunk");
        self.chunks.borrow_mut().push(base.cast());
        Ok(map)
    }

    /// Where the chunks are.
    pub fn chunks(&self) -> Vec<*mut u64> {
        self.chunks.borrow().clone()
    }
}

/// The chunk's descriptor, to map it.
pub fn chunk_fd(chunk: &MapHandle) -> BorrowedFd<'_> {
    chunk.as_fd()
}
