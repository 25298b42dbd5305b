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

#include "unwind.h"

static __always_inline void raw_regs(u64 *to, const struct pt_regs *r)
{
	to[0] = r->ax; to[1] = r->dx; to[2] = r->cx; to[3] = r->bx; to[4] = r->si; to[5] = r->di;
	to[6] = r->bp; to[7] = r->sp; to[8] = r->r8; to[9] = r->r9; to[10] = r->r10; to[11] = r->r11;
	to[12] = r->r12; to[13] = r->r13; to[14] = r->r14; to[15] = r->r15; to[16] = r->ip;
}

/* Walks the user stack of a thread; at most so many frames go to s->pcs from index u->first on. */
static __always_inline void walk_user(struct unwind *u, struct task_struct *task, const struct pt_regs *regs,
				      u32 frames)
{
	struct scratch *s = u->s;
	u32 tgid = task->tgid;

	u->ip = regs->ip;
	u->sp = regs->sp;
	u->bp = regs->bp;
	u->di = regs->di;
	s->window_at = 1;
	s->fault = 0;
	raw_regs(s->leaf, regs);
	u->maps = bpf_map_lookup_elem(&processes, &tgid);
	if (u->maps) {
		u->zero = u->maps->pad;
		u->returned = u->guessed = u->zero;
		u->m_start = u->m_end = u->text_base = u->zero;
		u->table = u->zero;
		u->n = u->zero;
		bpf_loop(frames, unwind_frame, u, 0);
	} else {
		s->pcs[u->first & PCS_MASK] = u->ip;
		u->n = 1;
		u->end = END_NOT_READY;
	}
}

static __always_inline void inherit_maps(u32 parent, u32 child)
{
	struct process_maps *maps = bpf_map_lookup_elem(&processes, &parent);

	if (maps)
		bpf_map_update_elem(&processes, &child, maps, BPF_ANY);
}
