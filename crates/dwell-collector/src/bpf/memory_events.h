/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What followed threads do about memory: faults, pages, system calls, waits for locks. See memory.h. */
#pragma once
#include "memory_places.h"

/* ---- faults ---- */

static __always_inline void begin_fault(struct task_struct *task, u64 address, u64 code)
{
	struct memory_thread *m = memory_of(task);
	u64 sp;

	if (!m)
		return;
	end_fault(m, task);
	come_to_place(m, task);
	sp = slot_of(m)->place.sp;
	m->fault = FAULT_BEGUN | (code & 1 ? FAULT_PRESENT : 0) | (code & 2 ? FAULT_WRITE : 0) |
		   (address - (sp - STACK_REACH) < 2 * STACK_REACH ? FAULT_NEAR_STACK : 0);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_fault_user, u64 address, struct pt_regs *regs, u64 code)
{
	begin_fault(bpf_get_current_task_btf(), address, code);
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_fault_kernel, u64 address, struct pt_regs *regs, u64 code)
{
	struct task_struct *task = bpf_get_current_task_btf();

	/* Who may not sleep gets no page but an error: our own reading of a stack, say. */
	if (address >> 63 || task->pagefault_disabled || in_interrupt(ctx, task))
		return 0;
	begin_fault(task, address, code);
	return 0;
}

static __always_inline void mark_file(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *m = memory_of(task);

	if (m)
		m->fault |= FAULT_FILE;
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(on_filemap_fault)
{
	mark_file();
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(on_filemap_map)
{
	mark_file();
	return 0;
}

/* ---- pages ---- */

SEC("tp_btf/mm_page_alloc")
int BPF_PROG(on_page_alloc, struct page *page, unsigned int order, unsigned int gfp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *m;
	struct memory_sums *sums;
	u64 pages = 1ull << (order & 31);
	bool huge = order >= HUGE_ORDER && (gfp & GFP_MOVABLE);

	if (!page)
		return 0;
	count_memory(MEMORY_ALLOCATED, pages);
	m = memory_of(task);
	if (!m || in_interrupt(ctx, task))
		return 0;
	sums = come_to_place(m, task);
	sums->allocated += pages;
	if (huge)
		sums->zeroed_huge += pages;
	else if (gfp & GFP_ZERO)
		sums->zeroed += pages;
	else if (order && (gfp & GFP_MOVABLE) && (m->fault & FAULT_BEGUN) && !(m->fault & FAULT_FILE))
		sums->zeroed += pages; /* a large folio of an anonymous fault, cleared after its allocation */
	if (gfp & GFP_MOVABLE)
		m->fault |= FAULT_PAGE | (huge ? FAULT_HUGE : order ? FAULT_LARGE : 0) | (gfp & GFP_ZERO ? FAULT_ZEROED : 0);
	after_event(m, task);
	return 0;
}

SEC("tp_btf/mm_page_free")
int BPF_PROG(on_page_free, struct page *page, unsigned int order)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *m;
	u64 pages = 1ull << (order & 31);

	count_memory(MEMORY_FREED, pages);
	m = memory_of(task);
	if (!m || in_interrupt(ctx, task))
		return 0;
	come_to_place(m, task)->freed += pages;
	after_event(m, task);
	return 0;
}

/* ---- system calls ---- */

static __always_inline bool is_about_memory(u64 nr)
{
	switch (nr) {
	case 9: case 10: case 11: case 12: /* mmap, mprotect, munmap, brk */
	case 25: case 28: /* mremap, madvise */
	case 149: case 150: case 151: case 152: case 325: /* mlock, munlock, mlockall, munlockall, mlock2 */
	case 440: case 448: /* process_madvise, process_mrelease */
		return true;
	}
	return false;
}

/* What a thread has been off the processor, or had its processor taken away. */
static __always_inline u64 time_off(struct task_struct *task)
{
	struct thread *t = thread_of(task);

	return t ? t->blocked + t->runnable + t->stolen : 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task;
	struct memory_thread *m;

	if (!is_about_memory(call_of(regs)))
		return 0;
	task = bpf_get_current_task_btf();
	m = memory_of(task);
	if (!m)
		return 0;
	come_to_place(m, task);
	m->call_off = time_off(task);
	m->call_since = bpf_ktime_get_boot_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *m;
	struct memory_sums *sums;
	u64 span, off;

	if (!is_about_memory(call_of((struct pt_regs *)bpf_task_pt_regs(task))))
		return 0;
	m = memory_of(task);
	if (!m || !m->call_since)
		return 0;
	span = bpf_ktime_get_boot_ns() - m->call_since;
	off = time_off(task) - m->call_off;
	m->call_since = 0;
	sums = come_to_place(m, task);
	sums->calls++;
	sums->call_ns += off < span ? span - off : 0;
	return 0;
}

/* ---- locks ---- */

static __always_inline bool is_mmap_lock(struct task_struct *task, u64 lock)
{
	struct mm_struct *mm = task->mm;

	return mm && lock == (u64)mm + bpf_core_field_offset(mm->mmap_lock);
}

SEC("tp_btf/contention_begin")
int BPF_PROG(on_memory_lock_wait, void *address, unsigned int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *m = memory_of(task);
	u64 lock = (u64)address;

	if (!m || in_interrupt(ctx, task))
		return 0;
	if (spins(flags)) {
		m->spin_lock = lock;
		m->spin_since = bpf_ktime_get_boot_ns();
		return 0;
	}
	if (m->mmap_since || !is_mmap_lock(task, lock))
		return 0;
	m->mmap_since = bpf_ktime_get_boot_ns();
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_memory_lock_got, void *address, int result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *m = memory_of(task);
	u64 lock = (u64)address;
	struct memory_sums *sums;

	if (!m || in_interrupt(ctx, task))
		return 0;
	if (m->spin_lock == lock) {
		sums = come_to_place(m, task);
		m->spin_lock = 0;
		sums->spins++;
		sums->spin_ns += bpf_ktime_get_boot_ns() - m->spin_since;
	} else if (m->mmap_since && is_mmap_lock(task, lock)) {
		sums = come_to_place(m, task);
		sums->mmap_waits++;
		sums->mmap_ns += bpf_ktime_get_boot_ns() - m->mmap_since;
		m->mmap_since = 0;
	}
	return 0;
}
