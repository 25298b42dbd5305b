/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Locks of the kernel that followed threads waited for: sums by place, lock and kind of lock. Loaded for
 * `dwell record --locks` only.
 *
 * A waiter passes contention_begin before it waits and contention_end when it has the lock. A mutex begins
 * again when spinning was in vain and it goes to sleep; there is one end. A native queued spin lock does not
 * tell of a single waiter, who spins beside the queue; a paravirtual one does.
 *
 * Who spins is bound to its processor, where nothing but interrupts comes between; who sleeps is known by
 * its number. So no wait needs storage that could be waited for itself.
 */
#pragma once

#define KERNEL_LOCK_FRAMES 64 /* as MAX_KERNEL_FRAMES; a depth that stack maps allow by default */
#define KERNEL_LOCK_PLACES 16384
#define KERNEL_LOCK_SLEEPERS 4096
/* A thread, a soft interrupt, a hard one, and one to spare. */
#define KERNEL_LOCK_LEVELS 4

/* Flags of contention_begin, unchanged since 5.19. */
#define LOCK_SPIN 1
#define LOCK_MUTEX 32

struct lock_wait {
	u64 lock; /* 0: free */
	u64 since;
	u32 flags;
	i32 stack; /* negative: none */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KERNEL_LOCK_LEVELS);
	__type(key, u32);
	__type(value, struct lock_wait);
} lock_spinners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, KERNEL_LOCK_SLEEPERS);
	__type(key, u32);
	__type(value, struct lock_wait);
} lock_sleepers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, KERNEL_LOCK_PLACES);
	__uint(key_size, 4);
	__uint(value_size, KERNEL_LOCK_FRAMES * 8);
} lock_stacks SEC(".maps");

/* A stack takes µs, and who spins has the lock mostly before that: it would wait for us. So the same stack is taken for
 * waits that are alike: for the same lock, in the same system call, by the same return addresses nearby on the stack. What
 * differs farther up is told from them by chance: one wait in so many has its stack taken again.
 *
 * Between the return addresses nearby lie words that calls before have left. Which words are the former is learned
 * from stacks that were taken, for each way into a lock: the first three words that are addresses of code. */
#define STACK_FOR_SPINS 256
#define WORDS_NEARBY 40 /* as far as to who called the function that takes the lock, and somewhat farther */
#define FRAMES_NEARBY 16 /* more than lie among these words */
#define CODE_OF_KERNEL 0x1ffffffffull /* what its addresses begin with */
#define CALLS_INTO_LOCK 3
#define LOCK_PATHS 1024
#define LOCK_PATHS_SHIFT 54
#define LOCK_CALLS 256
#define LOCK_CALLS_SHIFT 56

struct lock_path {
	u64 path; /* a hash */
	i32 stack;
	u32 left; /* so many waits have this stack still */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOCK_PATHS);
	__type(key, u32);
	__type(value, struct lock_path);
} lock_paths SEC(".maps");

struct lock_calls {
	u64 calls; /* a hash */
	u64 returns; /* which of the words nearby are return addresses: a bit each */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOCK_CALLS);
	__type(key, u32);
	__type(value, struct lock_calls);
} lock_calls SEC(".maps");

struct lock_stack {
	u64 words[WORDS_NEARBY];
	u64 frames[FRAMES_NEARBY];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lock_stack);
} lock_stack SEC(".maps");

/* Read by user space: see kernel_locks.rs. */
struct lock_place {
	u64 lock;
	u32 tgid;
	u32 flags;
	i32 stack;
	u32 pad;
};
struct lock_sums {
	u64 waits, ns, max;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, KERNEL_LOCK_PLACES);
	__type(key, struct lock_place);
	__type(value, struct lock_sums);
} lock_places SEC(".maps");

/* Waits that ended, and those of them that found no room. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} lock_counts SEC(".maps");

static __always_inline void count_lock(u32 index)
{
	u64 *n = bpf_map_lookup_elem(&lock_counts, &index);

	if (n)
		*n += 1;
}

static __always_inline bool spins(u32 flags)
{
	return (flags & (LOCK_SPIN | LOCK_MUTEX)) == LOCK_SPIN;
}

/* The wait for a lock that spins on this processor; with 0 a free place. */
static __always_inline struct lock_wait *spinner(u64 lock)
{
	struct lock_wait *wait;
	u32 level;

	for (level = 0; level < KERNEL_LOCK_LEVELS; level++) {
		u32 key = level;

		wait = bpf_map_lookup_elem(&lock_spinners, &key);
		if (wait && wait->lock == lock)
			return wait;
	}
	return NULL;
}

/* A hash of the calls into the lock. */
static __always_inline u64 calls_into_lock(const struct lock_stack *near)
{
	u64 calls = 0;

	for (u32 i = 0, n = 0; i < WORDS_NEARBY && n < CALLS_INTO_LOCK; i++) {
		if (near->words[i] >> 31 == CODE_OF_KERNEL) {
			calls = (calls ^ near->words[i]) * HASH;
			n++;
		}
	}
	return calls;
}

/* The words that are return addresses, added to a hash. */
__noinline u64 path_by(const struct lock_stack *near, u64 returns, u64 path)
{
	if (!near)
		return 0;
	for (u32 i = 0; i < WORDS_NEARBY; i++)
		if (returns >> i & 1)
			path = path * HASH ^ near->words[i];
	return path * HASH;
}

/* Which words are return addresses, by the first `n` frames. */
__noinline u64 returns_among(const struct lock_stack *near, u32 n)
{
	u64 returns = 0;

	if (!near)
		return 0;
	for (u32 i = 0; i < WORDS_NEARBY; i++)
		for (u32 frame = 0; frame < FRAMES_NEARBY && frame < n; frame++)
			if (near->words[i] == near->frames[frame])
				returns |= 1ull << i;
	return returns;
}

static __always_inline void learn_returns(void *ctx, struct lock_calls *known, u64 calls, struct lock_stack *near)
{
	long size = bpf_get_stack(ctx, near->frames, sizeof(near->frames), 0);
	u64 returns;

	if (size <= 0)
		return;
	returns = returns_among(near, size / 8);
	/* What a call before has left may be one of these frames, too, but not each time. */
	known->returns = known->calls == calls ? known->returns & returns : returns;
	known->calls = calls;
}

static __always_inline struct lock_path *lock_path(u64 path)
{
	u32 key = path >> LOCK_PATHS_SHIFT;

	return bpf_map_lookup_elem(&lock_paths, &key);
}

/* The stack of one who is going to spin. */
static __always_inline i32 spinner_stack(void *ctx, struct task_struct *task, u64 lock, u32 flags)
{
	u32 key = 0;
	struct lock_stack *near = bpf_map_lookup_elem(&lock_stack, &key);
	struct lock_calls *known;
	struct lock_path *at;
	u64 calls, whose, path;
	i32 stack;

	if (!near || (task->flags & PF_KTHREAD) || bpf_probe_read_kernel(near->words, sizeof(near->words), ctx))
		return bpf_get_stackid(ctx, &lock_stacks, 0);
	calls = calls_into_lock(near);
	whose = calls ^ lock ^ (u64)(u32)call_of(registers_of(task)) << 48 ^ (u64)flags << 56;
	key = calls >> LOCK_CALLS_SHIFT;
	known = bpf_map_lookup_elem(&lock_calls, &key);
	if (!known)
		return bpf_get_stackid(ctx, &lock_stacks, 0);
	path = path_by(near, known->returns, whose);
	at = lock_path(path);
	if (known->calls == calls && at && at->path == path && at->left) {
		at->left--;
		return at->stack;
	}
	stack = bpf_get_stackid(ctx, &lock_stacks, 0);
	learn_returns(ctx, known, calls, near);
	path = path_by(near, known->returns, whose);
	at = lock_path(path);
	if (at && stack >= 0) {
		at->path = path;
		at->stack = stack;
		at->left = STACK_FOR_SPINS - 1;
	}
	return stack;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(on_contention_begin, void *address, unsigned int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 lock = (u64)address;
	struct lock_wait *wait, new = {};
	u32 tid = task->pid, first = 0;

	if (!thread_of(task))
		return 0;
	new.lock = lock;
	new.flags = flags;
	if (spins(flags)) {
		wait = spinner(0);
		/* Whose end was not seen makes room. */
		if (!wait)
			wait = bpf_map_lookup_elem(&lock_spinners, &first);
		if (!wait)
			return 0;
		new.stack = spinner_stack(ctx, task, lock, flags);
		new.since = bpf_ktime_get_boot_ns();
		*wait = new;
		return 0;
	}
	wait = bpf_map_lookup_elem(&lock_sleepers, &tid);
	if (wait && wait->lock == lock)
		return 0; /* from spinning to sleep */
	new.stack = bpf_get_stackid(ctx, &lock_stacks, 0);
	new.since = bpf_ktime_get_boot_ns();
	if (bpf_map_update_elem(&lock_sleepers, &tid, &new, BPF_ANY)) {
		count_lock(0);
		count_lock(1);
	}
	return 0;
}

static __always_inline void end_lock_wait(struct lock_wait *wait, u32 tgid)
{
	struct lock_place place = { .lock = wait->lock, .tgid = tgid, .flags = wait->flags, .stack = wait->stack };
	u64 since = in_window(wait->since), now = window_now(), ns; /* its part in the window */
	struct lock_sums *sums, none = {};

	wait->lock = 0;
	if (now <= since)
		return;
	ns = now - since;
	count_lock(0);
	sums = bpf_map_lookup_elem(&lock_places, &place);
	if (!sums) {
		bpf_map_update_elem(&lock_places, &place, &none, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&lock_places, &place);
	}
	if (!sums) {
		count_lock(1);
		return;
	}
	__sync_fetch_and_add(&sums->waits, 1);
	__sync_fetch_and_add(&sums->ns, ns);
	if (ns > sums->max)
		sums->max = ns; /* of two at once the later one's may stay */
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_contention_end, void *address, int result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 lock = (u64)address;
	struct lock_wait *wait;
	u32 tid = task->pid;

	if (!thread_of(task))
		return 0;
	wait = spinner(lock);
	if (wait) {
		end_lock_wait(wait, task->tgid);
		return 0;
	}
	wait = bpf_map_lookup_elem(&lock_sleepers, &tid);
	if (!wait || wait->lock != lock)
		return 0; /* its beginning was not seen */
	end_lock_wait(wait, task->tgid);
	bpf_map_delete_elem(&lock_sleepers, &tid);
	return 0;
}
