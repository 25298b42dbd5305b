/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What followed threads do to get and give back memory: exact sums per place. Loaded for `dwell record --memory` only.
 */
#pragma once
#include "memory_places.h"
#include "memory_events.h"
#include "shootdowns.h"

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_memory_exit, struct task_struct *task)
{
	struct memory_thread *m = memory_of(task);

	if (m)
		flush_all(m, task);
	return 0;
}

/* Flushes what living threads have. All other programs are detached by then. */
SEC("iter/task")
int on_memory_sweep(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct memory_thread *m;

	if (!task || !task->pid || !task->bpf_storage)
		return 0;
	m = bpf_task_storage_get(&memory_threads, task, 0, 0);
	if (m && !(task->flags & PF_EXITING))
		flush_all(m, task);
	return 0;
}
