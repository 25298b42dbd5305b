/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The user stack unwinder. It knows registers, compact rows and memory, and nothing of maps or
 * tasks: cells(), table(), code_heap(), interpreter(), row_slot(), read_user(), struct scratch and struct process_maps come from who
 * includes it, so that the same text runs in the kernel and natively in a test.
 *
 * The searches and the stack reads are global functions: the verifier proves each once, whoever
 * calls it, instead of once for every path that leads to a call.
 */
#pragma once

#define CELL_MASK ((1u << CHUNK_SHIFT) - 1)
#define MAX_BP_DISTANCE (8u << 20) /* the largest stack: what is further is no frame pointer */
#define GO_ON 255
#define REPLACED_BIT 31 /* of where a frame's word is: it may be replaced */
#ifndef LOOP /* calls a function up to so many times, until it returns 1 */
#define LOOP(times, function, context) bpf_loop(times, function, context, 0)
#endif
#ifndef RETURN_ADDRESS /* reads the return address that lies at an address */
#define RETURN_ADDRESS read_word
#endif

#ifndef TELL_CODE /* is told of code that a Python executes: scratch, Interpreter, address, identity */
#define TELL_CODE(s, p, code, identity)
#endif

/* What a walk reads and writes; where it is lies in the scratch, whose numbers the verifier does not follow: it looks once
 * at what is done with them, not once for every way to get there. */
struct unwind {
	struct scratch *s;
	struct process_maps *maps;
};

/* s->pcs holds kernel frames, then user frames. */
_Static_assert(MAX_KERNEL_FRAMES + MAX_USER_FRAMES <= PCS_MASK + 1, "pcs hold both parts");

/* A word of the stack, by way of a part of its page: a probe read is nearly all fixed cost, and a whole page would push
 * too much out of the caches. Sets s->fault. */
__attribute__((noinline)) u64 read_word(struct scratch *s, u64 addr)
{
	u64 part = addr & ~(WINDOW_BYTES - 1), value = 0;

	if (!s)
		return 0;
	if (addr & 7) {
		if (read_user(&value, 8, addr))
			s->fault = 1;
		return value;
	}
	if (part != s->window_at) {
		s->window_at = 1;
		if (read_user(s->window, WINDOW_BYTES, part)) {
			s->fault = 1;
			return 0;
		}
		s->window_at = part;
	}
	return s->window[(addr & (WINDOW_BYTES - 1)) >> 3];
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

/* Index of the last mapping that starts at or before pc (0 when there is none). */
__attribute__((noinline)) u32 find_mapping(struct process_maps *maps, u64 pc)
{
	u32 lo = 0, n;

	if (!maps)
		return 0;
	n = maps->n;
#pragma unroll
	for (u32 step = MAX_MAPPINGS / 2; step; step >>= 1) {
		u32 t = (lo + step) & (MAX_MAPPINGS - 1), is_one = below(t, n);
		/* What lies behind the last one is not looked at: it would only push other things out of the caches. */
		u64 start = maps->m[t & (0 - is_one)].start;
		lo = (lo + step * (is_one & (below(pc, start) ^ 1))) & (MAX_MAPPINGS - 1);
	}
	return lo;
}

#define NO_ROW ((u64)KIND_NONE << 48)

/* A step of the search for the last of `len` rows that starts at or before `off`. */
static __always_inline u32 search_step(const u64 *c, u32 base, u32 len, u32 off, u32 lo, u32 step)
{
	u32 k = lo + step, is_one = below(k, len), at = base + (k & (0 - is_one));

	return lo + step * (is_one & (below(off, (u32)c[at & CELL_MASK]) ^ 1));
}

/* The row (struct Row, little endian) that holds at `off` bytes from the module's text_start. */
__attribute__((noinline)) u64 find_row(u32 table_index, u64 off)
{
	const struct ModuleTable *t = table(table_index);
	u32 cell, lo = 0, len, base;
	u64 *c, entry, slot = off >> INDEX_SHIFT;

	if (!t || slot >= t->index_len)
		return NO_ROW;
	cell = t->index_cell + (u32)slot;
	c = cells(cell >> CHUNK_SHIFT);
	if (!c)
		return NO_ROW;
	entry = c[cell & CELL_MASK]; /* struct IndexEntry */
	cell = (u32)entry;
	len = (u32)(entry >> 32);
	if (!len)
		return NO_ROW;
	c = cells(cell >> CHUNK_SHIFT);
	if (!c)
		return NO_ROW;
	base = cell & CELL_MASK;
	/* Few slots of text have more than eight rows. */
	if (len > 8) {
#pragma unroll
		for (u32 step = 1u << INDEX_SHIFT; step >= 8; step >>= 1)
			lo = search_step(c, base, len, (u32)off, lo, step);
	}
#pragma unroll
	for (u32 step = 4; step; step >>= 1)
		lo = search_step(c, base, len, (u32)off, lo, step);
	entry = c[(base + lo) & CELL_MASK];
	return (u32)entry <= (u32)off ? entry : NO_ROW;
}

/* Rows that were found are kept in a table of words. They never change, and each fits into a word with what is left of its key
 * once that has led there: so all walks share them, without a lock. A key has a pair of words to choose from, of one cache line.
 *
 * The tables are small: what a walk touches is seldom in the caches, nor its pages' addresses, and to be there counts for more
 * than to have every row. */

/* The one of two words that begins like `tag`, which is not 0; 0: neither does. */
static __always_inline u64 kept_word(const u64 *one, const u64 *two, u64 tag, u32 tag_shift)
{
	u64 word = *(const volatile u64 *)one;

	if ((word ^ tag) >> tag_shift) {
		word = *(const volatile u64 *)two;
		if ((word ^ tag) >> tag_shift)
			return 0;
	}
	return word;
}

static __always_inline void keep_word(u64 *one, u64 *two, u64 word)
{
	*two = *one;
	*one = word;
}

#define ROW_KEY_BITS 45 /* of a table's number and of an address in its module */
_Static_assert(MAX_TABLES <= 1 << (ROW_KEY_BITS - 32), "a table's number");
#define ROW_TAG_BITS (ROW_KEY_BITS - ROW_PAIRS_BITS)
/* A word, from the top: what is left of the key, 1, bp_off8, kind, off8. */
#define ROW_TAG_SHIFT 28
_Static_assert(ROW_TAG_BITS + 1 + ROW_TAG_SHIFT <= 64, "a word");
_Static_assert(KIND_CLONE < 16, "the largest kind, in 4 bits");

/* The same by way of a cache, without the row's first half: a search is a dozen loads, each of which waits for the one before. */
__attribute__((noinline)) u64 cached_row(u32 table_index, u64 off)
{
	/* By an odd number: no two are the same. */
	u64 key = ((u64)table_index << 32 | (u32)off) * HASH & ((1ull << ROW_KEY_BITS) - 1), tag, row, known;
	u32 pair = key >> ROW_TAG_BITS;
	u64 *one = row_slot(2 * pair), *two = row_slot(2 * pair + 1);

	if (off >> 32 || !one || !two)
		return NO_ROW;
	tag = ((key & ((1ull << ROW_TAG_BITS) - 1)) << 1 | 1) << ROW_TAG_SHIFT;
	known = kept_word(one, two, tag, ROW_TAG_SHIFT);
	if (known)
		return (known & 0xfffff) << 32 | (known >> 20 & 0xff) << 56;
	row = find_row(table_index, off);
	if (row != NO_ROW)
		keep_word(one, two, tag | (row >> 32 & 0xfffff) | row >> 56 << 20);
	return row;
}

/* The first word of a rule (struct Rule); the second goes to s->rule_high. */
__attribute__((noinline)) u64 find_rule(struct scratch *s, u32 table_index, u32 index)
{
	const struct ModuleTable *t = table(table_index);
	u64 *c, low;
	u32 cell;

	if (!s || !t || index >= t->rules_len)
		goto none;
	cell = t->rules_cell + 2 * index;
	c = cells(cell >> CHUNK_SHIFT);
	if (!c)
		goto none;
	low = c[cell & CELL_MASK];
	cell++;
	c = cells(cell >> CHUNK_SHIFT);
	if (!c)
		goto none;
	s->rule_high = c[cell & CELL_MASK];
	return low;
none:
	if (s)
		s->fault = 1;
	return 0;
}

/* All registers of the frame a signal interrupted: it is a leaf again. */
__attribute__((noinline)) u64 read_mcontext(struct scratch *s, u64 at)
{
	if (!s)
		return 0;
	for (u32 i = 0; i < 8; i++)
		s->leaf[8 + i] = read_word(s, at + 8 * i);
	s->leaf[5] = read_word(s, at + 64);
	s->leaf[4] = read_word(s, at + 72);
	s->leaf[6] = read_word(s, at + 80);
	s->leaf[3] = read_word(s, at + 88);
	s->leaf[1] = read_word(s, at + 96);
	s->leaf[0] = read_word(s, at + 104);
	s->leaf[2] = read_word(s, at + 112);
	s->leaf[7] = read_word(s, at + 120);
	s->leaf[16] = read_word(s, at + 128);
	return 0;
}

/* A signal trampoline: everything comes from the ucontext at sp (struct rt_sigframe). */
static __always_inline u32 step_signal(struct frame_walk *u, struct scratch *s)
{
	read_mcontext(s, u->sp + 40);
	u->di = s->leaf[5];
	u->bp = s->leaf[6];
	u->sp = s->leaf[7];
	u->ip = s->leaf[16];
	u->returned = 0;
	/* The trampoline itself was no caller: the handler returns to it, but nothing called from it. */
	s->pcs[(u->first + u->n - 1) & PCS_MASK] &= ~(1ull << RETURN_BIT);
	return s->fault ? END_READ_FAULT : GO_ON;
}

/* CPython's perf trampoline keeps no frame pointer: after its call come add $8,%rsp; ret. */
#define TRAMPOLINE_TAIL 0xc308c48348ull

/* The row of a return address in code without unwind information. */
__attribute__((noinline)) u64 jit_row(u64 ip)
{
	u64 code = 0;

	if (read_user(&code, 8, ip) || (code & 0xffffffffffull) != TRAMPOLINE_TAIL)
		return NO_ROW;
	return (u64)KIND_SP << 48 | 2ull << 32;
}

#define ROW(kind, off8, bp_off8) ((u64)(kind) << 48 | (u64)(u16)(off8) << 32 | (u64)(u8)(bp_off8) << 56)
#define NO_FRAME_YET ROW(KIND_SP, 1, 0) /* as at a function's entry */
#define RBP_PUSHED ROW(KIND_SP, 2, -2)

#define SEGMENT_HOPS 16 /* each leads back by up to 254 segments */
#define FREE_SEGMENT 0xff
#define LARGEST_FRAME 0x7fff /* words */
#define BYTES_BEFORE 11 /* of code that are looked at: a cmpl with a wide offset */

/* The blob of a JVM's code heap that holds pc: as CodeHeap::find_block_for. 0: none. */
__attribute__((noinline)) u64 find_blob(u32 heap, u64 pc)
{
	const struct CodeHeap *h = code_heap(heap);
	u64 segment;
	u8 back = FREE_SEGMENT;

	if (!h || pc < h->low)
		return 0;
	segment = (pc - h->low) >> (h->segment_shift & 31);
	for (u32 i = 0; i < SEGMENT_HOPS; i++) {
		if (read_user(&back, 1, h->segment_map + segment) || back == FREE_SEGMENT)
			return 0;
		if (!back)
			return h->low + (segment << (h->segment_shift & 31)) + h->header;
		if (back > segment)
			return 0;
		segment -= back;
	}
	return 0;
}

/* Where the frame is in the making: at the instruction that stands there (C1's and C2's MacroAssembler::verified_entry). */
static __always_inline u64 prologue_row(u64 code, const u8 *before, u32 size)
{
	u32 op = code & 0xffffff;

	/* cmpl N,M(%r15) and jne: the barrier of newer versions, behind all that */
	if (op == 0x7f8141 || op == 0xbf8141)
		return ROW(KIND_SP, size, -2);
	if ((u16)code == 0x850f && ((before[3] == 0x41 && before[4] == 0x81 && before[5] == 0x7f) ||
				    (before[0] == 0x41 && before[1] == 0x81 && before[2] == 0xbf)))
		return ROW(KIND_SP, size, -2);
	if (op == 0x6c8948 || op == 0xac8948) /* mov %rbp,N(%rsp), behind sub $N,%rsp */
		return ROW(KIND_SP, size, 0);
	if (before[BYTES_BEFORE - 1] == 0x55 && (op == 0xec8348 || op == 0xec8148 || op == 0xec8b48)) /* sub, or mov %rsp,%rbp, behind push %rbp */
		return RBP_PUSHED;
	return NO_FRAME_YET;
}

/* Whether nothing but the poll at a return and the return itself are to come. */
static __always_inline bool is_returning(u64 code, u64 more)
{
	if ((u8)code == 0xc3)
		return true;
	if ((code & 0xffffff) == 0x673b49 || (code & 0xffffff) == 0xa73b49) /* cmp N(%r15),%rsp */
		return true;
	if ((u16)code == 0x870f) /* ja */
		return (u8)(code >> 48) == 0xc3;
	if ((u16)code == 0x0585) /* test %eax,N(%rip) */
		return (u8)(code >> 48) == 0xc3;
	if ((u32)code == 0xc3028541) /* test %eax,(%r10) */
		return true;
	return (code & 0xffffff) == 0x978b4d && (u32)(code >> 56 | more << 8) == 0xc3028541; /* mov N(%r15),%r10 */
}

/* The row of code that a JVM compiled: its blob tells how large the frame is, at its top lie the return address and rbp. The lower
 * half tells the code from other code that may be there later. */
__attribute__((noinline)) u64 code_row(u32 heap, u64 pc, u64 returned)
{
	const struct CodeHeap *h = code_heap(heap);
	u64 blob, begin = 0, code = 0, more = 0;
	i32 size = 0, complete = 0;
	u32 id = 0;
	u8 before[BYTES_BEFORE] = {};

	if (!h)
		return NO_ROW;
	if (pc >= h->interpreter_start && pc < h->interpreter_end)
		return ROW(KIND_INTERPRETED, 0, 0);
	blob = find_blob(heap, pc);
	if (!blob || read_user(&size, 4, blob + h->frame_size_at) || size <= 0 || size > LARGEST_FRAME)
		return NO_ROW;
	read_user(&id, 4, blob + h->compile_id_at);
	id = 1 << (COMPILED_BIT - BYTECODE_SHIFT) | (id & COMPILED_MASK);
	if (returned)
		return ROW(KIND_SP, size, -2) | id;
	if (h->frame_complete_bytes == 2) {
		i16 narrow = 0;

		read_user(&narrow, 2, blob + h->frame_complete_at);
		complete = narrow;
	} else {
		read_user(&complete, 4, blob + h->frame_complete_at);
	}
	if (h->code_by_offset) {
		u32 offset = 0;

		read_user(&offset, 4, blob + h->code_at);
		begin = blob + offset;
	} else {
		read_user(&begin, 8, blob + h->code_at);
	}
	read_user(&code, 8, pc);
	if (complete > 0 && pc < begin + (u32)complete) {
		read_user(before, sizeof(before), pc - sizeof(before));
		return prologue_row(code, before, size) | id;
	}
	if ((u8)code == 0xc3 || (u8)code == 0x5d || (u8)code == 0x49 || (u8)code == 0x0f || (u8)code == 0x85 ||
	    (u8)code == 0x41 || (u8)code == 0x4d) {
		read_user(&more, 8, pc + 8);
		if (is_returning(code, more))
			return NO_FRAME_YET | id;
		if ((u8)code == 0x5d && is_returning(code >> 8 | more << 56, more >> 8))
			return RBP_PUSHED | id;
	}
	return ROW(KIND_SP, size, -2) | id;
}

/* The word for a frame of a JVM's interpreter: its method, and the index of the bytecode, which a register has of the innermost
 * one, and the frame of all that made a call. */
__attribute__((noinline)) u64 interpreted_word(struct scratch *s, u32 heap, u64 bp, u64 returned)
{
	const struct CodeHeap *h = code_heap(heap);
	u64 method, constant = 0, index = NO_BYTECODE, at;
	u16 size = 0;

	if (!s || !h)
		return 0;
	method = read_word(s, bp - 24);
	at = read_word(s, bp - 64);
	read_user(&constant, 8, method + h->constant_at);
	read_user(&size, 2, constant + h->code_size_at);
	constant += h->constant_bytes;
	if (size > NO_BYTECODE)
		size = NO_BYTECODE;
	if (at - constant < size)
		index = at - constant;
	if (!returned && s->leaf[13] - constant < size)
		index = s->leaf[13] - constant;
	return 1ull << METHOD_BIT | index << BYTECODE_SHIFT | (method & ((1ull << BYTECODE_SHIFT) - 1));
}

static __always_inline bool is_mapped(struct process_maps *maps, u64 pc)
{
	u32 i = find_mapping(maps, pc);

	__asm__ volatile("" : "+r"(i)); /* the compiler knows the range of the result, the verifier does not */
	i &= MAX_MAPPINGS - 1;
	return i < maps->n && pc >= maps->m[i].start && pc < maps->m[i].end;
}

/* The row of a JVM's innermost frame, also where a compiled string function has pushed a word below it: then no code lies where
 * the return address should be. */
__attribute__((noinline)) u64 pushed_row(struct scratch *s, struct process_maps *maps, u64 row, u64 sp)
{
	u64 top = sp + 8 * (u64)(u16)(row >> 32);

	if (!s || !maps || row >> 48 != (ROW(KIND_SP, 0, -2) >> 48))
		return row;
	if (is_mapped(maps, read_word(s, top - 8)) || !is_mapped(maps, read_word(s, top)))
		return row;
	return row + (1ull << 32);
}

/* The next word of the function that a frame executes. */
static __always_inline u64 function_word(struct scratch *s)
{
	u64 at = s->function.left - 1;

	s->function.left = at;
	return s->function.words[at & (FUNCTION_WORDS - 1)];
}

/* V8. A frame of JavaScript has, below what its frame pointer leads to, its context and its function, which are objects; others have
 * a number there. What functions share that are made of the same text tells which one it is: a collection of garbage may put others
 * there, so its identity follows. `at`: where the frame's word is; it is replaced but where the thread stands in code of the engine
 * itself, of which most functions' first version is executed. `differs`: 0 if it is such a frame as its code keeps. */
__attribute__((noinline)) u64 look_at_function(struct scratch *s, struct process_maps *maps, u64 frame, u64 differs, u32 at)
{
	u64 context, function, shared = 0, map = 0, data = 0, name = 0, script = 0, identity;
	u16 type = 0;

	if (!s || !maps || differs)
		return 0;
	context = read_word(s, frame - 8);
	function = read_word(s, frame - 16);
	if ((context & 3) != 1 || (function & 3) != 1)
		return 0;
	if (read_user(&shared, 8, function - 1 + maps->engine.shared_at) || (shared & 3) != 1)
		return 0;
	shared--;
	if (read_user(&map, 8, shared) || (map & 3) != 1)
		return 0;
	if (read_user(&type, 2, map - 1 + maps->engine.instance_type_at) || type != maps->engine.shared_type)
		return 0;
	if (read_user(&data, 8, shared + maps->engine.data_at) || (data & 3) != 1)
		return 0;
	if (read_user(&name, 8, shared + maps->engine.name_at) || read_user(&script, 8, shared + maps->engine.script_at))
		return 0;
	identity = ((name * HASH) ^ script) * HASH >> 32;
	shared &= (1ull << BYTECODE_SHIFT) - 1;
	s->function.words[0] = 1ull << RETURN_BIT | 1ull << METHOD_BIT | identity;
#ifdef IDENTITY_FOR_PLACE
	s->function.words[0] = 1ull << METHOD_BIT | (identity & NO_BYTECODE) << BYTECODE_SHIFT | shared;
#else
	s->function.words[1] = 1ull << METHOD_BIT | (u64)NO_BYTECODE << BYTECODE_SHIFT | shared;
#endif
	s->function.left = FUNCTION_WORDS;
	if (at >> REPLACED_BIT)
		s->pcs[at & PCS_MASK] = function_word(s);
	return 1;
}

/* Why a stack ends where rbp is no frame pointer. */
static __always_inline u32 no_frame_pointer(const struct frame_walk *u, bool guess)
{
	if (u->table == TABLE_FRAME_POINTER && !u->bp)
		return END_COMPLETE;
	return !guess || u->guessed ? END_BAD_FP : END_NO_ROW;
}

/* Where the frame's word is, and in REPLACED_BIT whether a function's may stand in its place. */
static __always_inline u32 word_at(const struct frame_walk *u)
{
	u32 replaced = u->returned | below(u->table ^ TABLE_FRAME_POINTER, 1);

	return replaced << REPLACED_BIT | (u->first + u->n - 1);
}

/* One step out of the frame. */
static __always_inline u32 step(struct scratch *s, struct process_maps *maps)
{
	struct frame_walk *u = &s->walk;
	u64 pc = u->ip - u->returned, row = NO_ROW, cfa, bp = u->bp, bp_at = 0, ra, rule;
	i64 off8;
	i8 bp_off8;
	u8 kind;
	bool guess = false;
	u32 i;

	if (pc < u->m_start || pc >= u->m_end) {
		i = find_mapping(maps, pc);
		__asm__ volatile("" : "+r"(i)); /* the compiler knows the range of the result, the verifier does not */
		i &= MAX_MAPPINGS - 1;
		if (i >= maps->n || pc < maps->m[i].start || pc >= maps->m[i].end)
			return END_NO_MAPPING;
		u->m_start = maps->m[i].start;
		u->m_end = maps->m[i].end;
		u->text_base = maps->m[i].text_base;
		u->table = maps->m[i].table;
		u->heap = maps->m[i].heap;
	}
	if (u->table == TABLE_NOT_READY)
		return END_NOT_READY;
	if (u->table == TABLE_LIKE_ENTRY)
		row = (u64)KIND_SP << 48 | 1ull << 32;
	else if (u->table == TABLE_CODE_HEAP)
		row = u->returned ? code_row(u->heap, pc, 1) : pushed_row(s, maps, code_row(u->heap, pc, 0), u->sp);
	else if (u->table != TABLE_FRAME_POINTER)
		row = cached_row(u->table, pc - u->text_base);
	else if (u->returned)
		row = jit_row(u->ip);
	if (u->table == TABLE_CODE_HEAP)
		s->pcs[(u->first + u->n - 1) & PCS_MASK] |= (u64)(u32)row << BYTECODE_SHIFT;
	off8 = (i16)(row >> 32);
	kind = (u8)(row >> 48);
	bp_off8 = (i8)(row >> 56);

	switch (kind) {
	case KIND_CLONE:
		if (!u->returned && !s->leaf[0])
			return END_COMPLETE;
		/* fall through */
	case KIND_SP:
	case KIND_BP:
	case KIND_PLT:
		if (kind == KIND_PLT)
			off8 = (pc & 15) >= (u64)off8 ? 2 : 1;
		cfa = (kind == KIND_BP ? bp : u->sp) + off8 * 8;
		if (bp_off8)
			bp_at = cfa + (i64)bp_off8 * 8;
		break;
	case KIND_RULE:
		rule = find_rule(s, u->table, (u16)off8);
		cfa = (u8)s->rule_high == REG_BP ? bp : u->sp;
		if ((u8)s->rule_high >= REG_LEAF) {
			if (u->returned)
				return END_UNSUPPORTED;
			cfa = s->leaf[s->rule_high & 15];
		}
		cfa += (i64)(i32)rule;
		if ((u8)(s->rule_high >> 8))
			cfa = read_word(s, cfa) + 8 * (u64)(u8)(s->rule_high >> 24);
		if ((u8)(s->rule_high >> 16) != BP_SAME)
			bp_at = ((u8)(s->rule_high >> 16) == BP_AT_CFA ? cfa : bp) + ((i64)rule >> 32);
		break;
	case KIND_FP:
		if (!bp) /* the ABI's mark of the outermost frame */
			return END_COMPLETE;
		/* fall through */
	case KIND_NONE: /* the frame pointer, if it can be one */
		guess = kind == KIND_NONE;
		/* A JVM's small stubs that only jump on have no frame; its others keep a frame pointer. */
		if (u->table == TABLE_CODE_HEAP && !u->returned && is_mapped(maps, read_word(s, u->sp))) {
			cfa = u->sp + 8;
			break;
		}
		if (bp < u->sp || bp - u->sp > MAX_BP_DISTANCE || (bp & 7))
			return no_frame_pointer(u, guess);
		cfa = bp + 16;
		bp_at = bp;
		break;
	case KIND_INTERPRETED:
		if (bp < u->sp || bp - u->sp > MAX_BP_DISTANCE || (bp & 7))
			return END_BAD_FP;
		cfa = read_word(s, bp - 8);
		ra = read_word(s, bp + 8);
		u->bp = read_word(s, bp);
		s->pcs[(u->first + u->n - 1) & PCS_MASK] = interpreted_word(s, u->heap, bp, u->returned);
		if (s->fault)
			return END_READ_FAULT;
		if (cfa <= u->sp)
			return END_LOOP;
		if (!ra)
			return END_COMPLETE;
		u->ip = ra;
		u->sp = cfa;
		u->returned = 1;
		return GO_ON;
	case KIND_RA_RDI:
		if (u->returned)
			return END_UNSUPPORTED;
		u->ip = u->di;
		u->sp += off8 * 8;
		u->returned = 1;
		return GO_ON;
	case KIND_SIGNAL:
		return step_signal(u, s);
	case KIND_END:
		return END_COMPLETE;
	default:
		return END_UNSUPPORTED;
	}
	if (cfa <= u->sp)
		return END_LOOP;
	/* One branch: the verifier walks each for all kinds of rows. */
	if (maps->engine.shared_at)
		look_at_function(s, maps, bp, (bp_at ^ bp) | (cfa ^ (bp + 16)) | below(bp - u->sp, 16), word_at(u));
	if (bp_at)
		u->bp = read_word(s, bp_at);
	ra = RETURN_ADDRESS(s, cfa - 8);
	if (s->fault)
		return END_READ_FAULT;
	if (!ra) /* what thread starts without unwind information push */
		return END_COMPLETE;
	if (guess && !is_mapped(maps, ra))
		return no_frame_pointer(u, guess);
	u->guessed = guess;
	u->ip = ra;
	u->sp = cfa;
	u->returned = 1;
	return GO_ON;
}

/* CPython. A function in C executes bytecode. As long as Python code calls Python code it does not call itself: so a C frame
 * executes a group of Python's frames, which lead from one to the next. Something lies in the C frame that tells where its group
 * ends: the group's own struct (until 3.11) or a frame that is nobody's, between the groups. The frames stand for that C frame.
 * In 3.10 each C frame executes one frame. Until 3.9 nothing tells which: all are told first, as one group that has no C frame,
 * and user space, which knows the code that executes them, puts the two in step.
 *
 * All that the thread executes is looked for first. Code goes and other code comes to where it was, soon where modules are
 * imported: its identity is a word of its own, or, where places in code do not matter, stands for the place. */

static __always_inline void end_group(struct scratch *s, u64 marker)
{
	u64 n = s->python.n, words = n - s->python.head - 1;

	s->python.words[s->python.head & (PYTHON_WORDS - 1)] = words << GROUP_SHIFT | (marker & ((1ull << GROUP_SHIFT) - 1));
	s->python.words[n & (PYTHON_WORDS - 1)] = 0;
	s->python.head = n;
	s->python.n = n + 1;
}

/* Whether something in C frames tells which frames they execute. */
static __always_inline bool tells_c_frames(const struct Interpreter *p)
{
	return !p->frame_at || p->group_previous_at;
}

static __always_inline void tell_python(struct scratch *s, u64 word)
{
	s->python.words[s->python.n & (PYTHON_WORDS - 1)] = word;
	s->python.n++;
}

struct python_context {
	struct scratch *s;
	const struct Interpreter *p;
};

/* bpf_loop callback: looks at one of Python's frames. */
static long look_at_python(u32 i, struct python_context *c)
{
	struct scratch *s = c->s;
	const struct Interpreter *p = c->p;
	u64 frame, code = 0, place = 0, previous = 0, identity = 0, *names;
	u8 byte = 0;

	(void)i;
	if (!s || !p || !s->python.frame || s->python.n >= PYTHON_WORDS - 3)
		return 1;
	if (!tells_c_frames(p) && s->python.n > 2 * MAX_TOLD_APART)
		return 1;
	frame = s->python.frame;
	if (read_user(&previous, 8, frame + p->previous_at) || read_user(&byte, 1, frame + p->owner_at))
		return 1;
	s->python.frame = previous;
	if (!p->entry_at && !p->frame_at && byte >= OWNER_NOBODY) {
		end_group(s, frame);
		return 0;
	}
	if (read_user(&code, 8, frame + p->code_at) || read_user(&place, 8, frame + p->instruction_at))
		return 1;
	code &= ~7ull; /* there may be marks */
	names = s->python.names;
	__builtin_memset(names, 0, sizeof(s->python.names));
	read_user(names, 32, code + p->names_at);
	read_user(&names[4], 8, names[p->file_nth & 1] + p->hash_at);
	read_user(&names[5], 8, names[2] + p->hash_at);
#pragma unroll
	for (u32 j = 0; j < 6; j++)
		identity = (identity ^ names[j]) * HASH;
	identity >>= 32;
	TELL_CODE(s, p, code, identity);
#ifdef IDENTITY_FOR_PLACE
	place = identity & NO_BYTECODE;
#else
	place = p->frame_at ? (u32)place >> !tells_c_frames(p) : (place - code - p->bytecode_at) >> 1;
	if (place > NO_BYTECODE)
		place = NO_BYTECODE;
#endif
	tell_python(s, 1ull << METHOD_BIT | place << BYTECODE_SHIFT | (code & ((1ull << BYTECODE_SHIFT) - 1)));
#ifndef IDENTITY_FOR_PLACE
	tell_python(s, 1ull << RETURN_BIT | 1ull << METHOD_BIT | identity);
#endif
	if ((p->frame_at && tells_c_frames(p)) || (p->entry_at && !read_user(&byte, 1, frame + p->entry_at) && byte)) {
		end_group(s, s->python.group);
		read_user(&s->python.group, 8, s->python.group + p->group_previous_at);
	}
	return 0;
}

/* The next group is to be told. */
static __always_inline void next_group(struct scratch *s)
{
	u64 word = s->python.words[s->python.at & (PYTHON_WORDS - 1)];

	s->python.at++;
	s->python.left = word >> GROUP_SHIFT;
	s->python.marker = word & ((1ull << GROUP_SHIFT) - 1);
}

/* Finds what the thread executes in a Python, which has this number. */
__attribute__((noinline)) u64 enter_python(struct scratch *s, u32 number, u32 tgid)
{
	struct python_context c = { .s = s, .p = interpreter(number - 1) };
	const struct Interpreter *p = c.p;
	u64 at, state;

	if (!s || !p)
		return 0;
#ifdef IDENTITY_FOR_PLACE
	if (!tells_c_frames(p)) /* nobody would put them in step */
		return 0;
#endif
	s->python.tgid = tgid;
	at = s->python.thread_pointer;
	if (p->slots_at && read_user(&at, 8, at + p->slots_at))
		return 0;
	if (read_user(&state, 8, at + p->slot_at) || !state || read_user(&at, 8, state + p->thread_frame_at))
		return 0;
	s->python.group = at;
	if (p->frame_at ? read_user(&at, 8, state + p->frame_at) : p->group_previous_at && read_user(&at, 8, at + p->group_frame_at))
		return 0;
	s->python.frame = at;
	s->python.head = 0;
	s->python.words[0] = 0;
	s->python.n = 1;
	s->python.at = 0;
	LOOP(PYTHON_WORDS, look_at_python, &c);
	if (!tells_c_frames(p))
		end_group(s, TOLD_FIRST);
	next_group(s);
	return 0;
}

/* The word for the next of Python's frames. */
static __always_inline u64 python_word(struct scratch *s)
{
	u64 word = s->python.words[s->python.at & (PYTHON_WORDS - 1)];

	s->python.at++;
	if (!--s->python.left)
		next_group(s);
	return word;
}

/* From the registers in s->leaf on; frames go to s->pcs from index `first` on. */
static __always_inline void begin_walk(struct scratch *s, u32 first)
{
	struct frame_walk *u = &s->walk;

	u->ip = s->leaf[16];
	u->sp = s->leaf[7];
	u->bp = s->leaf[6];
	u->di = s->leaf[5];
	u->m_start = u->m_end = u->text_base = 0;
	u->returned = u->guessed = 0;
	u->table = u->heap = 0;
	u->first = first;
	u->n = 0;
	u->end = END_TOO_DEEP;
	s->window_at = 1;
	s->fault = 0;
	s->python.marker = 0;
	s->function.left = 0;
}

/* bpf_loop callback: records one frame and leaves it. The index, not a counter of our own, numbers
 * the frames: it is unknown to the verifier, so one pass proves them all. */
static long unwind_frame(u32 i, struct unwind *context)
{
	struct scratch *s = context->s;
	struct frame_walk *u;
	u64 *pc;
	u32 end;

	if (!s || !context->maps)
		return 1;
	u = &s->walk;
	pc = &s->pcs[(u->first + i) & PCS_MASK];
	u->n = i + 1;
	if (s->function.left) {
		*pc = function_word(s);
		return 0;
	}
	/* Of a group whose first frame was told, or whose C frame is behind us, being what others were told for. */
	if (s->python.marker && s->python.marker < u->sp && s->python.left) {
		*pc = python_word(s);
		return 0;
	}
	*pc = u->ip | u->returned << RETURN_BIT;
	end = step(s, context->maps);
	if (end != GO_ON) {
		u->end = end;
		return 1;
	}
	if (s->python.marker && s->python.marker < u->sp) {
		if (s->python.left)
			*pc = python_word(s);
		else
			next_group(s);
	}
	return 0;
}
