/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whose pages are in use: one page in 32 is followed from its allocation until it is freed, each for so many; of large ones
 * all. Which are, a hash of their address tells. User space has them counted from time to time: when a process holds more
 * than ever before, what each of its places holds is noted. That a page is free is only seen then, by its count of users;
 * whose it is if it was allocated again, its allocation has told.
 */
#pragma once
#include "memory_places.h"

#define OWNED_PAGES (1 << 16) /* 8 GiB of small pages. A look passes over all of the table, so it is not larger. */
#define OWNED_SHIFT 5
#define OWNED_WEIGHT (1ull << OWNED_SHIFT)
#define PEAK_STEP 64 /* a peak that is higher by less than one in so many is not noted anew */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
typedef struct {
	int counter;
} atomic_t;
struct page {
	atomic_t _refcount;
};
#pragma clang attribute pop

struct memory_owner {
	struct memory_place place;
	u64 pages; /* that it stands for */
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OWNED_PAGES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* address of its struct page */
	__type(value, struct memory_owner);
} memory_owners SEC(".maps");

/* What a process holds. */
struct memory_held {
	u64 pages, look; /* at that look */
	u64 peak, peak_look;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* tgid */
	__type(value, struct memory_held);
} memory_held SEC(".maps");

static __always_inline bool is_looked_at(u64 page, u64 order)
{
	u64 hash = (page >> 6) * HASH;

	return order < OWNED_SHIFT ? !(hash >> (64 - OWNED_SHIFT + order)) : true;
}

/* Pages that a fault or a call about memory of a followed thread gets, but for those of files, which stay without it. */
static __always_inline struct memory_thread *owner_of(struct memory_now *now, u64 gfp)
{
	struct memory_thread *m;

	if (!(gfp & GFP_MOVABLE) || (now->seen & FAULT_FILE) || now->interrupted)
		return NULL;
	m = known_memory_of(bpf_get_current_task_btf());
	return m && ((now->seen & FAULT_BEGUN) || now->in_call) ? m : NULL;
}

static __always_inline void note_owner(struct memory_now *now, u64 page, u64 order, u64 gfp)
{
	struct memory_thread *m = owner_of(now, gfp);
	u64 pages = 1ull << (order & 31);
	struct memory_owner owner = {};

	if (!m) {
		bpf_map_delete_elem(&memory_owners, &page); /* it may have been another's */
		return;
	}
	owner.place = slot_of(m)->place;
	owner.pages = pages > OWNED_WEIGHT ? pages : OWNED_WEIGHT;
	if (bpf_map_update_elem(&memory_owners, &page, &owner, BPF_ANY))
		count_memory(MEMORY_OWNERS_LOST, 1);
}

struct bpf_map;
struct look {
	u64 number;
	u64 new_peaks;
};

static __always_inline bool is_free(u64 page)
{
	const struct page *of = (const struct page *)page;
	int users = 1;

	bpf_core_read(&users, sizeof(users), &of->_refcount.counter);
	return !users;
}

static long look_at_page(struct bpf_map *map, u64 *page, struct memory_owner *owner, struct look *look)
{
	struct memory_held *held, none = {};

	if (is_free(*page)) {
		bpf_map_delete_elem(&memory_owners, page);
		return 0;
	}
	held = bpf_map_lookup_elem(&memory_held, &owner->place.tgid);
	if (!held) {
		bpf_map_update_elem(&memory_held, &owner->place.tgid, &none, BPF_NOEXIST);
		held = bpf_map_lookup_elem(&memory_held, &owner->place.tgid);
		if (!held)
			return 0;
	}
	if (held->look != look->number) {
		held->look = look->number;
		held->pages = 0;
	}
	held->pages += owner->pages;
	return 0;
}

static long look_at_process(struct bpf_map *map, u32 *tgid, struct memory_held *held, struct look *look)
{
	if (held->look == look->number && held->pages > held->peak + held->peak / PEAK_STEP) {
		held->peak = held->pages;
		held->peak_look = look->number;
		look->new_peaks = 1;
	}
	return 0;
}

static long note_peak(struct bpf_map *map, u64 *page, struct memory_owner *owner, struct look *look)
{
	struct memory_held *held = bpf_map_lookup_elem(&memory_held, &owner->place.tgid);
	struct memory_place key = owner->place;
	struct memory_entry *entry;

	if (!held || held->peak_look != look->number)
		return 0;
	entry = table_entry(&key);
	if (!entry)
		return 0;
	if (entry->peak_look != look->number) {
		entry->peak_look = look->number;
		entry->peak = 0;
	}
	entry->peak += owner->pages;
	return 0;
}

u64 memory_looks SEC(".data.memory_looks");

SEC("syscall")
int on_memory_look(void *ctx)
{
	struct look look = { .number = ++memory_looks };

	bpf_for_each_map_elem(&memory_owners, look_at_page, &look, 0);
	bpf_for_each_map_elem(&memory_held, look_at_process, &look, 0);
	if (look.new_peaks)
		bpf_for_each_map_elem(&memory_owners, note_peak, &look, 0);
	return 0;
}
