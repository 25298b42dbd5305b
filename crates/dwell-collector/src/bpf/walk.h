/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The unwinder over the maps of tables.h, from a thread's registers on. Wants struct scratch. */
#pragma once
#include "tables.h"

static __always_inline long read_user(void *to, u32 n, u64 from)
{
	return bpf_probe_read_user(to, n, (void *)from);
}

static __always_inline u64 *cells(u32 chunk)
{
	u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&chunks, &chunk);
	struct cell_chunk *c;

	if (!inner)
		return NULL;
	c = bpf_map_lookup_elem(inner, &zero);
	return c ? c->cells : NULL;
}

static __always_inline const struct ModuleTable *table(u32 index)
{
	return bpf_map_lookup_elem(&tables, &index);
}

static __always_inline const struct CodeHeap *code_heap(u32 index)
{
	return bpf_map_lookup_elem(&code_heaps, &index);
}

static __always_inline const struct Interpreter *interpreter(u32 index)
{
	return bpf_map_lookup_elem(&interpreters, &index);
}

static __always_inline u64 *row_slot(u32 index)
{
	return bpf_map_lookup_elem(&row_cache, &index);
}

#include "unwind.h"

static __always_inline void raw_regs(u64 *to, const struct pt_regs *r)
{
	to[0] = r->ax; to[1] = r->dx; to[2] = r->cx; to[3] = r->bx; to[4] = r->si; to[5] = r->di;
	to[6] = r->bp; to[7] = r->sp; to[8] = r->r8; to[9] = r->r9; to[10] = r->r10; to[11] = r->r11;
	to[12] = r->r12; to[13] = r->r13; to[14] = r->r14; to[15] = r->r15; to[16] = r->ip;
}

/* Walks a user stack from the registers in s->leaf on; at most so many frames go to s->pcs from index `first` on. Returns
 * their number and, in the upper half, why the stack ends. A function of its own to the verifier: looked at once. */
__attribute__((noinline)) u64 walk_from_leaf(struct scratch *s, u32 tgid, u32 first, u32 frames)
{
	struct unwind u = { .s = s };

	if (!s)
		return 0;
	if (frames > MAX_USER_FRAMES)
		frames = MAX_USER_FRAMES;
	begin_walk(s, first & PCS_MASK);
	u.maps = bpf_map_lookup_elem(&processes, &tgid);
	if (u.maps) {
		if (u.maps->python)
			enter_python(s, u.maps->python, tgid);
		bpf_loop(frames, unwind_frame, &u, 0);
	} else {
		s->pcs[first & PCS_MASK] = s->walk.ip;
		s->walk.n = 1;
		s->walk.end = END_NOT_READY;
	}
	return (u64)s->walk.end << 32 | s->walk.n;
}

/* The user stack of a thread. */
static __always_inline u64 walk_user(struct scratch *s, struct task_struct *task, const struct pt_regs *regs, u32 first,
				     u32 frames)
{
	raw_regs(s->leaf, regs);
	s->python.thread_pointer = task->thread.fsbase;
	return walk_from_leaf(s, task->tgid, first, frames);
}

static __always_inline void inherit_maps(u32 parent, u32 child)
{
	struct process_maps *maps = bpf_map_lookup_elem(&processes, &parent);

	if (maps)
		bpf_map_update_elem(&processes, &child, maps, BPF_ANY);
}
