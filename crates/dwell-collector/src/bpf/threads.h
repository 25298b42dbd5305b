/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where the threads are that are followed.
 *
 * In a table, at the place that the task's address leads to, or at another if that was taken: one look tells of most
 * tasks. The kernel's own way to keep something with a task takes several calls at each switch, and returns are dear where
 * they are made safe (a return that is never foretold, some 20 cycles, on AMD's processors up to Zen 4). */
#pragma once
#include "casts.h"

/* A thread is at one of so many places. With 14 000 of 16 384 in use none was in want of one, with 15 000 three were. */
#define THREAD_PLACES 64

static __always_inline u32 first_place(const struct task_struct *task)
{
	return number_of(task) * HASH >> window.thread_shift;
}

static __always_inline struct thread *place_at(u32 key)
{
	return bpf_map_lookup_elem(&threads, &key);
}

/* The `i`-th of a task's places. Each step is longer than the one before (triangular numbers lead to every place of a table
 * of 2^n: Knuth, TAOCP 6.4, exercise 20), so that those in use do not gather. */
static __always_inline struct thread *place_of(const struct task_struct *task, u32 i)
{
	return place_at((first_place(task) + i * (i + 1) / 2) & (~0ull >> window.thread_shift));
}

static __noinline struct thread *find_passed(const struct task_struct *task)
{
	struct thread *t;

	for (u32 i = 1; i < THREAD_PLACES; i++) {
		t = place_of(task, i);
		if (!t || t->task == (u64)task)
			return t;
	}
	return NULL;
}

/* What there is of a thread, be it not adopted yet; NULL: nothing. */
static __always_inline struct thread *find_thread(const struct task_struct *task)
{
	struct thread *t = place_at(first_place(task));

	if (!t || likely(t->task == (u64)task))
		return t;
	return likely(!t->passed) ? NULL : find_passed(task);
}

/* What is kept of a thread; NULL: it is not recorded, or not yet. Who comes while a thread is adopted makes the
 * adoption begin anew, since the state that it has read may be the one before a switch. */
static __always_inline struct thread *thread_of(const struct task_struct *task)
{
	struct thread *t = find_thread(task);

	if (!t || likely(t->wait + 2 > 2)) /* neither 0 nor one of the two marks */
		return t;
	__sync_val_compare_and_swap(&t->wait, ADOPTION_BEGUN, ADOPTION_MET);
	return NULL;
}

/* Finds the thread, or gives it a place, where all is 0. NULL: there is none. */
static __noinline struct thread *place_for(const struct task_struct *task)
{
	struct thread *t = find_thread(task);
	u64 before;

	for (u32 i = 0; !t && i < THREAD_PLACES; i++) {
		t = place_of(task, i);
		if (!t)
			return NULL;
		before = __sync_val_compare_and_swap(&t->task, 0, (u64)task);
		if (before && before != (u64)task) {
			t->passed = true;
			t = NULL;
		}
	}
	return t;
}

/* The thread is followed no more. Who still reads of it has to look afterwards whether it is there (is_thread_of()). */
static __always_inline void forget(const struct task_struct *task, struct thread *t)
{
	const u32 kept = __builtin_offsetof(struct thread, passed) / 8;

	give_slot(task);
	*(volatile u64 *)&t->task = THREAD_FORGOTTEN;
	for (u32 i = 1; i < sizeof(*t) / 8; i++)
		if (i != kept) /* others may set it meanwhile, and must find it */
			((volatile u64 *)t)[i] = 0;
	t->involuntary = 0;
	t->current = t->slept = t->dirty = 0;
	barrier();
	*(volatile u64 *)&t->task = 0;
}

/* Whether what was read of the thread is the task's. */
static __always_inline bool is_thread_of(const struct thread *t, u64 task)
{
	return *(const volatile u64 *)&t->task == task;
}
