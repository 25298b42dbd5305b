//! All entries of a map, many with one call: one at a time takes seconds for a million.
use crate::error::TraceError;
use libbpf_rs::{MapCore, MapHandle};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Entries that are read at once, at first; more if a bucket of the kernel's table has more.
const AT_ONCE: u32 = 4096;

/// Gives each key with the values of all processors, one behind the other.
pub(crate) fn each_entry(
    map: &MapHandle,
    take: &mut dyn FnMut(&[u8], std::slice::ChunksExact<'_, u8>),
) -> Result<(), TraceError> {
    let processors = libbpf_rs::num_possible_cpus();
    let processors = processors.map_err(TraceError::bpf("counting processors"))?;
    let key = map.key_size() as usize;
    let value = (map.value_size() as usize).next_multiple_of(8);
    let mut room = AT_ONCE;
    // The kernel's word for how far it is: a bucket's number.
    let (mut position, mut begun) = ([0u8; 8], false);
    loop {
        let mut keys = vec![0; room as usize * key];
        let mut values = vec![0; room as usize * value * processors];
        let mut count = room;
        let before = if begun {
            position.as_mut_ptr().cast()
        } else {
            std::ptr::null_mut()
        };
        let mut after = position;
        // SAFETY: keys and values have room for `count` entries as this map has them; the positions have the 4 bytes
        // that tables use; no options are given.
        let code = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                before,
                after.as_mut_ptr().cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &mut count,
                std::ptr::null(),
            )
        };
        match -code {
            0 | libc::ENOENT => {}
            libc::ENOSPC => {
                room *= 2;
                continue;
            }
            libc::EINTR => continue,
            code => {
                return Err(TraceError::Kernel {
                    doing: "reading an aggregation".into(),
                    error: io::Error::from_raw_os_error(code),
                });
            }
        }
        let entries = keys
            .chunks_exact(key)
            .zip(values.chunks_exact(value * processors));
        for (key, values) in entries.take(count as usize) {
            take(key, values.chunks_exact(value));
        }
        if code != 0 {
            return Ok(());
        }
        (position, begun) = (after, true);
    }
}
