/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Telling the verifier what an address points to. */
#pragma once

/* Since Linux 6.2: takes a number for the address of what the type says. No call is made for it. */
extern void *bpf_rdonly_cast(const void *address, u32 type) __ksym __weak;

/* The lower half of a task's address; to be multiplied by HASH. To the verifier a copy of half a pointer is a number. */
static __always_inline u64 number_of(const struct task_struct *task)
{
	u32 number;

	asm volatile("%0 = %1" : "=w"(number) : "w"((u32)(u64)task));
	return number;
}

/* The same thread, to read pointers of. Where one is read of a thread that is trusted, the verifier searches all types of
 * the kernel several times, by name, for whether that pointer is to be trusted, too: a ms or two, each time that it comes by. */
static __always_inline struct task_struct *untrusted(struct task_struct *task)
{
	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return task;
	return bpf_rdonly_cast(task, bpf_core_type_id_kernel(struct task_struct));
}
