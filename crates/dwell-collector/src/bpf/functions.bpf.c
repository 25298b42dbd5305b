/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls of one kernel function: how many, how long from entry to return, from where. This object is opened
 * once per function, with `function` set; all of them share their maps.
 *
 * - A call is known by its place on the stack: `ctx` of entry and exit is the same address in the same
 *   trampoline's frame, and no two calls that live at a time have the same. So neither recursion nor
 *   interrupts nor sleep send an exit to another call's entry.
 * - Programs may be entered again below themselves: the maps used here call functions that may be
 *   traced. The kernel does not run a program on a processor where it runs already, and counts that
 *   (recursion_misses); `busy` keeps the other programs of ours out, and is counted.
 * - Nothing here waits for anything but the maps' own locks, which only programs that hold `busy` take.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "targets.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Read by user space, too: see functions/programs.rs. */
#define FUNCTIONS 64
#define BUCKETS 64
#define LIVE_CALLS 16384
#define CALLERS 16384
#define CALLER_FRAMES 32

const volatile u32 function;
/* Only calls by threads of `targets`. */
const volatile bool filtered;

struct function_sums {
	u64 calls;   /* entries that were counted */
	u64 returns; /* exits that found their entry */
	u64 ns;      /* from entry to exit, of these */
	u64 max_ns;
	u64 own;      /* entries from within our own programs: not the kernel's calls, or not timed */
	u64 no_room;  /* calls that were counted but found no room to be timed */
	u64 no_stack; /* calls that were counted without a caller */
	u64 unknown;  /* exits of calls that began before, or whose entry was missed */
	u64 buckets[BUCKETS]; /* returns by the highest bit of their ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FUNCTIONS);
	__type(key, u32);
	__type(value, struct function_sums);
} sums SEC(".maps");

struct call {
	u64 since;
	u32 function;
	i32 stack;
};

/* Calls that have not returned, by their place on the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LIVE_CALLS);
	__type(key, u64);
	__type(value, struct call);
} calls SEC(".maps");

struct caller {
	u32 function;
	i32 stack;
};
struct caller_sums {
	u64 calls, ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, CALLERS);
	__type(key, struct caller);
	__type(value, struct caller_sums);
} callers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, CALLERS);
	__uint(key_size, 4);
	__uint(value_size, CALLER_FRAMES * 8);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} busy SEC(".maps");

static __always_inline u32 *busy_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&busy, &zero);
}

static __always_inline struct function_sums *sums_here(void)
{
	u32 index = function;

	return bpf_map_lookup_elem(&sums, &index);
}

static __always_inline bool wanted(void)
{
	return !filtered || is_target();
}

/* One call from a place; false when there is no room for the place. */
static __always_inline bool add_caller(i32 stack)
{
	struct caller key = { .function = function, .stack = stack };
	struct caller_sums *found, first = { .calls = 1 };

	found = bpf_map_lookup_elem(&callers, &key);
	if (!found)
		return bpf_map_update_elem(&callers, &key, &first, BPF_NOEXIST) == 0;
	found->calls += 1;
	return true;
}

static __always_inline void add_time(struct function_sums *s, u64 ns, i32 stack)
{
	struct caller key = { .function = function, .stack = stack };
	struct caller_sums *place;
	u32 bucket = 0;

#pragma unroll
	for (int bit = 32; bit; bit >>= 1)
		if (ns >> bucket >> bit)
			bucket += bit;
	s->returns += 1;
	s->ns += ns;
	if (ns > s->max_ns)
		s->max_ns = ns;
	s->buckets[bucket & (BUCKETS - 1)] += 1;
	place = stack < 0 ? NULL : bpf_map_lookup_elem(&callers, &key);
	if (place)
		place->ns += ns;
}

SEC("fentry")
int on_entry(u64 *ctx)
{
	struct call call = { .function = function };
	u64 frame = (u64)ctx;
	struct function_sums *s;
	u32 *busy;

	if (!wanted())
		return 0;
	s = sums_here();
	busy = busy_here();
	if (!s || !busy)
		return 0;
	if (*busy) {
		s->own += 1;
		return 0;
	}
	*busy = 1;
	s->calls += 1;
	call.stack = bpf_get_stackid(ctx, &stacks, 0);
	if (call.stack < 0 || !add_caller(call.stack)) {
		s->no_stack += 1;
		call.stack = -1;
	}
	call.since = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&calls, &frame, &call, BPF_ANY))
		s->no_room += 1;
	*busy = 0;
	return 0;
}

SEC("fexit")
int on_exit(u64 *ctx)
{
	u64 now = bpf_ktime_get_ns(), frame = (u64)ctx;
	struct function_sums *s;
	struct call *call;
	u32 *busy;

	if (!wanted())
		return 0;
	s = sums_here();
	busy = busy_here();
	if (!s || !busy || *busy)
		return 0; /* an entry from within our programs was not counted either */
	*busy = 1;
	call = bpf_map_lookup_elem(&calls, &frame);
	if (call && call->function == function) {
		add_time(s, now - call->since, call->stack);
		bpf_map_delete_elem(&calls, &frame);
	} else {
		s->unknown += 1;
	}
	*busy = 0;
	return 0;
}
