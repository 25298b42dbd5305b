/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Every acquisition and release of the kernel's spin locks is counted; those that somebody waits for are
 * kept, with a stack: the rest cannot tell anything but their number.
 *
 * The filter asks the lock's own word (a queued spin lock): not 0 at an acquisition: it is held, we wait. More
 * than the byte of the holder at a release: somebody waits. So there is no table of locks, nothing that could
 * go out of step when an event is missed, and no lock is taken to look at one. What comes between the look and
 * the acquisition is seen at the release.
 *
 * What runs inside a lock function may take no lock: counts and kept events lie in memory of the processor
 * they happen on. (bpf_ringbuf_reserve takes a spin lock: in _raw_spin_lock_irqsave it waits for ever.)
 * The kernel does not run a program where it runs already, and counts that (recursion_misses); `busy` keeps
 * programs from writing an event while they interrupted another that does.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "targets.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Read by user space, too: see functions/spin_locks.rs. */
#define STACK_FRAMES 13

/* The functions, in the order of functions/spin_locks.rs. */
enum {
	LOCK, LOCK_BH, LOCK_IRQ, LOCK_IRQSAVE, TRYLOCK, TRYLOCK_BH,
	UNLOCK, UNLOCK_BH, UNLOCK_IRQ, UNLOCK_IRQRESTORE, FUNCTIONS,
};

/* Events each processor has room for; a power of two. */
const volatile u32 capacity = 4096;
/* Only operations of threads of `targets`. */
const volatile bool filtered;
/* Every operation is kept, without a stack: to measure what the filter saves. */
const volatile bool keep_all;

struct operations {
	u64 all;
	u64 contended; /* held at an acquisition, waited for at a release */
	u64 failed;    /* tries that did not get it */
};

struct processor {
	u64 head; /* events written; by the processor */
	u64 tail; /* events read; by user space */
	u64 no_room;
	u64 nested; /* an event during an event */
	u64 busy;
	u64 pad[3];
	struct operations of[FUNCTIONS];
	u64 pad_end[2];
};
_Static_assert(sizeof(struct processor) % 64 == 0, "processors share no cache line");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* as many as there are processors */
	__type(key, u32);
	__type(value, struct processor);
} processors SEC(".maps");

struct event {
	u64 ns;
	u64 lock;
	u32 tid;
	u16 function;
	u16 frames; /* of `stack` */
	u64 stack[STACK_FRAMES];
};
_Static_assert(sizeof(struct event) == 128, "two cache lines");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* capacity for each processor */
	__type(key, u32);
	__type(value, struct event);
} events SEC(".maps");

static __always_inline struct processor *here(u32 cpu)
{
	if (filtered && !is_target())
		return NULL;
	return bpf_map_lookup_elem(&processors, &cpu);
}

static __always_inline void keep(u64 *ctx, struct processor *p, u32 cpu, u32 function)
{
	struct event *event;
	long length = 0;
	u32 slot;

	if (p->busy) {
		p->nested += 1;
		return;
	}
	p->busy = 1;
	slot = cpu * capacity + ((u32)p->head & (capacity - 1));
	event = bpf_map_lookup_elem(&events, &slot);
	if (!event || p->head - p->tail >= capacity) {
		p->no_room += 1;
		goto out;
	}
	event->lock = ctx[0];
	event->tid = bpf_get_current_pid_tgid();
	event->function = function;
	if (!keep_all)
		length = bpf_get_stack(ctx, event->stack, sizeof(event->stack), 0);
	event->frames = length > 0 ? length / 8 : 0;
	event->ns = bpf_ktime_get_ns();
	asm volatile("" ::: "memory"); /* the reader sees the event when it sees the head */
	p->head += 1;
out:
	p->busy = 0;
}

static __always_inline u32 word(u64 *ctx)
{
	/* The lock is a BTF pointer to what begins with the word. */
	return *(volatile u32 *)ctx[0];
}

static __always_inline int acquire(u64 *ctx, u32 function)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct processor *p = here(cpu);
	bool held;

	if (!p)
		return 0;
	p->of[function].all += 1;
	held = word(ctx) != 0;
	if (held)
		p->of[function].contended += 1;
	if (held || keep_all)
		keep(ctx, p, cpu, function);
	return 0;
}

static __always_inline int tried(u64 *ctx, u32 function)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct processor *p = here(cpu);

	if (!p)
		return 0;
	if (!(u32)ctx[1]) {
		p->of[function].failed += 1;
		return 0;
	}
	p->of[function].all += 1;
	if (keep_all)
		keep(ctx, p, cpu, function);
	return 0;
}

static __always_inline int release(u64 *ctx, u32 function)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct processor *p = here(cpu);
	bool wanted;

	if (!p)
		return 0;
	p->of[function].all += 1;
	wanted = word(ctx) >> 8 != 0;
	if (wanted)
		p->of[function].contended += 1;
	if (wanted || keep_all)
		keep(ctx, p, cpu, function);
	return 0;
}

#define AT(when, name, what, function)                                                                                 \
	SEC(when "/_raw_spin_" #name) int on_##name(u64 *ctx)                                                          \
	{                                                                                                              \
		return what(ctx, function);                                                                            \
	}

AT("fentry", lock, acquire, LOCK)
AT("fentry", lock_bh, acquire, LOCK_BH)
AT("fentry", lock_irq, acquire, LOCK_IRQ)
AT("fentry", lock_irqsave, acquire, LOCK_IRQSAVE)
AT("fexit", trylock, tried, TRYLOCK)
AT("fexit", trylock_bh, tried, TRYLOCK_BH)
AT("fentry", unlock, release, UNLOCK)
AT("fentry", unlock_bh, release, UNLOCK_BH)
AT("fentry", unlock_irq, release, UNLOCK_IRQ)
AT("fentry", unlock_irqrestore, release, UNLOCK_IRQRESTORE)
