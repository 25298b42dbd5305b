/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The user stack unwinder. It knows registers, compact rows and memory, and nothing of maps or
 * tasks: cells(), table(), read_user() and struct scratch come from who includes it, so that the
 * same text runs in the kernel and natively in a test.
 */
#pragma once

#define CELL_MASK ((1u << CHUNK_SHIFT) - 1)
#define PAGE_MASK (~4095ull)
#define MAX_BP_DISTANCE (1u << 20) /* a larger frame than 1 MiB is no frame pointer's */

struct unwind {
	struct scratch *s;
	struct process_maps *maps;
	u64 ip, sp, bp, di;
	u64 zero; /* 0, but unknown to the verifier: constants made from it do not split its states */
	u64 window; /* address of the page in s->window; 1: none */
	u64 returned; /* 1: ip is a return address */
	u64 m_start, m_end, text_base;
	u32 table;
	u32 first; /* index in s->pcs of the leaf */
	u32 n; /* frames recorded */
	u8 end;
};

/* s->pcs holds kernel frames, then user frames. */
_Static_assert(MAX_KERNEL_FRAMES + MAX_USER_FRAMES <= PCS_MASK + 1, "pcs hold both parts");

/* Reads a word of the stack by way of a page: a probe read is nearly all fixed cost. */
static __always_inline bool read_word(struct unwind *u, struct scratch *s, u64 addr, u64 *value)
{
	u64 page = addr & PAGE_MASK;

	if (addr & 7)
		return read_user(value, 8, addr) == 0;
	if (page != u->window) {
		u->window = 1 + u->zero;
		if (read_user(s->window, 4096, page))
			return false;
		u->window = page;
	}
	*value = s->window[(addr >> 3) & 511];
	return true;
}

/* 1 when a < b (both below 2^63), else 0; without a branch, since the verifier walks every path
 * through a search that branches. */
static __always_inline u32 below(u64 a, u64 b)
{
	u64 difference = a - b;
	u32 bit;

	__asm__ volatile("" : "+r"(difference)); /* or the compiler makes it a branch again */
	bit = difference >> 63;
	__asm__ volatile("" : "+r"(bit));
	return bit;
}

static __always_inline bool find_mapping(struct unwind *u, u64 pc)
{
	struct process_maps *maps = u->maps;
	u32 lo = u->zero & (MAX_MAPPINGS - 1), n = maps->n;

	if (pc >= u->m_start && pc < u->m_end)
		return true;
#pragma unroll
	for (u32 step = MAX_MAPPINGS / 2; step; step >>= 1) {
		u32 t = (lo + step) & (MAX_MAPPINGS - 1);
		lo = (lo + step * (below(t, n) & (below(pc, maps->m[t].start) ^ 1))) & (MAX_MAPPINGS - 1);
	}
	lo &= MAX_MAPPINGS - 1;
	if (lo >= n || pc < maps->m[lo].start || pc >= maps->m[lo].end)
		return false;
	u->m_start = maps->m[lo].start;
	u->m_end = maps->m[lo].end;
	u->text_base = maps->m[lo].text_base;
	u->table = maps->m[lo].table;
	return true;
}

/* The row that holds at `off` bytes from the module's text_start. */
static __always_inline bool find_row(const struct unwind *u, const struct ModuleTable *t, u64 off, struct Row *row)
{
	u64 slot = off >> INDEX_SHIFT;
	u32 cell, lo = u->zero & ((1u << INDEX_SHIFT) - 1), len, base;
	u64 *c;

	if (slot >= t->index_len)
		return false;
	cell = t->index_cell + (u32)slot;
	c = cells(cell >> CHUNK_SHIFT);
	if (!c)
		return false;
	u64 entry = c[cell & CELL_MASK]; /* struct IndexEntry */
	cell = (u32)entry;
	len = (u32)(entry >> 32);
	if (!len)
		return false;
	c = cells(cell >> CHUNK_SHIFT);
	if (!c)
		return false;
	base = cell & CELL_MASK;
#pragma unroll
	for (u32 step = 1u << INDEX_SHIFT; step; step >>= 1) {
		u32 k = lo + step;
		lo += step * (below(k, len) & (below((u32)off, (u32)c[(base + k) & CELL_MASK]) ^ 1));
	}
	u64 raw = c[(base + lo) & CELL_MASK]; /* struct Row, little endian */
	row->pc = (u32)raw;
	row->cfa_off8 = (i16)(raw >> 32);
	row->kind = (u8)(raw >> 48);
	row->bp_off8 = (i8)(raw >> 56);
	return row->pc <= (u32)off;
}

/* Leaves the frame whose CFA is known; the return address lies below it. */
static __always_inline u8 leave(struct unwind *u, struct scratch *s, u64 cfa, u64 bp)
{
	u64 ra;

	if (cfa <= u->sp)
		return END_LOOP;
	if (!read_word(u, s, cfa - 8, &ra))
		return END_READ_FAULT;
	if (!ra) /* what thread starts without unwind information push */
		return END_COMPLETE;
	u->ip = ra;
	u->sp = cfa;
	u->bp = bp;
	u->returned = 1 + u->zero;
	return 255;
}

static __always_inline u8 step_frame_pointer(struct unwind *u, struct scratch *s, u8 otherwise)
{
	u64 bp = u->bp, caller;

	if (bp == 0) /* the ABI's mark of the outermost frame */
		return otherwise == END_BAD_FP ? END_COMPLETE : otherwise;
	if (bp < u->sp || bp - u->sp > MAX_BP_DISTANCE || (bp & 7))
		return otherwise;
	if (!read_word(u, s, bp, &caller))
		return END_READ_FAULT;
	return leave(u, s, bp + 16, caller);
}

/* A signal trampoline: everything comes from the ucontext at sp (struct rt_sigframe). */
static __always_inline u8 step_signal(struct unwind *u, struct scratch *s)
{
	u64 mcontext = u->sp + 40, ip, sp, bp;

	if (!read_word(u, s, mcontext + 80, &bp) || !read_word(u, s, mcontext + 120, &sp) ||
	    !read_word(u, s, mcontext + 128, &ip))
		return END_READ_FAULT;
	u->ip = ip;
	u->sp = sp;
	u->bp = bp;
	u->returned = u->zero;
	return 255;
}

static __always_inline u8 step_rule(struct unwind *u, struct scratch *s, const struct ModuleTable *t, u32 index)
{
	u32 cell = t->rules_cell + 2 * index;
	u64 *c = cells(cell >> CHUNK_SHIFT);
	u64 cfa, bp = u->bp;

	if (index >= t->rules_len || !c)
		return END_NO_ROW;
	u64 lo = c[cell & CELL_MASK], hi = c[(cell + 1) & CELL_MASK]; /* struct Rule */
	i32 cfa_off = (i32)lo, bp_off = (i32)(lo >> 32);
	u8 cfa_reg = hi, cfa_deref = hi >> 8, bp_kind = hi >> 16;

	cfa = (cfa_reg == REG_BP ? u->bp : u->sp) + (i64)cfa_off;
	if (cfa_deref && !read_word(u, s, cfa, &cfa))
		return END_READ_FAULT;
	if (bp_kind != BP_SAME && !read_word(u, s, (bp_kind == BP_AT_CFA ? cfa : u->bp) + (i64)bp_off, &bp))
		return END_READ_FAULT;
	return leave(u, s, cfa, bp);
}

/* One step; 255: go on. */
static __always_inline u8 step(struct unwind *u, struct scratch *s)
{
	u64 pc = u->ip - u->returned, off, cfa, bp;
	const struct ModuleTable *t;
	struct Row row;

	if (!find_mapping(u, pc))
		return END_NO_MAPPING;
	if (u->table == TABLE_NOT_READY)
		return END_NOT_READY;
	if (u->table == TABLE_FRAME_POINTER)
		return step_frame_pointer(u, s, END_BAD_FP);
	t = table(u->table);
	if (!t)
		return END_NOT_READY;
	off = pc - u->text_base;
	if (!find_row(u, t, off, &row))
		return step_frame_pointer(u, s, END_NO_ROW);
	switch (row.kind) {
	case KIND_SP:
		cfa = u->sp + (i64)row.cfa_off8 * 8;
		break;
	case KIND_BP:
		cfa = u->bp + (i64)row.cfa_off8 * 8;
		break;
	case KIND_PLT:
		cfa = u->sp + 8 + ((pc & 15) >= (u64)row.cfa_off8 ? 8 : 0);
		break;
	case KIND_END:
		return END_COMPLETE;
	case KIND_SIGNAL:
		return step_signal(u, s);
	case KIND_RULE:
		return step_rule(u, s, t, (u16)row.cfa_off8);
	case KIND_RA_RDI:
		if (u->returned)
			return END_UNSUPPORTED;
		u->ip = u->di;
		u->sp += (i64)row.cfa_off8 * 8;
		u->returned = 1 + u->zero;
		return 255;
	case KIND_NONE:
		return step_frame_pointer(u, s, END_NO_ROW);
	default:
		return END_UNSUPPORTED;
	}
	bp = u->bp;
	if (row.bp_off8 && !read_word(u, s, cfa + (i64)row.bp_off8 * 8, &bp))
		return END_READ_FAULT;
	return leave(u, s, cfa, bp);
}

/* bpf_loop callback: records one frame and leaves it. The index, not a counter of our own, numbers
 * the frames: it is unknown to the verifier, so one pass proves them all. */
static long unwind_frame(u32 i, struct unwind *u)
{
	struct scratch *s = u->s;
	u8 end;

	if (!s || !u->maps)
		return 1;
	s->pcs[(u->first + i) & PCS_MASK] = u->ip;
	u->n = i + 1;
	end = step(u, s);
	if (end == 255)
		return 0;
	u->end = end;
	return 1;
}
