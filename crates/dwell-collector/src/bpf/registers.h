/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where the registers of a thread's user code are. */
#pragma once
#include "casts.h"

/* As the kernel's own function says. A call costs more here than all that is done with the answer: it is made once. */
static __always_inline void find_registers(struct task_struct *task)
{
	volatile u64 *at = &window.registers_at;

	if (*at)
		return;
	*at = bpf_task_pt_regs(task); /* through memory it becomes a number */
	*at -= (u64)task->stack;
}

static __always_inline struct pt_regs *registers_of(struct task_struct *task)
{
	u64 at = window.registers_at;

	if (!bpf_ksym_exists(bpf_rdonly_cast) || unlikely(!at))
		return (struct pt_regs *)bpf_task_pt_regs(task);
	return bpf_rdonly_cast((void *)((u64)task->stack + at), bpf_core_type_id_kernel(struct pt_regs));
}
