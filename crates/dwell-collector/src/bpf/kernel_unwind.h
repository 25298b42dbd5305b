/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Walks kernel stacks by the kernel's own unwind table: ORC, as arch/x86/kernel/unwind_orc.c does.
 *
 * The kernel's helpers search the table for each frame of each stack, and walk through the interrupt that our program runs in:
 * 5 to 11 us a stack, which the thread loses, and whoever waits for it. Here a row that was found is kept, and a walk begins
 * where the interrupt came upon the thread. What is not as usual (code of a module, a stack of another kind) is left to the
 * helpers. */
#pragma once
#include "unwind.h"

/* Set while the programs are being loaded. */
struct {
	u64 ips, rows; /* the table's halves: where a row begins to hold, relative to that word itself; the rows */
	u64 len; /* 0: not known */
	u64 text_start, text_len; /* what the table is of */
	u64 switching_start, switching_len; /* the scheduler's functions */
	u64 hooks[2]; /* what stands in place of the return addresses of functions whose return is traced; 0: none */
	u64 queue_to_irq_regs; /* from a processor's run queue to the address of what its interrupt came upon; 0: not known */
} orc SEC(".data.orc");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct orc_entry {
	short sp_offset;
	unsigned signal : 1;
	unsigned end : 1; /* before Linux 6.4, when the types had other numbers */
};
struct inactive_task_frame {
	unsigned long bp, ret_addr;
};
#pragma clang attribute pop

#define ORC_ROW_BYTES 6 /* of which are, little endian, 16 bits each: sp_offset, bp_offset, and the following */
#define ORC_MASK ((1ull << 44) - 1)
#define ORC_SP_REG(row) ((row) >> 32 & 15)
#define ORC_BP_REG(row) ((row) >> 36 & 15)
#define ORC_TYPE(row) ((row) >> 40 & 7)
#define ORC_IS_SIGNAL(row) ((row) >> 43 & 1)
enum { ORC_UNDEFINED, ORC_PREV_SP, ORC_BP = 4, ORC_SP, ORC_BP_INDIRECT = 8, ORC_SP_INDIRECT };
enum { ORC_END_OF_STACK = 1, ORC_CALL, ORC_REGS };

/* In struct pt_regs. */
#define REGS_BP 4
#define REGS_IP 16
#define REGS_SP 19

#define ORC_LEN_MAX (1u << 21) /* what the search reaches; large kernels have half of it */

static __always_inline bool orc_is_known(void)
{
	return orc.len - 1 < ORC_LEN_MAX && bpf_core_field_exists(struct orc_entry, signal) && !bpf_core_field_exists(struct orc_entry, end) &&
	       bpf_core_type_size(struct orc_entry) == ORC_ROW_BYTES;
}

/* The row that holds at an address of the kernel's text. */
__attribute__((noinline)) u64 find_orc(u64 pc)
{
	u64 lo = 0, row = 0, at;
	i32 offset;

#pragma unroll
	for (u64 step = ORC_LEN_MAX / 2; step; step >>= 1) {
		at = orc.ips + 4 * (lo + step);
		offset = 0;
		bpf_probe_read_kernel(&offset, sizeof(offset), (void *)at);
		/* All of these addresses are in the upper half. */
		lo += step * (below(lo + step, orc.len) & (below(pc, at + offset) ^ 1));
	}
	bpf_probe_read_kernel(&row, ORC_ROW_BYTES, (void *)(orc.rows + ORC_ROW_BYTES * lo));
	return row & ORC_MASK;
}

/* Rows that were found: see unwind.h. */
#define ORC_PAIRS_BITS 10
#define ORC_TEXT_BITS 28 /* of an address, from the beginning of the kernel's text on */
#define ORC_TAG_BITS (ORC_TEXT_BITS - ORC_PAIRS_BITS)
#define ORC_TAG_SHIFT 44 /* a word, from the top: 1, what is left of the address, the row */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 << ORC_PAIRS_BITS);
	__type(key, u32);
	__type(value, u64);
} orc_cache SEC(".maps");

static __always_inline u64 *orc_slot(u32 index)
{
	return bpf_map_lookup_elem(&orc_cache, &index);
}

/* The same by way of the cache. 0: no row is known. */
__attribute__((noinline)) u64 cached_orc(u64 pc)
{
	u64 at = pc - orc.text_start, mixed = at * HASH & ((1ull << ORC_TEXT_BITS) - 1); /* by an odd number: no two are the same */
	u64 tag = 1ull << 63 | (mixed & ((1ull << ORC_TAG_BITS) - 1)) << ORC_TAG_SHIFT, row;
	u32 pair = mixed >> ORC_TAG_BITS;
	u64 *one = orc_slot(2 * pair), *two = orc_slot(2 * pair + 1);

	if (at >= orc.text_len || at >> ORC_TEXT_BITS || !one || !two)
		return 0;
	row = kept_word(one, two, tag, ORC_TAG_SHIFT);
	if (!row) {
		row = find_orc(pc);
		keep_word(one, two, tag | row);
	}
	return row & ORC_MASK;
}

static __always_inline bool is_in(u64 stack, u64 at)
{
	return at - stack < THREAD_SIZE;
}

struct kernel_walk {
	struct scratch *s;
	u64 ip, sp, bp;
	u64 stack; /* where the stack in use begins: the thread's, or what is to be walked of another, as interrupts have one */
	u64 thread_stack; /* where the thread's kernel stack begins */
	u64 skipped_start, skipped_len; /* no frame of this code is recorded */
	u32 returned; /* 1: ip is a return address */
	u32 n;
	u32 complete;
};

/* A word of the kernel stack that begins at `stack`. Sets s->fault. */
__attribute__((noinline)) u64 stack_word(struct scratch *s, u64 stack, u64 at)
{
	u64 word = 0;

	if (s && (at - stack > THREAD_SIZE - 8 || bpf_probe_read_kernel(&word, sizeof(word), (void *)at)))
		s->fault = 1;
	return word;
}

/* Where the caller's frame begins; 0: it cannot be known. */
static __always_inline u64 orc_cfa(const struct kernel_walk *w, struct scratch *s, u64 row)
{
	u64 offset = (i16)row;

	switch (ORC_SP_REG(row)) {
	case ORC_SP:
		return w->sp + offset;
	case ORC_BP:
		return w->bp + offset;
	case ORC_BP_INDIRECT:
		return stack_word(s, w->stack, w->bp + offset);
	case ORC_SP_INDIRECT:
		return stack_word(s, w->stack, w->sp) + offset;
	}
	return 0;
}

/* On to what an interrupt or exception came upon, or to the end where that is user code. */
static __always_inline bool leave_regs(struct kernel_walk *w, struct scratch *s, u64 regs)
{
	if (stack_word(s, w->stack, regs + 8 * REGS_CS) & 3) {
		w->complete = 1;
		return false;
	}
	w->ip = stack_word(s, w->stack, regs + 8 * REGS_IP);
	w->bp = stack_word(s, w->stack, regs + 8 * REGS_BP);
	w->sp = stack_word(s, w->stack, regs + 8 * REGS_SP);
	return !s->fault;
}

/* Leaves a frame; false: the walk is over. */
static __always_inline bool leave_frame(struct kernel_walk *w, struct scratch *s, u64 row)
{
	u64 cfa = orc_cfa(w, s, row), bp_offset = (i16)(row >> 16);

	w->returned = !ORC_IS_SIGNAL(row);
	switch (ORC_TYPE(row)) {
	case ORC_END_OF_STACK:
		w->complete = 1;
		return false;
	case ORC_REGS:
		return ORC_BP_REG(row) == ORC_UNDEFINED && leave_regs(w, s, cfa);
	case ORC_CALL:
		break;
	default:
		return false;
	}
	if (ORC_SP_REG(row) == ORC_SP_INDIRECT && w->stack != w->thread_stack && is_in(w->thread_stack, cfa))
		w->stack = w->thread_stack; /* back from the stack of interrupts */
	else if (cfa <= w->sp)
		return false;
	if (ORC_BP_REG(row) != ORC_UNDEFINED)
		w->bp = stack_word(s, w->stack, (ORC_BP_REG(row) == ORC_PREV_SP ? cfa : w->bp) + bp_offset);
	w->ip = stack_word(s, w->stack, cfa - 8);
	w->sp = cfa;
	return !s->fault;
}

/* bpf_loop callback. */
static long kernel_frame(u32 i, struct kernel_walk *w)
{
	struct scratch *s = w->s;

	if (!s || w->ip == orc.hooks[0] || w->ip == orc.hooks[1])
		return 1;
	if (w->ip - w->skipped_start >= w->skipped_len) {
		s->pcs[w->n & PCS_MASK] = w->ip;
		w->n++;
	}
	return !leave_frame(w, s, cached_orc(w->ip - w->returned));
}

/* The number of frames in s->pcs, leaf first; 0: the walk did not come to the stack's end. */
static __always_inline u32 walk_kernel(struct kernel_walk *w)
{
	w->s->fault = 0;
	bpf_loop(MAX_KERNEL_FRAMES, kernel_frame, w, 0);
	return w->complete && !w->s->fault ? w->n & (2 * MAX_KERNEL_FRAMES - 1) : 0;
}

/* The walks are functions of their own to the verifier: looked at once. `thread_stack`: where the thread's begins. */

/* The stack of a thread that is off the processor, its frame being at `at`, without the functions of the scheduler. */
__attribute__((noinline)) u32 walk_sleeping(struct scratch *s, u64 thread_stack, u64 at)
{
	struct kernel_walk w = {
		.s = s,
		.stack = thread_stack,
		.thread_stack = thread_stack,
		.skipped_start = orc.switching_start,
		.skipped_len = orc.switching_len,
		.returned = 1,
	};
	struct inactive_task_frame *frame = (void *)at;

	if (!s || !orc_is_known())
		return 0;
	w.sp = at + bpf_core_type_size(struct inactive_task_frame);
	w.bp = BPF_CORE_READ(frame, bp);
	w.ip = BPF_CORE_READ(frame, ret_addr);
	return walk_kernel(&w);
}

/* The stack that an interrupt came upon, on the processor whose run queue is at `queue`: the current thread's, and that of other
 * interrupts on top of it. */
__attribute__((noinline)) u32 walk_interrupted(struct scratch *s, u64 thread_stack, u64 queue)
{
	struct kernel_walk w = { .s = s, .thread_stack = thread_stack };
	u64 at, *regs;

	if (!s || !orc_is_known() || !orc.queue_to_irq_regs)
		return 0;
	regs = s->window; /* no room on the stack */
	if (bpf_probe_read_kernel(&at, sizeof(at), (void *)(queue + orc.queue_to_irq_regs)) ||
	    bpf_probe_read_kernel(regs, 8 * (REGS_SP + 1), (void *)at))
		return 0;
	w.ip = regs[REGS_IP];
	w.sp = regs[REGS_SP];
	w.bp = regs[REGS_BP];
	w.stack = is_in(w.thread_stack, w.sp) ? w.thread_stack : w.sp;
	return regs[REGS_CS] & 3 ? 0 : walk_kernel(&w);
}

/* The frame pointer of the program that calls it. Compiled programs keep one, and r10 is that of this function: since Linux
 * 6.13 it may point elsewhere (private stacks), but not where a function has as little on its stack as here. */
__attribute__((noinline)) u64 own_frame(void)
{
	u64 frame = 0;
	void *here;

	asm volatile("%0 = r10" : "=r"(here));
	bpf_probe_read_kernel(&frame, sizeof(frame), here);
	return frame;
}

#define OWN_FRAMES_MAX 4 /* programs in one another, up to the kernel that called the first */

/* The stack of the current thread, and of what interrupts it, from the kernel's call of this program on. */
__attribute__((noinline)) u32 walk_own(struct scratch *s, u64 thread_stack)
{
	struct kernel_walk w = { .s = s, .thread_stack = thread_stack, .returned = 1 };

	if (!s || !orc_is_known())
		return 0;
	s->fault = 0;
	w.bp = own_frame();
	w.stack = is_in(w.thread_stack, w.bp) ? w.thread_stack : w.bp;
	for (int i = 0; i < OWN_FRAMES_MAX; i++) {
		w.sp = w.bp + 16;
		w.ip = stack_word(s, w.stack, w.bp + 8);
		w.bp = stack_word(s, w.stack, w.bp);
		if (s->fault)
			return 0;
		if (w.ip - orc.text_start < orc.text_len)
			return walk_kernel(&w);
	}
	return 0;
}
