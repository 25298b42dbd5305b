/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How many pages a processor has freed: the kernel counts them itself (PGFREE of /proc/vmstat), for each processor. A program
 * at mm_page_free would tell the same, and cost every page the way to it and back.
 */
#pragma once
#include "registers.h"

enum vm_event_item { PGFREE };
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct vm_event_state {
	unsigned long event[1];
};
#pragma clang attribute pop

/* From a processor's queue of threads to its counts: both are variables of the kernel that each processor has its own of, so the
 * distance is the same for all. User space knows it from the kernel's types (see memory/freed_counts.rs). */
i64 counts_from_queue SEC(".data.memory_freed");

/* Notes where the count of the processor is that the task runs on. */
static __always_inline void note_freed_count(u64 *to, struct task_struct *task)
{
	volatile u64 *at = to;

	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(task->se.cfs_rq->rq))
		return;
	*at = (u64)untrusted(task)->se.cfs_rq->rq; /* through memory it becomes a number */
	if (*at)
		*at += counts_from_queue + 8 * bpf_core_enum_value(enum vm_event_item, PGFREE);
}

static __always_inline u64 freed_count(u64 at)
{
	u64 count = 0;

	if (!bpf_ksym_exists(bpf_rdonly_cast)) {
		bpf_probe_read_kernel(&count, sizeof(count), (void *)at);
		return count;
	}
	return ((struct vm_event_state *)bpf_rdonly_cast((void *)at, bpf_core_type_id_kernel(struct vm_event_state)))->event[0];
}
