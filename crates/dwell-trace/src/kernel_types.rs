//! Places in the kernel's structures that programs must know.
use crate::error::TraceError;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;

/// Where a `task_struct` has the thread's pointer to its thread-local memory, bytes from its start.
pub(crate) fn thread_pointer_offset() -> Result<u64, TraceError> {
    offset("the thread pointer", |types| {
        let thread = member(types, "task_struct", "thread")?;
        Some(thread + member(types, "thread_struct", "fsbase")?)
    })
}

/// Where a `task_struct` has what the scheduler counts, bytes from its start.
pub(crate) struct Account {
    /// The thread's number.
    pub(crate) number: u64,
    /// How long it has run until it was last switched or a timer ticked, ns.
    pub(crate) run_time: u64,
}

impl Account {
    pub(crate) fn find() -> Result<Account, TraceError> {
        Ok(Account {
            number: offset("a thread's number", |types| {
                member(types, "task_struct", "pid")
            })?,
            run_time: offset("a thread's run time", |types| {
                let entity = member(types, "task_struct", "se")?;
                Some(entity + member(types, "sched_entity", "sum_exec_runtime")?)
            })?,
        })
    }
}

fn offset(what: &str, bits: impl FnOnce(&Btf<'_>) -> Option<u32>) -> Result<u64, TraceError> {
    let types = Btf::from_vmlinux().map_err(TraceError::bpf("reading the kernel's types"))?;
    let bits = bits(&types).ok_or_else(|| TraceError::Kernel {
        doing: format!("looking for {what} in the kernel's types"),
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
