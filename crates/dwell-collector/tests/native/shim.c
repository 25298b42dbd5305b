/* The unwinder of the eBPF programs as a function of this process: the very text of maps.h and
 * unwind.h, with memory, cells and tables from callbacks and arrays instead of maps. */
#include <stddef.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef _Bool bool;
#define true 1
#define false 0
#define __always_inline inline __attribute__((always_inline))

/* What maps.h says to the eBPF loader means nothing here. */
#define SEC(name)
#define __uint(name, value)
#define __type(name, type)
#define __array(name, type)
static void *bpf_map_lookup_elem(void *map, const void *key)
{
	(void)map;
	(void)key;
	return NULL;
}

#include "abi.h"

/* Set for one walk at a time: the test walks from one thread. */
static long (*reader)(void *to, u32 n, u64 from);
static u64 *const *all_cells;
static u32 n_chunks;
static const struct ModuleTable *all_tables;
static u32 n_tables;

static long read_user(void *to, u32 n, u64 from)
{
	return reader(to, n, from);
}

static u64 *cells(u32 chunk)
{
	return chunk < n_chunks ? all_cells[chunk] : NULL;
}

static const struct ModuleTable *table(u32 index)
{
	return index < n_tables ? &all_tables[index] : NULL;
}

static const struct CodeHeap *the_heap;

static const struct CodeHeap *code_heap(u32 index)
{
	(void)index;
	return the_heap;
}

static const struct Interpreter *interpreter(u32 index)
{
	(void)index;
	return NULL;
}

#include "maps.h"

static u64 rows[2 << ROW_PAIRS_BITS];

static u64 *row_slot(u32 index)
{
	return &rows[index];
}

#define LOOP(times, function, context)                      \
	for (u32 loop_i = 0; loop_i < (times); loop_i++) \
		if (function(loop_i, context))              \
			break;
#include "unwind.h"

static struct scratch scratch;
static const void *cached_of;

/* Walks one stack. `regs` are in DWARF order, as in struct RawRegs. Returns the number of frames, whose pcs are
 * in `pcs` as a record has them; `end` says why the stack ends. */
u32 walk_natively(long (*read)(void *to, u32 n, u64 from), u64 *const *chunk_memory, u32 chunk_count,
		  const struct ModuleTable *module_tables, u32 table_count, struct process_maps *maps, const u64 *regs,
		  u64 *pcs, u32 *end)
{
	struct unwind u = { .s = &scratch, .maps = maps };

	/* The numbers of tables mean something else for another layout. */
	if (chunk_count && cached_of != chunk_memory[0]) {
		for (u32 i = 0; i < 2 << ROW_PAIRS_BITS; i++)
			rows[i] = 0;
		cached_of = chunk_memory[0];
	}
	reader = read;
	all_cells = chunk_memory;
	n_chunks = chunk_count;
	all_tables = module_tables;
	n_tables = table_count;
	for (u32 i = 0; i < RAW_REG_WORDS; i++)
		scratch.leaf[i] = regs[i];
	begin_walk(&scratch, 0);
	for (u32 i = 0; i < MAX_USER_FRAMES; i++)
		if (unwind_frame(i, &u))
			break;
	for (u32 i = 0; i < scratch.walk.n; i++)
		pcs[i] = scratch.pcs[i];
	*end = scratch.walk.end;
	return scratch.walk.n;
}

/* The row of a JVM's code. */
u64 compiled_row(long (*read)(void *to, u32 n, u64 from), const struct CodeHeap *heap, u64 pc, u64 returned)
{
	reader = read;
	the_heap = heap;
	return code_row(0, pc, returned);
}

/* What the test lays out must be what the text above expects. */
u32 process_maps_size(void)
{
	return sizeof(struct process_maps);
}
