/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* When the recording begins and ends. */
#pragma once
#include "casts.h"

struct Window window SEC(".data.window");

/* An instant, or the edge of the window that is nearer to it. */
static __always_inline u64 in_window(u64 time)
{
	if (unlikely(time > window.end))
		return window.end;
	return unlikely(time < window.start) ? window.start : time;
}

static __always_inline u64 window_now(void)
{
	return in_window(bpf_ktime_get_boot_ns());
}

/* What to add to a processor's scheduler clock to have CLOCK_BOOTTIME, ns. */
struct clock_offset {
	u64 ns;
	u64 ticks; /* what to add to the time of all ticks to have that of the last, or somewhat more */
	u64 compared; /* when, by the scheduler's clock; 0: never */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct clock_offset);
} clock_offsets SEC(".maps");

static __always_inline struct clock_offset *offset_here(void)
{
	return bpf_map_lookup_elem(&clock_offsets, &window.only_key);
}

#define COMPARE_NS 1000000 /* how long an offset is trusted */
#define STALE_NS (10 * COMPARE_NS) /* and how long, when only late looks are to be had */
#define DRIFT_SHIFT 11 /* the clocks drift apart by 500 ppm at most (NTP) */
#define JUMP_NS 100000000 /* more is no late look: one of the clocks stood still while the machine slept */

/* The scheduler's clock, ns, as this processor has last read it for its queue; 0: it cannot be known. */
static __always_inline u64 queue_clock(struct task_struct *current)
{
	if (!(bpf_core_field_exists(current->se.cfs_rq) & bpf_core_field_exists(current->se.cfs_rq->rq)))
		return 0;
	return current->se.cfs_rq->rq->clock;
}

/* A tick is counted when it is due, or later: so the least difference is the right one, until the machine has slept. */
static __always_inline void compare_ticks(struct clock_offset *offset, u64 now)
{
	u64 since_ticks = now - bpf_jiffies64() * window.tick_ns;

	if (since_ticks < offset->ticks || since_ticks - offset->ticks > 2 * window.tick_ns)
		offset->ticks = since_ticks;
}

/* The same where it may be that the offset is to be compared anew. */
static __noinline u64 compared_time(u64 clock, bool sleeps)
{
	struct clock_offset *offset = offset_here();
	u64 age, ns, more;

	if (!offset || !clock || (!offset->compared && !sleeps))
		return window_now();
	age = clock - offset->compared;
	if (age >= COMPARE_NS && (sleeps || age >= STALE_NS)) {
		ns = bpf_ktime_get_boot_ns();
		compare_ticks(offset, ns);
		ns -= clock;
		more = age >> DRIFT_SHIFT;
		if (offset->compared && ns - offset->ns > more && ns - offset->ns < JUMP_NS)
			ns = offset->ns + more;
		offset->ns = ns;
		/* The next thread that goes to sleep sets a late look right. */
		offset->compared = sleeps ? clock : clock - COMPARE_NS;
	}
	return in_window(clock + offset->ns);
}

/* The instant of a switch: when the scheduler has begun with it. That is the instant from which the kernel counts
 * too, and reading a clock once more would be half of what accounting for a switch costs. We look at it some
 * hundred ns late, and later after a preemption or out of an idle processor: there it may be the clock of the
 * waking. So the least difference to CLOCK_BOOTTIME is the right one, and best seen where a thread goes to sleep. */
static __always_inline u64 switch_time(u64 clock, bool sleeps)
{
	struct clock_offset *offset = offset_here();

	if (unlikely(!offset || !clock || clock - offset->compared >= COMPARE_NS))
		return compared_time(clock, sleeps);
	return in_window(clock + offset->ns);
}

/* When the last tick was, or somewhat later, by an offset that is known. Reading the clock takes as long as all the rest of
 * what a waking needs, since it waits until what was loaded before is there. */
static __always_inline u64 last_tick(const struct clock_offset *offset)
{
	return bpf_jiffies64() * window.tick_ns + offset->ticks;
}

/* Whether the kernel tells how long threads wait on run queues. */
static __always_inline bool queues_are_known(void)
{
	struct task_struct *task = NULL;

	return bpf_core_field_exists(task->sched_info) && bpf_core_field_exists(task->se.cfs_rq->rq);
}

/* The same with one look, where the queue's clock was asked for. */
static __always_inline bool queue_tells(u64 clock)
{
	struct task_struct *task = NULL;

	return clock && bpf_core_field_exists(task->sched_info);
}

/* Time the kernel has seen a thread wait on run queues, up to its last switch or move, ns. */
static __always_inline u64 run_delay(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info) ? task->sched_info.run_delay : 0;
}

/* The same up to `clock`, by that of the scheduler, for a thread that waits. */
static __always_inline u64 run_delay_at(struct task_struct *task, u64 clock)
{
	u64 queued = *(volatile u64 *)&task->sched_info.last_queued;

	return run_delay(task) + (queued ? clock - queued : 0);
}

/* How long ago, by the clock of threads' time on processors (which stands still while the host or interrupts have the
 * processor), the kernel has last counted for a thread that is on one, or was until now; 0: it cannot be known. */
static __always_inline u64 since_counted(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->se.exec_start) || !bpf_core_field_exists(task->se.cfs_rq->rq->clock_task))
		return 0;
	return *(volatile u64 *)&untrusted(task)->se.cfs_rq->rq->clock_task - *(volatile u64 *)&task->se.exec_start;
}

/* From the end of a thread's work to the switch: microseconds; what is more, others had. */
#define TAIL_MAX_NS 10000

#define COUNT_TRIES 4

/* The time on processors that the kernel would have counted at `now` for a thread that is on one; 0: it cannot be
 * known. It counts at ticks and switches; since then it is taken to have run. */
static __always_inline u64 exec_until(struct task_struct *task, u64 now)
{
	struct clock_offset *offset = offset_here();
	u64 clock, exec;

	if (!offset || !offset->compared || !queue_clock(untrusted(task)))
		return 0;
	for (int i = 0; i < COUNT_TRIES; i++) { /* until no tick came in between */
		clock = *(volatile u64 *)&untrusted(task)->se.cfs_rq->rq->clock;
		exec = *(volatile u64 *)&task->se.sum_exec_runtime + since_counted(task);
		if (clock == *(volatile u64 *)&untrusted(task)->se.cfs_rq->rq->clock)
			break;
	}
	return exec + (now - clock - offset->ns); /* also when the end of the window lies before */
}

/* Whether the window has yet to open, or is closed, at an instant by window_now(). */
static __always_inline bool window_ahead(u64 now)
{
	return now == window.start;
}

static __always_inline bool window_over(u64 now)
{
	return now == window.end;
}
