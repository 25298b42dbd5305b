/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ustack() of scripts: the recordings' unwinder as a function that a script's program calls.
 *
 * The programs of scripts are made at run time, so they are not here: user space takes ustack() and what it calls
 * out of `stub` once libbpf has put everything in, and appends it to each program that wants it (user_stacks.rs).
 * The walk is a global function, proved once per program however often that asks for stacks.
 */
#define IDENTITY_FOR_PLACE /* scripts print functions, not lines */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "tables.h"
#include "casts.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define PCS_MASK 2047u
struct scratch {
	u64 window[WINDOW_BYTES / 8]; /* a part of the stack */
	u64 window_at; /* its address; 1: none */
	u64 rule_high;
	u64 leaf[17]; /* registers of the innermost frame, as in struct RawRegs */
	u64 fault; /* a read failed */
	struct frame_walk walk;
	struct python_walk python;
	struct function_told function;
	u64 trampoline; /* where functions with return probes seem to return to; 0: none is active */
	u64 instance; /* of the active ones, the innermost that was not met yet */
	u32 n, end; /* of the walk: numbers that have been here have no past for the verifier to follow */
	u64 pcs[PCS_MASK + 1];
	u32 busy;
	u32 pad;
};

/* Per processor: a thread may lose it in the middle of a walk, and interrupts walk too. Sized at load. */
#define SCRATCH_LEVELS 4
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCRATCH_LEVELS);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Stacks that were cut short since something seems not to be known of what is mapped: user space looks again. */
u64 unknown SEC(".data.unknown");

/* Words of stacks that stand for code by what its process keeps of it: user space names them while that lives. */
struct told_word {
	u64 word; /* as user space looks it up: of a return address the byte before */
	u32 tgid;
	u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct told_word);
	__type(value, u8);
} told_words SEC(".maps");

/* Those that were told. What pushes out another has that told again. */
#define SEEN_WORDS 4096
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEEN_WORDS);
	__type(key, u32);
	__type(value, u64);
} seen_words SEC(".maps");

/* What the kernel keeps of functions whose return address it has replaced, to learn of their return. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct return_instance {
	unsigned long stack; /* where the return address lies */
	unsigned long orig_ret_vaddr;
	struct return_instance *next; /* of the caller, or further out */
};
struct uprobe_task {
	struct return_instance *return_instances;
};
struct xol_area {
	unsigned long vaddr;
};
struct uprobes_state {
	struct xol_area *xol_area;
};
struct mm_struct {
	struct uprobes_state uprobes_state;
};
struct task_struct___probed {
	struct uprobe_task *utask;
};
#pragma clang attribute pop

#define MAX_INSTANCES 64 /* the kernel's limit for a thread */
#define RETURN_ADDRESS return_address
u64 return_address(struct scratch *s, u64 at);
#include "walk.h"

/* The return address at an address: where it has been replaced, the one that was there. */
__attribute__((noinline)) u64 return_address(struct scratch *s, u64 at)
{
	u64 found = read_word(s, at);

	if (!s || !s->trampoline || found != s->trampoline)
		return found;
	for (u32 i = 0; i < MAX_INSTANCES && s->instance; i++) {
		struct return_instance *instance = (void *)s->instance;

		if (BPF_CORE_READ(instance, stack) == at)
			return BPF_CORE_READ(instance, orig_ret_vaddr);
		s->instance = (u64)BPF_CORE_READ(instance, next);
	}
	return found;
}

static __always_inline void find_replaced(struct scratch *s, struct task_struct *task)
{
	struct task_struct___probed *probed = (void *)task;
	struct uprobe_task *state;

	s->trampoline = s->instance = 0;
	if (!bpf_core_field_exists(probed->utask))
		return;
	state = BPF_CORE_READ(probed, utask);
	s->instance = state ? (u64)BPF_CORE_READ(state, return_instances) : 0;
	if (s->instance)
		s->trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}

/* The number of a free scratch; past the last one when there is none. */
static __always_inline u32 take_scratch(void)
{
	u32 first = bpf_get_smp_processor_id() * SCRATCH_LEVELS, key;
	struct scratch *s;

	for (u32 level = 0; level < SCRATCH_LEVELS; level++) {
		key = first + level;
		s = bpf_map_lookup_elem(&scratches, &key);
		if (s && __sync_val_compare_and_swap(&s->busy, 0, 1) == 0)
			return key;
	}
	return ~0u;
}

static __always_inline bool is_missing(u32 end)
{
	return end == END_NO_MAPPING || end == END_NOT_READY;
}

static __always_inline u64 cut_short(u32 end)
{
	return (u64)STACK_CUT_SHORT << 32 | end;
}

struct telling {
	struct scratch *s;
	u32 tgid;
};

/* bpf_loop callback: tells of a word that is new. */
static long tell_word(u32 i, struct telling *t)
{
	struct told_word key = { .tgid = t->tgid };
	u64 told, *seen;
	u32 slot;
	u8 one = 1;

	if (!t->s)
		return 1;
	key.word = t->s->pcs[i & PCS_MASK];
	if (!(key.word >> METHOD_BIT & 1 || key.word >> COMPILED_BIT & 1))
		return 0;
	if (key.word >> RETURN_BIT)
		key.word = (key.word & ~(1ull << RETURN_BIT)) - 1;
	told = (key.word ^ (u64)key.tgid << 32) * HASH;
	slot = told >> 40 & (SEEN_WORDS - 1);
	seen = bpf_map_lookup_elem(&seen_words, &slot);
	if (seen && *seen != told && !bpf_map_update_elem(&told_words, &key, &one, BPF_ANY))
		*seen = told;
	return 0;
}

#define IS_CUT (1u << 31)

/* Walks the current thread's stack, at most so many frames. Gives the number of its scratch, which the caller gives
 * back, << 32 | words in its pcs | IS_CUT if the last word says why the stack ends there. */
__attribute__((noinline)) u64 take_user_stack(u32 frames)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	u32 key = take_scratch();
	u64 taken = (u64)key << 32, walked;
	u32 n, end;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &key);
	struct telling telling = { .s = s, .tgid = task->tgid };

	if (!s)
		return taken;
	if ((task->flags & PF_KTHREAD) || !untrusted(task)->mm)
		return taken;
	if (frames > MAX_USER_FRAMES)
		frames = MAX_USER_FRAMES + 1; /* so that what is cut by our limit says so */
	find_replaced(s, task);
	walked = walk_user(s, task, regs, 0, frames);
	s->n = walked;
	s->end = walked >> 32;
	barrier();
	n = s->n & PCS_MASK;
	end = s->end;
	bpf_loop(n, tell_word, &telling, 0);
	if (is_missing(end))
		unknown++;
	if (end == END_COMPLETE || n >= frames)
		return taken | n;
	s->pcs[n] = cut_short(end);
	return taken | (n + 1) | IS_CUT;
}

/* The current thread's stack to memory that is zero: pcs, innermost first, return addresses marked by RETURN_BIT, and
 * STACK_CUT_SHORT with the reason if it is not whole and not for want of room. Gives the bytes of the pcs. Not static,
 * so that its arguments stay where they are; hidden, so that it is proved with the caller's memory. */
__hidden __attribute__((noinline)) u64 ustack(void *to, u64 bytes)
{
	u64 taken = take_user_stack(bytes / 8), size = (taken & 0xffff) * 8;
	u32 key = taken >> 32;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &key);

	if (!s) {
		*(u64 *)to = cut_short(END_NOT_TAKEN);
		return 0;
	}
	if (size > bytes)
		size = bytes;
	bpf_probe_read_kernel(to, size, s->pcs);
	__sync_lock_test_and_set(&s->busy, 0);
	return taken & IS_CUT ? size - 8 : size;
}

/* Never loaded. */
SEC("raw_tp")
int stub(void *ctx)
{
	u64 pcs[1] = {};

	return ustack(pcs, sizeof(pcs));
}

/* A child begins as a copy. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	if (child->tgid != parent->tgid)
		inherit_maps(parent->tgid, child->tgid);
	return 0;
}

/* An exec names its thread anew when the old program is gone and nothing of the new one is mapped. */
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	u32 tgid = task->tgid;

	if (regs->orig_ax == NR_EXECVE || regs->orig_ax == NR_EXECVEAT)
		bpf_map_delete_elem(&processes, &tgid);
	return 0;
}
