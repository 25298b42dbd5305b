//! The kernel's own waits, by the names of their functions. Its code is not looked at: what runs is
//! patched while it runs, and a handful of functions do all of the spinning.

/// Functions in which the kernel spins, each a wait and nothing else.
const SPINS: &[(&str, &str)] = &[
    ("native_queued_spin_lock_slowpath", "waits for a spin lock"),
    (
        "__pv_queued_spin_lock_slowpath",
        "the same, in a virtual machine",
    ),
    (
        "queued_spin_lock_slowpath",
        "the same, in kernels without paravirtual locks",
    ),
    (
        "virt_spin_lock",
        "test-and-set, under hypervisors without paravirtual locks",
    ),
    (
        "resilient_queued_spin_lock_slowpath",
        "a BPF program waits for its lock",
    ),
    ("resilient_tas_spin_lock", "the same, in a virtual machine"),
    (
        "queued_read_lock_slowpath",
        "waits for the writer of a reader-writer spin lock",
    ),
    ("queued_write_lock_slowpath", "waits for the readers of one"),
    ("osq_lock", "queues to spin for a mutex or rwsem"),
    ("mutex_spin_on_owner", "waits while a mutex' owner runs"),
    ("mutex_optimistic_spin", "the loop around it"),
    ("rwsem_spin_on_owner", "waits while an rwsem's owner runs"),
    ("rwsem_optimistic_spin", "the loop around it"),
    (
        "rtmutex_spin_on_owner",
        "waits while an rt_mutex' owner runs",
    ),
    (
        "smp_call_function_many_cond",
        "waits until other processors have run a function",
    ),
    ("smp_call_function_single", "the same, for one processor"),
    ("csd_lock_wait_toolong", "the same, watched"),
    ("__csd_lock_wait", "the same"),
];

/// Functions that a wait calls to give time away; whether they spin is told by their caller.
const HELPERS: &[&str] = &[
    "pv_wait",
    "pv_wait_node",
    "pv_wait_head_or_lock",
    "pv_wait_early",
    "kvm_wait",
    "xen_qlock_wait",
    "hv_qlock_wait",
    "native_halt",
    "native_safe_halt",
    "pv_native_safe_halt",
    "cpu_relax",
    "rep_nop",
    "delay_tsc",
    "__delay",
    "native_pause",
    "vcpu_is_preempted",
    "__kvm_vcpu_is_preempted",
    "__raw_callee_save___kvm_vcpu_is_preempted",
    "__pv_init_lock_hash",
    "pv_hash",
    "pv_kick",
    "kvm_kick_cpu",
    "need_resched",
    "owner_on_cpu",
];

/// What a function of the kernel says about the thread in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It spins.
    Spins,
    /// It spins if its caller does.
    Helper,
    /// It works.
    Works,
}

/// What the name of a function of the kernel says. Parts that the compiler has split off
/// (`osq_lock.constprop.0`) count as their function.
pub fn place(function: &str) -> Place {
    let whole = function.split('.').next().unwrap_or(function);
    if SPINS.iter().any(|(name, _)| *name == whole) {
        Place::Spins
    } else if HELPERS.contains(&whole) {
        Place::Helper
    } else {
        Place::Works
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parts_of_functions() {
        assert_eq!(place("native_queued_spin_lock_slowpath"), Place::Spins);
        assert_eq!(place("__pv_queued_spin_lock_slowpath"), Place::Spins);
        assert_eq!(place("rwsem_spin_on_owner.constprop.0"), Place::Spins);
        assert_eq!(place("pv_wait"), Place::Helper);
        assert_eq!(place("_raw_spin_lock"), Place::Works);
        assert_eq!(place(""), Place::Works);
    }
}
