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
 *
 * Faults and pages come by the thousand, so as little as possible is done for one: programs add to numbers of the
 * processor (`now`), which are the running thread's, and look nothing up. Its next event at another place takes them over
 * to the place it is at; so does a switch. A system call that is about nothing of this is an event if there is something
 * to take over. Not every switch is seen (see dwell.bpf.c): so the numbers say whose they are, and who finds another's
 * begins anew. The task's counts tell which faults another has lost by that; its pages are lost, and counted as such.
 */
#pragma once
#include "memory_freed.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct rw_semaphore {
	long held; /* not read: only its address matters */
};
struct mm_struct {
	struct rw_semaphore mmap_lock;
};
#pragma clang attribute pop
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

#define IN_CALL 1
#define IN_TIMED_CALL 2

/* What the thread on a processor has done since its last event. */
struct memory_now {
	u64 task; /* that thread */
	u64 seen; /* FAULT_* */
	u64 allocated, zeroed, zeroed_huge; /* pages */
	u64 freed_at; /* where the processor's count of freed pages is; 0: not known yet */
	u64 freed_before; /* that count when it was last asked */
	u64 freed_interrupted; /* and when the interrupt began whose work is being done */
	u64 minor_before, major_before; /* faults that the task had counted when it was last asked */
	u64 ip, sp; /* its last event was a fault there; ip 0: it was another */
	u32 quick; /* faults there until a stack is taken */
	u32 interrupted; /* an interrupt's work is being done */
	u32 in_call; /* IN_CALL or IN_TIMED_CALL, while it is in a call about memory */
	u64 minor, major, kinds[KINDS];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct memory_now);
} memory_nows SEC(".maps");

static __always_inline struct memory_now *memory_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&memory_nows, &zero);
}

/* Read by user space: see memory.rs. All u64, in its order. */
struct memory_sums {
	u64 minor, major; /* faults, as the task counts them */
	u64 kinds[KINDS];
	u64 calls; /* system calls about memory */
	u64 timed, timed_ns; /* how many of them were timed, and their time on a processor */
	u64 allocated, freed; /* pages of 4 KiB */
	u64 zeroed, zeroed_huge; /* of those allocated, cleared as small ones and as huge ones */
	u64 shootdowns, remote, remote_ns; /* times other processors were asked to flush, and what they did */
	u64 mmap_waits, mmap_ns; /* for the address space's lock */
	u64 spins, spin_ns; /* for spin locks of the kernel, */
	u64 zone_waits, zone_ns; /* of these for free pages, */
	u64 list_waits, list_ns; /* and for lists of pages in use */
};
#define MEMORY_SUMS (sizeof(struct memory_sums) / 8)

struct memory_place {
	u32 tgid;
	i32 nr; /* of the system call, NR_FAULT or NR_EXIT */
	u64 ip, sp;
};

struct memory_entry {
	struct memory_sums sums;
	u64 peak, peak_look; /* pages it held when its process held most, if that was at this look: see memory_owners.h */
};

#define MEMORY_SLOTS 16

struct memory_slot {
	struct memory_place place;
	struct memory_sums sums; /* not yet in the table of places */
};

/* A followed thread; only it writes here. */
struct memory_thread {
	struct memory_slot slots[MEMORY_SLOTS];
	u64 minor, major; /* faults of the task that its sums have */
	u64 call_since, call_off; /* begin of the call about memory, 0: it is not timed; and its time off the processor by then */
	u64 mmap_since, spin_since, spin_lock;
	u64 stacks_from; /* the next stack of a new place is allowed from this time on */
	u32 at; /* index of the slot of the place it is at */
	u32 fault; /* FAULT_*, while it is off the processor */
	u32 to_stack; /* events until a stack is taken */
	u32 to_time; /* calls until one is timed */
	u32 in_call; /* as in memory_now, while it is off the processor */
	u32 turn; /* which of two slots is given away next */
	u32 spins_for; /* enum memory_lock */
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
	__type(value, struct memory_entry);
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
	MEMORY_FLUSHED, /* sums that left a thread */
	MEMORY_LOST, /* of these, without room in the table of places */
	MEMORY_STACKS_SKIPPED,
	MEMORY_OWNERS_LOST, /* pages whose owner found no room */
	MEMORY_BY_KERNEL, /* pages that threads of the kernel allocated */
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

/* Gives the faults that are complete their kinds. One that has not been counted by now is still going on, or came to
 * nothing. */
static __always_inline void tell_faults(struct memory_now *now, struct task_struct *task)
{
	u64 minor = task->min_flt - now->minor_before, major = task->maj_flt - now->major_before, complete = minor + major;

	if (!complete)
		return;
	now->minor_before += minor;
	now->major_before += major;
	now->minor += minor;
	now->major += major;
	if (now->seen & FAULT_BEGUN) {
		u32 kind = kind_of_fault(now->seen);

		if (kind < KINDS)
			now->kinds[kind]++;
		complete--;
	}
	now->kinds[KIND_POPULATED] += complete;
	now->seen = 0;
}

/* The task is on the processor. */
static __always_inline void find_freed_count(struct memory_now *now, struct task_struct *task)
{
	if (unlikely(!now->freed_at))
		note_freed_count(&now->freed_at, task);
}

/* The processor's count of freed pages. */
static __always_inline u64 freed_so_far(const struct memory_now *now)
{
	return now->freed_at ? freed_count(now->freed_at) : 0;
}

/* Pages that the thread on the processor has freed since its last event. */
static __always_inline u64 freed_since(const struct memory_now *now)
{
	return freed_so_far(now) - now->freed_before;
}

static __always_inline void collect_pages(struct memory_now *now, struct memory_sums *sums)
{
	u64 freed = freed_since(now);

	sums->freed += freed;
	now->freed_before += freed;
	if (now->allocated) {
		sums->allocated += now->allocated;
		sums->zeroed += now->zeroed;
		sums->zeroed_huge += now->zeroed_huge;
		now->allocated = now->zeroed = now->zeroed_huge = 0;
	}
}

static __always_inline void collect_faults(struct memory_thread *m, struct memory_now *now, struct task_struct *task)
{
	struct memory_sums *sums = &slot_of(m)->sums;

	tell_faults(now, task);
	if (now->minor | now->major) {
		sums->minor += now->minor;
		sums->major += now->major;
		now->minor = now->major = 0;
		m->minor = now->minor_before;
		m->major = now->major_before;
		for (u32 i = 0; i < KINDS; i++) {
			sums->kinds[i] += now->kinds[i];
			now->kinds[i] = 0;
		}
	}
	if (now->ip) {
		m->to_stack = now->quick;
		now->ip = 0;
	}
}

/* What the thread has done since its last event goes to the place it is at. */
static __always_inline void collect(struct memory_thread *m, struct memory_now *now, struct task_struct *task)
{
	collect_faults(m, now, task);
	collect_pages(now, &slot_of(m)->sums);
}

/* Sums of a place in the table. What finds no room is one place of the process. */
static __always_inline struct memory_entry *table_entry(struct memory_place *key)
{
	struct memory_entry *to = bpf_map_lookup_elem(&memory_places, key), none = {};

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
	struct memory_entry *to;
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
			__sync_fetch_and_add(&((u64 *)&to->sums)[i], n);
		((u64 *)&slot->sums)[i] = 0;
	}
	return 0;
}

static __always_inline void flush_all(struct memory_thread *m)
{
	for (u32 i = 0; i < MEMORY_SLOTS; i++)
		flush_slot(m, i);
}

/* What user space knows a place of a process by: see memory.rs. */
static __always_inline u64 place_hash(u64 ip, u64 sp, i32 nr)
{
	return (ip ^ (u64)(u32)nr << 48) * HASH ^ sp * 0xc2b2ae3d27d4eb4full;
}

/* Sends the user stack of the current task, for the place it is at. */
__noinline int send_memory_stack(i32 nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = registers_of(task);
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
	struct memory_entry none = {};
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

/* Another thread has the processor, or one that nothing was known of. */
static __always_inline void begin_anew(struct memory_now *now, struct task_struct *task, struct memory_thread *m)
{
	now->task = (u64)task;
	now->interrupted = now->in_call = 0;
	now->allocated = now->zeroed = now->zeroed_huge = 0;
	now->freed_before = freed_so_far(now);
	now->minor = now->major = now->ip = now->seen = 0;
	for (u32 i = 0; i < KINDS; i++)
		now->kinds[i] = 0;
	if (!m)
		return;
	now->minor_before = m->minor;
	now->major_before = m->major;
	now->seen = m->fault;
	now->in_call = m->in_call;
}

/* Most threads of a system have none of ours, nor any: a load tells, and a call is saved. */
static __always_inline struct memory_thread *known_memory_of(struct task_struct *task)
{
	return task->bpf_storage ? bpf_task_storage_get(&memory_threads, task, 0, 0) : NULL;
}

/* The numbers become the thread's if they are not: its switch was not seen. Pages that were freed are those of a thread that no
 * program may see; some are its own if it had left in the midst of a call. */
static __always_inline void make_own(struct memory_now *now, struct task_struct *task, struct memory_thread *m)
{
	if (!unlikely(now->task != (u64)task))
		return;
	if (now->allocated || (m->in_call && freed_since(now)))
		count_memory(MEMORY_LOST, 1);
	find_freed_count(now, task);
	begin_anew(now, task, m);
}

/* The same of the current thread; it is made if it is followed and has none yet. */
static __always_inline struct memory_thread *memory_of(struct task_struct *task, struct memory_now *now)
{
	struct memory_thread *m = known_memory_of(task);

	if (m) {
		make_own(now, task, m);
		return m;
	}
	if (!thread_of(task) || (task->flags & PF_KTHREAD))
		return NULL;
	m = bpf_task_storage_get(&memory_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!m) {
		count_memory(MEMORY_LOST, 1);
		return NULL;
	}
	m->minor = task->min_flt;
	m->major = task->maj_flt;
	m->to_stack = MEMORY_STACK_EVERY;
	find_freed_count(now, task);
	begin_anew(now, task, m);
	return m;
}

static __always_inline bool is_at(const struct memory_slot *slot, i32 nr, u64 ip, u64 sp)
{
	return slot->place.ip == ip && slot->place.sp == sp && slot->place.nr == nr;
}

/* The current thread is at a place, about which it does something. What it did before has been collected. Returns its sums. */
static __always_inline struct memory_sums *arrive(struct memory_thread *m, struct task_struct *task, i32 nr, u64 ip, u64 sp)
{
	bool is_new = false;

	if (unlikely(task->flags & PF_EXITING))
		nr = NR_EXIT;
	if (!is_at(slot_of(m), nr, ip, sp)) {
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

/* The same of where the kernel is asked from. */
static __always_inline struct memory_sums *arrive_here(struct memory_thread *m, struct task_struct *task)
{
	struct pt_regs *regs = registers_of(task);

	return arrive(m, task, call_of(regs), regs->ip, regs->sp);
}
