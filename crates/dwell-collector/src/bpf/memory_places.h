/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where followed threads get and give back memory: places, and their sums. See memory.h.
 *
 * A place is a process' user registers: (pc, sp) of the instruction that faulted, or of the system call. A thread adds up
 * what it does at some places in its own storage, and gives up the sums of one to the table of places when it needs room.
 * So a loop that maps, touches and unmaps costs no look-up in the table. A place's user stack is taken when it is first
 * seen and for one event in a thousand.
 *
 * How a fault ended nobody tells. But the task counts them when they are complete (min_flt, maj_flt): at the thread's
 * next event of any kind these have gone up by that fault, and what was seen since its begin tells its kind. So the kinds
 * add up to what the kernel tells, faults by the kernel itself (MAP_POPULATE, mlock) included.
 */
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct rw_semaphore {
	long held; /* not read: only its address matters */
};
struct mm_struct {
	struct rw_semaphore mmap_lock;
};
#pragma clang attribute pop
struct page;

#define MEMORY_PLACES 65536
#define NR_FAULT NR_NONE
#define NR_EXIT (-2)
#define PF_EXITING 0x4
#define GFP_MOVABLE 0x8
#define GFP_ZERO 0x100
#define HUGE_ORDER 9
#define STACK_REACH 65536 /* a fault so near to the stack pointer is one of the stack */

/* Of the fault in progress. */
#define FAULT_BEGUN 1
#define FAULT_WRITE 2
#define FAULT_PRESENT 4
#define FAULT_NEAR_STACK 8
#define FAULT_PAGE 16 /* a page for user space was allocated, */
#define FAULT_ZEROED 32 /* cleared by the allocator, */
#define FAULT_LARGE 64 /* of several pages, which the fault clears itself, */
#define FAULT_HUGE 128 /* or of 2 MiB */
#define FAULT_FILE 256 /* a file was looked into */

enum {
	KIND_ANONYMOUS,
	KIND_COPIED,
	KIND_FILE,
	KIND_STACK,
	KIND_HUGE,
	KIND_POPULATED, /* by the kernel itself, ahead of any touch */
	KIND_OTHER, /* a page was there or none was needed: a page table entry was all */
	KINDS,
};

/* Read by user space: see memory.rs. All u64, in its order. */
struct memory_sums {
	u64 minor, major; /* faults, as the task counts them */
	u64 kinds[KINDS];
	u64 calls, call_ns; /* system calls about memory that returned, and their time on a processor */
	u64 allocated, freed; /* pages of 4 KiB */
	u64 zeroed, zeroed_huge; /* of those allocated, cleared as small ones and as huge ones */
	u64 shootdowns, remote, remote_ns; /* times other processors were asked to flush, and what they did */
	u64 mmap_waits, mmap_ns; /* for the address space's lock */
	u64 spins, spin_ns; /* for spin locks of the kernel */
};
#define MEMORY_SUMS (sizeof(struct memory_sums) / 8)

struct memory_place {
	u32 tgid;
	i32 nr; /* of the system call, NR_FAULT or NR_EXIT */
	u64 ip, sp;
};

#define MEMORY_SLOTS 16

struct memory_slot {
	struct memory_place place;
	struct memory_sums sums; /* not yet in the table of places */
};

/* A followed thread; only it writes here. */
struct memory_thread {
	struct memory_slot slots[MEMORY_SLOTS];
	u64 counted; /* faults that the task had counted and that have their kind */
	u64 minor, major; /* what the task had counted when it came to its place */
	u64 call_since, call_off; /* begin of the call about memory, 0: in none; and its time off the processor by then */
	u64 mmap_since, spin_since, spin_lock;
	u64 stacks_from; /* the next stack of a new place is allowed from this time on */
	u32 at; /* index of the slot of the place it is at */
	u32 fault; /* FAULT_* */
	u32 to_stack; /* events until a stack is taken */
	u32 turn; /* which of two slots is given away next */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct memory_thread);
} memory_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMORY_PLACES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct memory_place);
	__type(value, struct memory_sums);
} memory_places SEC(".maps");

/* Who last asked for a flush in an address space (its struct mm_struct): the processors that are asked pay for it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct memory_place);
} memory_senders SEC(".maps");

/* Of a processor: the call from another one that it serves. */
struct memory_call {
	u64 since; /* 0: none */
	u64 mm; /* it flushes the address space, 0: it does not */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct memory_call);
} memory_calls SEC(".maps");

enum {
	MEMORY_ALLOCATED, /* pages of the whole machine */
	MEMORY_FREED,
	MEMORY_FLUSHED, /* sums that left a thread */
	MEMORY_LOST, /* of these, without room in the table of places */
	MEMORY_STACKS_SKIPPED,
	MEMORY_COUNTS,
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MEMORY_COUNTS);
	__type(key, u32);
	__type(value, u64);
} memory_counts SEC(".maps");

static __always_inline void count_memory(u32 index, u64 n)
{
	u64 *c = bpf_map_lookup_elem(&memory_counts, &index);

	if (c)
		*c += n;
}

static __always_inline u64 faults_of(struct task_struct *task)
{
	return task->min_flt + task->maj_flt;
}

/* What kind a fault was, from what was seen of it. */
static __always_inline u32 kind_of_fault(u32 f)
{
	if (f & FAULT_HUGE)
		return KIND_HUGE;
	if (f & FAULT_PAGE) {
		if (f & FAULT_FILE)
			return f & FAULT_WRITE ? KIND_COPIED : KIND_FILE;
		if (f & (FAULT_ZEROED | FAULT_LARGE))
			return f & FAULT_NEAR_STACK ? KIND_STACK : KIND_ANONYMOUS;
		/* Not cleared: a copy, or the memory that processes share, which is a file to the kernel. */
		return f & FAULT_PRESENT ? KIND_COPIED : KIND_FILE;
	}
	return f & FAULT_FILE ? KIND_FILE : KIND_OTHER;
}

static __always_inline struct memory_slot *slot_of(struct memory_thread *m)
{
	return &m->slots[m->at & (MEMORY_SLOTS - 1)];
}

/* Gives the faults that are complete their kinds. */
static __always_inline void end_fault(struct memory_thread *m, struct task_struct *task)
{
	u64 now = faults_of(task), complete = now - m->counted;
	struct memory_sums *sums = &slot_of(m)->sums;

	if (complete) {
		m->counted = now;
		if (m->fault & FAULT_BEGUN) {
			u32 kind = kind_of_fault(m->fault);

			if (kind < KINDS)
				sums->kinds[kind]++;
			complete--;
		}
		sums->kinds[KIND_POPULATED] += complete;
	}
	m->fault = 0;
}

/* The thread leaves its place: what it did there is complete. */
static __always_inline void leave_place(struct memory_thread *m, struct task_struct *task)
{
	struct memory_sums *sums = &slot_of(m)->sums;

	end_fault(m, task);
	sums->minor += task->min_flt - m->minor;
	sums->major += task->maj_flt - m->major;
	m->minor = task->min_flt;
	m->major = task->maj_flt;
}

/* Sums of a place in the table. What finds no room is one place of the process. */
static __always_inline struct memory_sums *table_entry(struct memory_place *key)
{
	struct memory_sums *to = bpf_map_lookup_elem(&memory_places, key), none = {};

	if (to)
		return to;
	bpf_map_update_elem(&memory_places, key, &none, BPF_NOEXIST);
	to = bpf_map_lookup_elem(&memory_places, key);
	if (to)
		return to;
	count_memory(MEMORY_LOST, 1);
	key->ip = key->sp = 0;
	key->nr = NR_FAULT;
	bpf_map_update_elem(&memory_places, key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&memory_places, key);
}

/* Moves a slot's sums to its place in the table. */
__noinline int flush_slot(struct memory_thread *m, u32 index)
{
	struct memory_slot *slot;
	struct memory_sums *to;
	struct memory_place key;
	u64 any = 0;

	if (!m)
		return 0;
	slot = &m->slots[index & (MEMORY_SLOTS - 1)];
	for (u32 i = 0; i < MEMORY_SUMS; i++)
		any |= ((u64 *)&slot->sums)[i];
	if (!any)
		return 0;
	count_memory(MEMORY_FLUSHED, 1);
	key = slot->place;
	to = table_entry(&key);
	for (u32 i = 0; i < MEMORY_SUMS; i++) {
		u64 n = ((u64 *)&slot->sums)[i];

		if (n && to)
			__sync_fetch_and_add(&((u64 *)to)[i], n);
		((u64 *)&slot->sums)[i] = 0;
	}
	return 0;
}

static __always_inline void flush_all(struct memory_thread *m, struct task_struct *task)
{
	leave_place(m, task);
	for (u32 i = 0; i < MEMORY_SLOTS; i++)
		flush_slot(m, i);
}

/* What user space knows a place of a process by: see memory.rs. */
static __always_inline u64 place_hash(u64 ip, u64 sp, i32 nr)
{
	return (ip ^ (u64)(u32)nr << 48) * 0x9e3779b97f4a7c15ull ^ sp * 0xc2b2ae3d27d4eb4full;
}

/* Sends the user stack of the current task, for the place it is at. */
__noinline int send_memory_stack(i32 nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct scratch *s = take_scratch(SCRATCH_TASK);
	struct StackRecord *r;

	if (!s)
		return 0;
	r = begin_stack(s, RECORD_MEMORY_STACK, task);
	r->sp = place_hash(regs->ip, regs->sp, nr);
	user_stack(s, r, task, 0);
	send_stack(s, r);
	give_scratch(s);
	return 0;
}

#define MEMORY_STACK_EVERY 1024 /* events */
#define MEMORY_FIRST_GAP_NS 1000000ull /* a new place's stack, of one thread: credit for up to so many is kept: */
#define MEMORY_FIRST_CREDIT 128

/* The thread comes to a place that has no slot. Whether its stack is wanted: nothing is known of it yet. */
__noinline int install_place(struct memory_thread *m, i32 nr, u64 ip, u64 sp)
{
	struct memory_place key = { .nr = nr, .ip = ip, .sp = sp };
	struct memory_sums none = {};
	u64 now;

	if (!m)
		return 0;
	flush_slot(m, m->at);
	key.tgid = bpf_get_current_pid_tgid() >> 32;
	slot_of(m)->place = key;
	if (bpf_map_lookup_elem(&memory_places, &key))
		return 0;
	now = bpf_ktime_get_boot_ns();
	if (now < m->stacks_from) {
		count_memory(MEMORY_STACKS_SKIPPED, 1);
		return 0; /* the next time it comes here */
	}
	if (m->stacks_from + MEMORY_FIRST_CREDIT * MEMORY_FIRST_GAP_NS < now)
		m->stacks_from = now - MEMORY_FIRST_CREDIT * MEMORY_FIRST_GAP_NS;
	m->stacks_from += MEMORY_FIRST_GAP_NS;
	bpf_map_update_elem(&memory_places, &key, &none, BPF_NOEXIST);
	return 1;
}

/* Not in the task's own context: an interrupt came. */
static __always_inline bool in_interrupt(void *ctx, struct task_struct *task)
{
	return !on_task_stack(ctx, task);
}

static __always_inline struct memory_thread *memory_of(struct task_struct *task)
{
	struct memory_thread *m;

	if (!task->bpf_storage)
		return NULL;
	m = bpf_task_storage_get(&memory_threads, task, 0, 0);
	if (m || !thread_of(task) || (task->flags & PF_KTHREAD))
		return m;
	m = bpf_task_storage_get(&memory_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!m) {
		count_memory(MEMORY_LOST, 1);
		return NULL;
	}
	m->minor = task->min_flt;
	m->major = task->maj_flt;
	m->counted = faults_of(task);
	m->to_stack = MEMORY_STACK_EVERY;
	return m;
}

static __always_inline bool is_at(const struct memory_slot *slot, i32 nr, u64 ip, u64 sp)
{
	return slot->place.ip == ip && slot->place.sp == sp && slot->place.nr == nr;
}

/* The current thread does something about memory where it is. Returns the sums of that place. */
static __always_inline struct memory_sums *come_to_place(struct memory_thread *m, struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	i32 nr = call_of(regs);
	u64 ip = regs->ip, sp = regs->sp;
	bool is_new = false;

	if (unlikely(task->flags & PF_EXITING))
		nr = NR_EXIT;
	if (!is_at(slot_of(m), nr, ip, sp)) {
		leave_place(m, task);
		m->at = place_hash(ip, sp, nr) >> 60;
		if (!is_at(slot_of(m), nr, ip, sp)) {
			m->at ^= 1; /* each place has two slots to choose from */
			if (!is_at(slot_of(m), nr, ip, sp)) {
				m->at ^= m->turn++ & 1;
				is_new = install_place(m, nr, ip, sp);
			}
		}
	}
	if (unlikely(is_new || --m->to_stack == 0)) {
		if (nr != NR_EXIT)
			send_memory_stack(nr);
		if (!m->to_stack)
			m->to_stack = MEMORY_STACK_EVERY / 2 + (bpf_get_prandom_u32() & (MEMORY_STACK_EVERY - 1));
	}
	return &slot_of(m)->sums;
}

/* A thread that dies comes to no other place: what it does then goes to the table at once. */
static __always_inline void after_event(struct memory_thread *m, struct task_struct *task)
{
	if (unlikely(task->flags & PF_EXITING)) {
		leave_place(m, task);
		flush_slot(m, m->at);
	}
}

