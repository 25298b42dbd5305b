/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Processes whose calls are wanted, where not those of all are. */
#pragma once

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u8);
} targets SEC(".maps");

static __always_inline bool is_target(void)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&targets, &tgid) != NULL;
}
