//! What the kernel was doing for memory, from the functions on a stack.
//!
//! The outermost function that is about memory says why the kernel works (a fault, a call, the end of a process); the
//! innermost one that has a component of its own says at what. Functions are told by how their names begin, leading
//! underscores left out: compilers add endings, kernels add underscores.
use crate::analysis::Analysis;
use crate::names::FunctionId;

/// What the kernel works at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// Page faults but for what follows: entry, finding the mapping, page tables, exit.
    Fault,
    /// Clearing fresh pages.
    Clearing,
    /// Copying pages (copy-on-write).
    Copying,
    /// Taking pages from the allocator.
    Allocating,
    /// Giving them back to it.
    Freeing,
    /// Counting pages to their control group.
    Charging,
    /// Having processors forget translations, and waiting for them.
    Shootdown,
    /// Spinning for locks.
    Spinning,
    /// Reclaiming and compacting on the way of an allocation.
    Reclaim,
    /// mmap, munmap, brk, madvise, mremap, mprotect, mlock, but for the above.
    Mapping,
    /// Entering and leaving the kernel for calls about memory.
    Entry,
    /// Copying an address space for a child, and making one for a program.
    Forking,
    /// Taking an address space apart at the end of a process, all of it.
    Exit,
    /// What we add to it: programs at tracepoints.
    Measuring,
}

impl Component {
    /// As answers call it.
    pub fn name(self) -> &'static str {
        match self {
            Component::Fault => "page faults",
            Component::Clearing => "clearing pages",
            Component::Copying => "copying pages",
            Component::Allocating => "allocating pages",
            Component::Freeing => "freeing pages",
            Component::Charging => "control groups",
            Component::Shootdown => "TLB flushes",
            Component::Spinning => "spinning for locks",
            Component::Reclaim => "reclaim, compaction",
            Component::Mapping => "mapping, unmapping",
            Component::Entry => "entering the kernel",
            Component::Forking => "fork and exec",
            Component::Exit => "end of processes",
            Component::Measuring => "measuring (dwell)",
        }
    }
}

/// What a thread on a processor is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Its program.
    Program,
    /// The kernel's work for memory.
    Memory(Component),
    /// Other work of the kernel.
    Other,
}

/// Why the kernel works for memory: outermost first.
const ROOTS: &[(Component, &[&str])] = &[
    (Component::Exit, &["exit_mmap", "mmput", "exit_mm"]),
    (
        Component::Forking,
        &[
            "dup_mm",
            "copy_mm",
            "copy_page_range",
            "exec_mmap",
            "mm_alloc",
        ],
    ),
    (
        Component::Fault,
        &[
            "asm_exc_page_fault",
            "exc_page_fault",
            "do_user_addr_fault",
            "handle_mm_fault",
            "faultin_page",
        ],
    ),
    (
        Component::Mapping,
        &[
            "x64_sys_mmap",
            "x64_sys_munmap",
            "x64_sys_brk",
            "x64_sys_madvise",
            "x64_sys_mremap",
            "x64_sys_mprotect",
            "x64_sys_mlock",
            "x64_sys_munlock",
            "x64_sys_process_madvise",
            "ksys_mmap_pgoff",
            "vm_mmap_pgoff",
            "vm_munmap",
            "do_madvise",
        ],
    ),
];

/// What it works at: innermost first.
const LEAVES: &[(Component, &[&str])] = &[
    (
        Component::Measuring,
        &["bpf_prog_", "bpf_trace_", "traceiter_", "bpf_"],
    ),
    (
        Component::Clearing,
        &[
            "clear_page",
            "clear_huge_page",
            "clear_user_highpage",
            "clear_highpage",
            "clear_subpage",
            "folio_zero_user",
            "kernel_init_pages",
        ],
    ),
    (
        Component::Copying,
        &[
            "copy_page_erms",
            "copy_page",
            "copy_mc_",
            "copy_user_highpage",
            "copy_subpage",
            "copy_user_gigantic",
        ],
    ),
    (
        Component::Shootdown,
        &[
            "flush_tlb_",
            "native_flush_tlb_",
            "kvm_flush_tlb_",
            "smp_call_function_",
            "arch_tlbbatch_flush",
            "on_each_cpu_cond",
            "native_send_call_func",
            "kvm_send_ipi",
        ],
    ),
    (
        Component::Spinning,
        &[
            "queued_spin_lock_slowpath",
            "native_queued_spin_lock_slowpath",
            "pv_queued_spin_lock_slowpath",
            "rwsem_spin",
            "rwsem_optimistic_spin",
            "osq_lock",
            "mutex_spin",
            "queued_read_lock",
            "queued_write_lock",
        ],
    ),
    (
        Component::Reclaim,
        &[
            "try_to_free_pages",
            "try_to_free_mem_cgroup",
            "shrink_",
            "compact_zone",
            "alloc_pages_direct",
            "alloc_pages_slowpath",
        ],
    ),
    (
        Component::Charging,
        &[
            "mem_cgroup_",
            "charge_memcg",
            "uncharge_",
            "try_charge",
            "obj_cgroup_",
            "memcg_",
        ],
    ),
    (
        Component::Allocating,
        &[
            "alloc_pages",
            "alloc_frozen_pages",
            "get_page_from_freelist",
            "rmqueue",
            "vma_alloc_folio",
            "vma_alloc_anon_folio",
            "folio_alloc",
            "alloc_anon_folio",
            "post_alloc_hook",
            "prep_new_page",
            "pte_alloc",
            "pmd_alloc",
            "pud_alloc",
            "pte_alloc_one",
        ],
    ),
    (
        Component::Freeing,
        &[
            "free_unref_",
            "free_frozen_pages",
            "free_pages",
            "free_pcppages",
            "free_one_page",
            "folios_put",
            "folio_put",
            "release_pages",
            "free_pages_and_swap_cache",
            "tlb_batch_pages_flush",
            "tlb_batch_free",
            "free_pgtables",
            "pte_free",
            "free_tail_page",
            "free_folio_and_swap",
        ],
    ),
];

/// What a stack tells, functions outermost first.
pub fn work(analysis: &Analysis<'_>, path: &[FunctionId]) -> Work {
    let functions = path.iter().map(|id| analysis.names.function(*id));
    let kernel: Vec<&str> = functions
        .filter(|f| f.kernel)
        .map(|f| f.name.as_str())
        .collect();
    classify(&kernel)
}

/// The same for the functions of the kernel alone.
fn classify(kernel: &[&str]) -> Work {
    if kernel.is_empty() {
        return Work::Program;
    }
    let root = kernel.iter().find_map(|name| find(ROOTS, name));
    let leaf = kernel.iter().rev().find_map(|name| find(LEAVES, name));
    match (root, leaf) {
        (Some(_), Some(Component::Measuring)) => Work::Memory(Component::Measuring),
        (Some(Component::Exit), _) => Work::Memory(Component::Exit),
        (Some(Component::Forking), Some(leaf @ Component::Copying)) => Work::Memory(leaf),
        (Some(Component::Forking), _) => Work::Memory(Component::Forking),
        (Some(root), leaf) => Work::Memory(leaf.unwrap_or(root)),
        // The kernel gets pages for its own use too: files, pipes, sockets.
        (None, Some(leaf)) if is_about_pages(leaf) => Work::Memory(leaf),
        (None, _) => Work::Other,
    }
}

/// Whether this is for memory whatever the call.
fn is_about_pages(component: Component) -> bool {
    matches!(
        component,
        Component::Clearing | Component::Allocating | Component::Freeing | Component::Reclaim
    )
}

fn find(table: &[(Component, &[&str])], function: &str) -> Option<Component> {
    let plain = function.trim_start_matches('_');
    let is_it = |starts: &&[&str]| starts.iter().any(|start| plain.starts_with(start));
    let found = table.iter().find(|(_, starts)| is_it(starts));
    found.map(|(component, _)| *component)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks as a 6.18 kernel has them, outermost first.
    #[test]
    fn stacks_of_the_kernel_tell_their_component() {
        use Component::*;
        let fault = [
            "asm_exc_page_fault",
            "exc_page_fault",
            "do_user_addr_fault",
            "handle_mm_fault",
        ];
        let unmap = [
            "entry_SYSCALL_64_after_hwframe",
            "do_syscall_64",
            "__x64_sys_munmap",
            "__vm_munmap",
        ];
        let cases: [(&[&str], &[&str], Work); 15] = [
            (&[], &[], Work::Program),
            (&fault, &[], Work::Memory(Fault)),
            (
                &fault,
                &[
                    "do_anonymous_page",
                    "vma_alloc_folio_noprof",
                    "get_page_from_freelist",
                    "clear_page_erms",
                ],
                Work::Memory(Clearing),
            ),
            (
                &fault,
                &[
                    "do_anonymous_page",
                    "vma_alloc_folio_noprof",
                    "get_page_from_freelist",
                ],
                Work::Memory(Allocating),
            ),
            (
                &fault,
                &["do_anonymous_page", "__mem_cgroup_charge", "charge_memcg"],
                Work::Memory(Charging),
            ),
            (
                &fault,
                &["wp_page_copy", "copy_mc_to_kernel"],
                Work::Memory(Copying),
            ),
            (
                &fault,
                &[
                    "get_page_from_freelist",
                    "rmqueue_bulk",
                    "_raw_spin_lock",
                    "__pv_queued_spin_lock_slowpath",
                ],
                Work::Memory(Spinning),
            ),
            (
                &fault,
                &[
                    "__traceiter_mm_page_alloc",
                    "bpf_prog_0123456789abcdef_on_page_alloc",
                ],
                Work::Memory(Measuring),
            ),
            (&unmap, &["do_vmi_align_munmap"], Work::Memory(Mapping)),
            (
                &unmap,
                &[
                    "unmap_region",
                    "tlb_finish_mmu",
                    "free_pages_and_swap_cache",
                ],
                Work::Memory(Freeing),
            ),
            (
                &unmap,
                &[
                    "tlb_flush_mmu",
                    "flush_tlb_mm_range",
                    "smp_call_function_many_cond",
                ],
                Work::Memory(Shootdown),
            ),
            (
                &[
                    "do_syscall_64",
                    "__x64_sys_exit_group",
                    "do_exit",
                    "exit_mm",
                    "mmput",
                    "exit_mmap",
                ],
                &["free_unref_folios"],
                Work::Memory(Exit),
            ),
            (
                &["do_syscall_64", "__x64_sys_clone", "copy_process", "dup_mm"],
                &["copy_pte_range"],
                Work::Memory(Forking),
            ),
            (
                &["do_syscall_64", "ksys_write", "anon_pipe_write"],
                &["alloc_pages_noprof", "get_page_from_freelist"],
                Work::Memory(Allocating),
            ),
            (
                &["do_syscall_64", "ksys_write"],
                &["vfs_write", "copy_page_from_iter"],
                Work::Other,
            ),
        ];
        for (root, rest, wanted) in cases {
            let path = [root, rest].concat();
            assert_eq!(classify(&path), wanted, "{path:?}");
        }
    }
}
