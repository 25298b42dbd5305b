//! Places in the kernel's structures that programs must know.
use crate::error::TraceError;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;

/// Where a `task_struct` has the thread's pointer to its thread-local memory, bytes from its start.
pub(crate) fn thread_pointer_offset() -> Result<u64, TraceError> {
    let types = Btf::from_vmlinux().map_err(TraceError::bpf("reading the kernel's types"))?;
    let bits = member(&types, "task_struct", "thread")
        .zip(member(&types, "thread_struct", "fsbase"))
        .map(|(thread, base)| thread + base);
    let bits = bits.ok_or_else(|| TraceError::Kernel {
        doing: "looking for the thread pointer in the kernel's types".into(),
        error: std::io::ErrorKind::NotFound.into(),
    })?;
    Ok(u64::from(bits / 8))
}

/// Where a structure has a member, in bits.
fn member(types: &Btf<'_>, of: &str, name: &str) -> Option<u32> {
    let of = types.type_by_name::<Struct<'_>>(of)?;
    let member = of.iter().find(|m| m.name.is_some_and(|n| n == name))?;
    match member.attr {
        libbpf_rs::btf::types::MemberAttr::Normal { offset } => Some(offset),
        libbpf_rs::btf::types::MemberAttr::BitField { .. } => None,
    }
}
