/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What followed threads do to get and give back memory: exact sums per place. Loaded for `dwell record --memory` only.
 */
#pragma once
#include "memory_places.h"
#include "memory_events.h"
#include "memory_owners.h"
#include "memory_pages.h"
#include "shootdowns.h"

/* Pages that a thread allocates in a system call are this call's, when it leaves the processor in the midst of it. */
static __always_inline void leave_processor(struct memory_thread *m, struct memory_now *now, struct task_struct *prev)
{
	struct pt_regs *regs = registers_of(prev);
	i32 nr = call_of(regs);

	make_own(now, prev, m);
	if ((now->allocated | freed_since(now)) && (nr != NR_NONE || (prev->flags & PF_EXITING)))
		arrive(m, prev, nr, regs->ip, regs->sp);
	collect(m, now, prev);
	m->fault = now->seen;
	m->in_call = now->in_call;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_memory_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct memory_now *now = memory_now();
	struct memory_thread *m;

	if (!now)
		return 0;
	if (unlikely(prev->flags & PF_KTHREAD) && now->allocated)
		count_memory(MEMORY_BY_KERNEL, now->allocated);
	m = known_memory_of(prev);
	if (m) {
		leave_processor(m, now, prev);
		if (unlikely(prev_state & TASK_DEAD))
			flush_all(m);
	}
	find_freed_count(now, prev);
	begin_anew(now, next, known_memory_of(next));
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_memory_exit, struct task_struct *task)
{
	struct memory_now *now = memory_now();
	struct memory_thread *m = known_memory_of(task);

	if (!m || !now)
		return 0;
	make_own(now, task, m);
	collect(m, now, task);
	arrive_here(m, task);
	return 0;
}

/* Flushes what living threads have. All other programs are detached by then. */
SEC("iter/task")
int on_memory_sweep(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct memory_now *now = memory_now();
	struct memory_thread *m;
	u32 zero = 0;

	if (!task || !task->pid || !now)
		return 0;
	m = known_memory_of(task);
	if (!m || (task->flags & PF_EXITING))
		return 0;
	if (task->on_cpu)
		now = bpf_map_lookup_percpu_elem(&memory_nows, &zero, task->thread_info.cpu);
	if (now) {
		if (now->task == (u64)task)
			collect_pages(now, &slot_of(m)->sums);
		else
			begin_anew(now, task, m);
		collect_faults(m, now, task);
	}
	flush_all(m);
	return 0;
}
