/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* TLB shootdowns: what other processors do for a followed thread. See memory.h. */
#pragma once
#include "memory_places.h"

#define TLB_REMOTE_SHOOTDOWN 1
#define TLB_REMOTE_SEND_IPI 4

SEC("tp_btf/tlb_flush")
int BPF_PROG(on_tlb_flush, int reason, unsigned long pages)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_call *call;
	struct memory_thread *m;
	u64 mm = (u64)untrusted(task)->mm;
	u32 zero = 0;

	if (reason == TLB_REMOTE_SHOOTDOWN) {
		call = bpf_map_lookup_elem(&memory_calls, &zero);
		if (call && call->since)
			call->mm = mm;
		return 0;
	}
	if (reason != TLB_REMOTE_SEND_IPI)
		return 0;
	m = known_memory_of(task);
	if (!m || in_interrupt(ctx, task))
		return 0;
	arrive_here(m, task)->shootdowns++;
	bpf_map_update_elem(&memory_senders, &mm, &slot_of(m)->place, BPF_ANY);
	return 0;
}

static __always_inline void begin_call(void)
{
	u32 zero = 0;
	struct memory_call *call = bpf_map_lookup_elem(&memory_calls, &zero);

	if (!call)
		return;
	call->mm = 0;
	call->since = bpf_ktime_get_boot_ns();
}

static __always_inline void end_call(void)
{
	struct memory_place *sender, key;
	struct memory_entry *entry;
	struct memory_call *call;
	u32 zero = 0;
	u64 since;

	call = bpf_map_lookup_elem(&memory_calls, &zero);
	if (!call || !call->since)
		return;
	since = call->since;
	call->since = 0;
	if (!call->mm)
		return;
	sender = bpf_map_lookup_elem(&memory_senders, &call->mm);
	if (!sender)
		return;
	key = *sender;
	entry = table_entry(&key);
	if (!entry)
		return;
	__sync_fetch_and_add(&entry->sums.remote, 1);
	__sync_fetch_and_add(&entry->sums.remote_ns, bpf_ktime_get_boot_ns() - since);
}

SEC("tp_btf/call_function_entry")
int BPF_PROG(on_call_begin)
{
	begin_call();
	return 0;
}

SEC("tp_btf/call_function_exit")
int BPF_PROG(on_call_end)
{
	end_call();
	return 0;
}

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(on_single_call_begin)
{
	begin_call();
	return 0;
}

SEC("tp_btf/call_function_single_exit")
int BPF_PROG(on_single_call_end)
{
	end_call();
	return 0;
}
