/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Pages that come, and interrupts: see memory_places.h. */
#pragma once
#include "memory_places.h"

/* Arguments of tracepoints as numbers: an address is only compared. */
struct raw_args {
	u64 args[4];
};

static __always_inline void note_allocated(struct memory_now *now, u64 order, u64 gfp)
{
	u64 pages = 1ull << (order & 31);
	bool huge = order >= HUGE_ORDER && (gfp & GFP_MOVABLE);

	now->allocated += pages;
	if (huge)
		now->zeroed_huge += pages;
	else if (gfp & GFP_ZERO)
		now->zeroed += pages;
	else if (order && (gfp & GFP_MOVABLE) && (now->seen & FAULT_BEGUN) && !(now->seen & FAULT_FILE))
		now->zeroed += pages; /* a large folio of an anonymous fault, cleared after its allocation */
	if (gfp & GFP_MOVABLE)
		now->seen |= FAULT_PAGE | (huge ? FAULT_HUGE : order ? FAULT_LARGE : 0) | (gfp & GFP_ZERO ? FAULT_ZEROED : 0);
}

SEC("raw_tp/mm_page_alloc")
int on_page_alloc(struct raw_args *ctx)
{
	struct memory_now *now = memory_now();
	u64 page = ctx->args[0], order = ctx->args[1], gfp = (u32)ctx->args[2];

	if (!page || !now)
		return 0;
	if (unlikely(is_looked_at(page, order)))
		note_owner(now, page, order, gfp);
	if (!now->interrupted)
		note_allocated(now, order, gfp);
	return 0;
}

/* The work of interrupts is not that of the thread that they happened to meet. */

SEC("raw_tp/softirq_entry")
int on_softirq_begin(void *ctx)
{
	struct memory_now *now = memory_now();

	if (!now)
		return 0;
	now->freed_interrupted = freed_so_far(now);
	now->interrupted = 1;
	return 0;
}

SEC("raw_tp/softirq_exit")
int on_softirq_end(void *ctx)
{
	struct memory_now *now = memory_now();

	/* Otherwise there was a switch, where all began anew. */
	if (!now || !now->interrupted)
		return 0;
	now->freed_before += freed_so_far(now) - now->freed_interrupted;
	now->interrupted = 0;
	return 0;
}
