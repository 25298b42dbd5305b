/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Everything the programs keep, and what user space sets before load. */
#pragma once
#include "tables.h"

#define RING_BYTES (16 << 20)
#define SCRATCH_LEVELS 4
#define PCS_MASK 2047u

/* Sections of their own, so that user space finds them by the names of their maps. */
const volatile struct Config config SEC(".rodata.config");
u32 sweep_flags SEC(".data.sweep");

/* Where some functions of the kernel are; a length of 0: not known. Set while the programs are being loaded. */
struct {
	u64 tick_function; /* the scheduler's tick */
	u64 bh_enable_start, bh_enable_len; /* __local_bh_enable_ip: runs softirqs for the thread that calls it */
	u64 entry_start, entry_len; /* interrupts, exceptions, system calls */
} kernel_marks SEC(".data.kernel_marks");

struct site {
	u64 ip, sp, arg0;
	u64 blocked, runnable, max;
	u32 count;
	u32 install; /* how often the slot was given away; 0: free */
	union {
		struct {
			u16 operation; /* FUTEX_*; then arg0 is the address of the word, and part of the key */
			i16 nr;
			u8 flags, fd_kind, dirty, pad;
		};
		u64 call; /* of which the lowest CALL_BITS tell how it waits */
	};
};
#define CALL_BITS 40
_Static_assert(sizeof(struct site) == 64, "a cache line");

/* Address of the word that is waited on at a site; 0: it is none of a futex. */
static __always_inline u64 futex_word(const struct site *s)
{
	return s->operation ? s->arg0 : 0;
}

#define MARK_STACK_TAKEN 0x80 /* before the stay */
#define MARK_KERNEL_TAKEN 0x40 /* with it */

/* A wait that is over and not sent yet. */
struct ended {
	u64 since, wake, end;
	u64 waker, waker_place;
	char waker_comm[16];
	u32 waker_tid;
};
_Static_assert(sizeof(struct ended) == 64, "a cache line");

/* A followed thread. Written by the switch it takes part in, so by one processor at a time; `wake` and
 * `waker` fields by a waker that takes the long way, under pi_lock; others only read. `version` is odd while the sums change.
 * What every switch touches comes first: two cache lines, and one for the site. */
struct thread {
	u64 task; /* whose this is: the address of its task_struct; 0: nobody's; or this: */
#define THREAD_FORGOTTEN 1 /* it is being cleared */
	u64 since, next_cut;
	u64 delay_seen, exec_seen; /* the kernel's time on run queues and on processors when last read */
	union {
		struct {
			/* Of `last`, 0: nothing; else ENDED and WAIT_*, from bit 8 on the waker's kind, then the processor. */
			u32 told;
#define ENDED 0x80
#define ENDED_NAMED (1 << 12) /* waker_comm is its name */
#define ENDED_CPU_SHIFT 16
			u8 state;
			u8 exec_unknown; /* exec_seen is set when it leaves the processor */
			u8 marks; /* of the stay: WAIT_FIRST, WAIT_CUT_AT_START, MARK_* */
		};
		u64 unusual; /* 0 while it runs and nothing is left to be done but its sums */
	};
	u32 version;
	u32 wait; /* number of the stay off the processor; until its adoption is complete 0 or one of these: */
#define ADOPTION_BEGUN (~0u)
#define ADOPTION_MET (~0u - 1) /* by a switch of the thread */
	u32 involuntary; /* stays off the processor that it did not ask for */
	u8 current; /* index of the site it waits at */
	u8 slept; /* of the one it last slept at */
	u8 dirty;
	u8 passed; /* others found this taken: see threads.h. Stays when the thread ends. */

	u64 running, runnable, blocked;
	u64 wake;
	u64 waker; /* who ended the last sleep, if `wake` is set: its task_struct, to be read with care */
	u32 waker_tid;
	u32 cut_wait; /* the wait whose waker's stack was taken, or passed over: then `waker_place` is not 0 */
	u64 start;
	u64 first_allowed; /* the next first-sight stack is allowed from this time on */

	u64 seen[4]; /* which sites had a first-sight stack: a bit per key hash */
	char waker_comm[16];
	u64 waker_place;
	u64 woke_from; /* the places it woke others from whose stack was taken: a bit per hash */
	struct ended last;
	struct site sites[SITE_SLOTS];
	u64 stolen; /* on a processor, which the host or interrupts had: of the sums, but seldom written */
	u32 owes; /* the first of the waits whose user stack it will take on its way back to user space; 0: none */
	u8 waker_kind;
	u8 waker_named; /* waker_comm is its name */
	u8 pad[2];
	u64 born; /* when its task was made, by the kernel's account: no other task has both that and the address */
	u64 pad_to_line[5];
};
_Static_assert(sizeof(struct thread) % 64 == 0, "all begin a cache line");
_Static_assert(STATE_RUNNING == 0, "nothing unusual");
_Static_assert(__builtin_offsetof(struct thread, running) % 64 == 0, "begins a cache line");
_Static_assert(__builtin_offsetof(struct thread, last) % 64 == 0, "begins a cache line");
_Static_assert(__builtin_offsetof(struct thread, sites) % 64 == 0, "begins a cache line");

/* At the place that threads.h says; so many as user space says before load. Can be mapped, since then they begin a page. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* Processes to adopt at the next sweep (by tgid). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u8);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} ring SEC(".maps");

/* A record is put together in `head` (its end) and `data`: pcs, then a raw stack. */
#define RAW_REG_WORDS 17
#define HEAD_WORDS 14
#define RAW_WORDS (RAW_BYTES / 8)
struct scratch {
	u64 window[WINDOW_BYTES / 8]; /* a part of the stack */
	u64 window_at; /* its address; 1: none */
	u64 rule_high;
	u64 leaf[RAW_REG_WORDS]; /* registers of the innermost frame, as in struct RawRegs */
	u64 fault; /* a read failed */
	struct frame_walk walk;
	struct python_walk python;
	struct function_told function;
	struct CodeRecord code;
	u64 head[HEAD_WORDS];
	u64 pcs[PCS_MASK + 1 + RAW_REG_WORDS + RAW_WORDS + 512];
	u32 busy;
	u32 pad;
};
_Static_assert(sizeof(struct WaitRecord) == HEAD_WORDS * 8, "the largest head");

/* One per processor and level; sized at load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCRATCH_LEVELS);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Waits that a processor kept for their length. */
struct kept {
	u64 until; /* the end of this tenth of a second */
	u64 min; /* the length that they have to have, ns */
	u64 n; /* in this tenth of a second, since `min` last grew */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct kept);
} kept SEC(".maps");

/* The user stack of a wait that has ended is taken in one of two ways: at the end of the switch to its thread, of which
 * every switch of the machine has a part, or by work that the thread does on its way back to user space, which takes an
 * interrupt. User space says which of them is cheaper at the time: whether on_switched is attached. */
u32 switches_are_told SEC(".data.switches");

/* Not 0 from the switch to a thread that owes a stack until it runs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} owing SEC(".maps");

/* Known to the kernel by its name. */
struct bpf_task_work {
	u64 opaque;
} __attribute__((aligned(8)));
struct owed {
	struct bpf_task_work work;
};
#define OWED_SLOTS 4096
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, OWED_SLOTS);
	__type(key, u32);
	__type(value, struct owed);
} owed_works SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

static __always_inline void count(u32 index, u64 n)
{
	u64 *c = bpf_map_lookup_elem(&counters, &index);

	if (c)
		__sync_fetch_and_add(c, n); /* a thread's own context can be preempted, and moved */
}
