/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A thread's number as its own pid namespace has it. */
#pragma once

static __always_inline u32 ns_pid(struct task_struct *task)
{
	void *pid = NULL; /* a plain number to the verifier, so that it may be counted with */
	u32 level = 0;
	int nr = 0;

	bpf_probe_read_kernel(&pid, sizeof(pid), &task->thread_pid);
	if (!pid)
		return 0;
	bpf_probe_read_kernel(&level, sizeof(level), pid + bpf_core_field_offset(struct pid, level));
	bpf_probe_read_kernel(&nr, sizeof(nr), pid + bpf_core_field_offset(struct pid, numbers) +
					       level * bpf_core_type_size(struct upid));
	return nr;
}
