//! What a recording costs at the least: the kernel's calls of its programs.
use crate::error::CollectError;
use crate::programs::{Embedded, quiet_libbpf};
use libbpf_rs::{Link, Object, ObjectBuilder};

static OBJECT: &Embedded<[u8]> =
    &Embedded(*include_bytes!(concat!(env!("OUT_DIR"), "/floor.bpf.o")));

/// eBPF programs that do nothing, at the two tracepoints that every recording needs (a switch, a waking). Dropping it
/// takes them back.
pub struct Floor {
    // Before the object whose programs they hold.
    _links: Vec<Link>,
    _object: Object,
}

impl Floor {
    /// Loads and attaches them.
    pub fn attach() -> Result<Self, CollectError> {
        quiet_libbpf();
        let object = ObjectBuilder::default()
            .open_memory(&OBJECT.0)
            .and_then(|open| open.load())
            .map_err(CollectError::load)?;
        let links: Result<Vec<Link>, _> = object.progs_mut().map(|p| p.attach()).collect();
        Ok(Floor {
            _links: links.map_err(CollectError::attach)?,
            _object: object,
        })
    }
}
