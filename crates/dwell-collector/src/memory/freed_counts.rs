//! Where the kernel's own counts of freed pages lie: see `bpf/memory_freed.h`.
use libbpf_rs::btf::{
    Btf,
    types::{DataSec, Var},
};

/// From a processor's queue of threads to its counts of events; none if the kernel's types do not tell.
pub fn distance_from_queue() -> Option<i64> {
    let types = Btf::from_vmlinux().ok()?;
    let mut sections = types.type_by_kind::<DataSec<'_>>();
    sections.find_map(|section| {
        let offset = |name: &str| {
            let mut variables = section.iter();
            let named = |id| types.type_by_id::<Var<'_>>(id)?.name()?.to_str();
            let found = variables.find(|v| named(v.ty) == Some(name))?;
            Some(i64::from(found.offset))
        };
        Some(offset("vm_event_states")? - offset("runqueues")?)
    })
}
