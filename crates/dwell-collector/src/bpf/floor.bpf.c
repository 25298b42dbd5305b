/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Programs that do nothing where those of a recording do most: what the kernel takes to call them. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sched_switch")
int no_switch(void *ctx)
{
	return 0;
}

SEC("tp_btf/sched_waking")
int no_waking(void *ctx)
{
	return 0;
}
