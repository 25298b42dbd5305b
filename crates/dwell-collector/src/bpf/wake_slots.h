/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a waker has to know of a thread, and what it notes, apart from all else that is kept of it.
 *
 * A waker often runs on another processor, and needs little of what is kept of the thread that it wakes: to follow pointers
 * to it, through lines that the other processor has written last, would take longer than all the rest. So it has a slot
 * that the task's address leads to, and that is written about once per cut, or when another wakes the thread than did
 * before. A thread whose slot another thread has does without: its wakers take the long way. */
#pragma once
#include "casts.h"

struct wake_slot {
	u64 task; /* whose it is: the address of its task_struct; 0: nobody's */
	u64 quiet_until; /* no wait that ends before is sampled, CLOCK_BOOTTIME in ns */
	u64 waker; /* who ended the last sleep that ended so: its task_struct, to be read with care */
	u32 waker_tid;
	u8 waker_kind; /* WAKER_*, as noted in passing */
	u8 wanted; /* another thread was in want of it, and has none */
	u8 pad[2];
};
_Static_assert(sizeof(struct wake_slot) == 32, "never in two cache lines");

#define WAKE_SLOT_BITS 14
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << WAKE_SLOT_BITS);
	__type(key, u32);
	__type(value, struct wake_slot);
} wake_slots SEC(".maps");

static __always_inline struct wake_slot *wake_slot_at(const struct task_struct *task)
{
	u32 key = number_of(task) * HASH >> (64 - WAKE_SLOT_BITS);

	return bpf_map_lookup_elem(&wake_slots, &key);
}

/* The thread's slot; NULL: it has none. */
static __always_inline struct wake_slot *wake_slot_of(const struct task_struct *task)
{
	struct wake_slot *slot = wake_slot_at(task);

	return slot && slot->task == (u64)task ? slot : NULL;
}

/* Gives the thread a slot, unless another thread has the one at its address. */
static __always_inline void claim_slot(const struct task_struct *task)
{
	struct wake_slot *slot = wake_slot_at(task);
	u64 before;

	if (!slot)
		return;
	before = __sync_val_compare_and_swap(&slot->task, 0, (u64)task);
	if (before && before != (u64)task)
		slot->wanted = true;
}

/* Whether nobody is followed whose slot that would be. */
static __always_inline bool is_nobodys(const struct wake_slot *slot)
{
	return !slot->task && !slot->wanted;
}

static __always_inline void give_slot(const struct task_struct *task)
{
	struct wake_slot *slot = wake_slot_of(task);

	if (!slot)
		return;
	slot->quiet_until = 0;
	slot->waker = 0;
	slot->waker_tid = 0;
	slot->waker_kind = WAKER_NONE;
	barrier();
	slot->task = 0;
}

/* Until when wakers of the thread need not look at it; 0: they shall. */
static __always_inline void set_quiet(const struct task_struct *task, u64 until)
{
	struct wake_slot *slot = wake_slot_of(task);

	if (slot)
		slot->quiet_until = until;
}
