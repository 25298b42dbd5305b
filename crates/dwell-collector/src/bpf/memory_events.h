/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What followed threads do about memory: faults, pages, system calls, waits for locks. See memory.h. */
#pragma once
#include "memory_places.h"
#include "memory_locks.h"

/* ---- faults ---- */

static __always_inline u64 begun_fault(u64 address, u64 code, u64 sp)
{
	return FAULT_BEGUN | (code & 1 ? FAULT_PRESENT : 0) | (code & 2 ? FAULT_WRITE : 0) |
	       (address - (sp - STACK_REACH) < 2 * STACK_REACH ? FAULT_NEAR_STACK : 0);
}

/* The thread comes to fault at another place, or a stack is wanted. */
static __always_inline void come_to_fault(struct memory_now *now, struct task_struct *task, u64 ip, u64 sp)
{
	struct memory_thread *m = memory_of(task, now);

	if (!m)
		return;
	collect(m, now, task);
	arrive(m, task, NR_FAULT, ip, sp);
	now->ip = ip;
	now->sp = sp;
	now->quick = m->to_stack;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_fault_user, u64 address, struct pt_regs *regs, u64 code)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_now *now = memory_now();
	u64 ip = regs->ip, sp = regs->sp;

	if (!now || !find_thread(task))
		return 0;
	if (now->ip == ip && now->sp == sp && now->quick > 1 && now->task == (u64)task) {
		now->quick--;
		tell_faults(now, task);
	} else {
		come_to_fault(now, task, ip, sp);
	}
	now->seen = begun_fault(address, code, sp);
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_fault_kernel, u64 address, struct pt_regs *at, u64 code)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_now *now = memory_now();
	struct memory_thread *m;

	/* Who may not sleep gets no page but an error: our own reading of a stack, say. */
	if (!now || address >> 63 || task->pagefault_disabled || in_interrupt(ctx, task))
		return 0;
	m = memory_of(task, now);
	if (!m)
		return 0;
	collect(m, now, task);
	arrive_here(m, task);
	now->seen = begun_fault(address, code, slot_of(m)->place.sp);
	return 0;
}

/* Of whose thread this is nobody asks: it is looked at by events of threads that are followed. */
static __always_inline void mark_file(void)
{
	struct memory_now *now = memory_now();

	if (now)
		now->seen |= FAULT_FILE;
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

/* ---- system calls ---- */

#define CALL(nr) (1ull << (nr))
/* mmap, mprotect, munmap, brk, mremap, madvise */
#define CALLS_ABOUT_MEMORY (CALL(9) | CALL(10) | CALL(11) | CALL(12) | CALL(25) | CALL(28))

static __always_inline bool is_about_memory(u64 nr)
{
	if (nr < 64)
		return CALLS_ABOUT_MEMORY >> nr & 1;
	switch (nr) {
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

/* A reading of the clock costs as much as all else that is done at a call. So of each place the first calls are timed, and
 * then one in eight by chance. */
#define TIMED_FIRST 8
#define TIMED_GAP 15 /* the largest, from 1 on */

static __always_inline u32 begin_call_about_memory(struct memory_thread *m, struct task_struct *task, struct memory_sums *sums)
{
	m->call_since = 0;
	sums->calls++;
	if (sums->timed >= TIMED_FIRST && m->to_time > 1) {
		m->to_time--;
		return IN_CALL;
	}
	m->to_time = 1 + ((bpf_get_prandom_u32() & 0xffff) * TIMED_GAP >> 16);
	m->call_off = time_off(task);
	m->call_since = bpf_ktime_get_boot_ns();
	return IN_TIMED_CALL;
}

static __always_inline void end_timed_call(struct memory_thread *m, struct task_struct *task, struct memory_sums *sums)
{
	u64 span = bpf_ktime_get_boot_ns() - m->call_since, off = time_off(task) - m->call_off;

	m->call_since = 0;
	sums->timed++;
	sums->timed_ns += off < span ? span - off : 0;
}

/* Whether there is anything to take over. */
static __always_inline bool is_pending(const struct memory_now *now)
{
	return now->allocated | now->seen | now->ip | now->in_call | freed_since(now);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	struct memory_now *now = memory_now();
	struct task_struct *task;
	struct memory_thread *m;
	i32 nr = call_of(regs);
	bool about = is_about_memory(nr);

	if (!now || (!about && !is_pending(now)))
		return 0;
	task = bpf_get_current_task_btf();
	m = memory_of(task, now);
	if (!m)
		return 0;
	collect(m, now, task);
	now->seen = now->in_call = 0;
	if (about)
		now->in_call = begin_call_about_memory(m, task, arrive(m, task, nr, regs->ip, regs->sp));
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_now *now = memory_now();
	struct memory_sums *sums;
	struct memory_thread *m;
	i32 nr = call_of(regs);
	bool about = is_about_memory(nr);

	if (!now || (!about && !is_pending(now)))
		return 0;
	if (about && now->in_call == IN_CALL && now->task == (u64)task) {
		now->in_call = 0; /* the thread is at the call's place still, so its next event takes over what the call did */
		return 0;
	}
	m = memory_of(task, now);
	if (!m)
		return 0;
	sums = arrive(m, task, nr, regs->ip, regs->sp);
	collect(m, now, task);
	if (now->in_call == IN_TIMED_CALL && m->call_since)
		end_timed_call(m, task, sums);
	now->seen = now->in_call = 0;
	return 0;
}

/* ---- locks ---- */

static __always_inline bool is_mmap_lock(struct task_struct *task, u64 lock)
{
	struct mm_struct *mm = untrusted(task)->mm;

	return mm && lock == (u64)mm + bpf_core_field_offset(mm->mmap_lock);
}

SEC("tp_btf/contention_begin")
int BPF_PROG(on_memory_lock_wait, void *address, unsigned int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *m = known_memory_of(task);
	u64 lock = (u64)address;

	if (!m || in_interrupt(ctx, task))
		return 0;
	if (spins(flags)) {
		m->spin_lock = lock;
		m->spins_for = lock_of_memory(lock); /* now, since later it would have the lock meanwhile */
		m->spin_since = bpf_ktime_get_boot_ns();
		return 0;
	}
	if (m->mmap_since || !is_mmap_lock(task, lock))
		return 0;
	m->mmap_since = bpf_ktime_get_boot_ns();
	return 0;
}

static __always_inline void add_spin(struct memory_sums *sums, enum memory_lock lock, u64 ns)
{
	sums->spins++;
	sums->spin_ns += ns;
	switch (lock) {
	case LOCK_ZONE:
		sums->zone_waits++;
		sums->zone_ns += ns;
		break;
	case LOCK_LIST:
		sums->list_waits++;
		sums->list_ns += ns;
		break;
	case LOCK_OTHER:
		break;
	}
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_memory_lock_got, void *address, int result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *m = known_memory_of(task);
	u64 lock = (u64)address;
	struct memory_sums *sums;

	if (!m || in_interrupt(ctx, task))
		return 0;
	if (m->spin_lock == lock) {
		sums = arrive_here(m, task);
		m->spin_lock = 0;
		add_spin(sums, m->spins_for, bpf_ktime_get_boot_ns() - m->spin_since);
	} else if (m->mmap_since && is_mmap_lock(task, lock)) {
		sums = arrive_here(m, task);
		sums->mmap_waits++;
		sums->mmap_ns += bpf_ktime_get_boot_ns() - m->mmap_since;
		m->mmap_since = 0;
	}
	return 0;
}
