/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the unwinder reads: processes' mappings, modules' tables, rows. User space fills it (unwind_maps.rs). */
#pragma once

/* Multiplying by it spreads a key over the upper bits: 2^64 over the golden ratio (Knuth, TAOCP 6.4). */
#define HASH 0x9e3779b97f4a7c15ull

/* A process' executable mappings, sorted. */
struct process_maps {
	u32 n;
	u32 python; /* number of its Interpreter, from 1 on; 0: none */
	struct Engine engine;
	struct Mapping m[MAX_MAPPINGS];
};

#define WINDOW_BYTES 1024ull /* of a stack, read at once */

/* Rows that were found: see unwind.h. */
#define ROW_PAIRS_BITS 10
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 << ROW_PAIRS_BITS);
	__type(key, u32);
	__type(value, u64);
} row_cache SEC(".maps");

/* Unwind information: see dwell_abi::events. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct process_maps);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TABLES);
	__type(key, u32);
	__type(value, struct ModuleTable);
} tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CODE_HEAPS);
	__type(key, u32);
	__type(value, struct CodeHeap);
} code_heaps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_INTERPRETERS);
	__type(key, u32);
	__type(value, struct Interpreter);
} interpreters SEC(".maps");

/* What a Python executes, in groups: see unwind.h. A group is a word that says what lies in its C frame (0: not known) and, from
 * bit GROUP_SHIFT on, how many words there are for its frames, and these. */
#define TOLD_FIRST 1 /* in no C frame, and below all of them */
#define PYTHON_WORDS 4096
#define GROUP_SHIFT 48
struct python_walk {
	u64 thread_pointer;
	u64 tgid;
	u64 frame; /* the next one to look at */
	u64 group; /* what tells the frames of a C frame; 0: there are none of these */
	u64 head; /* index of the first word of the last group */
	u64 n; /* words */
	u64 at; /* index of the next one to be told */
	u64 left; /* words of the group that are still to be told */
	u64 marker; /* what lies in the C frame of the next group; 0: there is none */
	u64 names[6]; /* of the last frame that was looked at: what its identity is made of */
	u64 length; /* of a name */
	u64 words[PYTHON_WORDS];
};

/* The function of JavaScript that a frame executes: words that are still to be told, the last one first. */
#ifdef IDENTITY_FOR_PLACE
#define FUNCTION_WORDS 1
#else
#define FUNCTION_WORDS 2
#endif
struct function_told {
	u64 words[FUNCTION_WORDS];
	u64 left;
};

/* Where a walk is. */
struct frame_walk {
	u64 ip, sp, bp, di;
	u64 m_start, m_end, text_base; /* of the mapping that ip lies in */
	u64 returned; /* 1: ip is a return address */
	u64 guessed; /* 1: a frame pointer led here, without unwind information to say so */
	u32 table;
	u32 heap; /* of code that a JVM compiled */
	u32 first; /* index in pcs of the leaf */
	u32 n; /* frames recorded */
	u32 end;
};

struct cell_chunk {
	u64 cells[1 << CHUNK_SHIFT];
};
struct chunk_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, 8 << CHUNK_SHIFT);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_CHUNKS);
	__type(key, u32);
	__array(values, struct chunk_map);
} chunks SEC(".maps");
