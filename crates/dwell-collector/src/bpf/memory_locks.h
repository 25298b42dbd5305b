/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which spin locks are those of memory's own lists: of a zone, from whose free pages all are got and to which they are given
 * back, and of the pages in use of a control group, into which each page comes and which it leaves.
 *
 * The kernel's symbols do not tell where these lie. But a thread's control group leads to its lists, one a node of memory, and from
 * there to the node, whose zones lie within.
 */
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
enum cgroup_subsys_id { memory_cgrp_id };
struct cgroup_subsys_state;
struct css_set {
	struct cgroup_subsys_state *subsys[1];
};
typedef struct {
	long held; /* not read: only its address matters */
} spinlock_t;
struct zone {
	spinlock_t lock;
};
struct pglist_data {
	struct zone node_zones[1];
	int node_id;
};
struct lruvec {
	spinlock_t lru_lock;
	struct pglist_data *pgdat;
};
struct mem_cgroup_per_node {
	struct lruvec lruvec;
};
struct mem_cgroup {
	struct mem_cgroup_per_node *nodeinfo[1];
};
struct task_struct___group {
	struct css_set *cgroups;
};
#pragma clang attribute pop

#define NODES_MOST 8

enum memory_lock { LOCK_OTHER, LOCK_ZONE, LOCK_LIST };

static __always_inline bool tells_groups(void)
{
	return bpf_core_field_exists(struct lruvec, pgdat) && bpf_core_field_exists(struct lruvec, lru_lock) &&
	       bpf_core_field_exists(struct mem_cgroup, nodeinfo);
}

static __always_inline u64 group_of(struct task_struct *task)
{
	struct task_struct___group *of = (void *)task;
	u64 groups = (u64)BPF_CORE_READ(of, cgroups), group = 0;

	groups += bpf_core_field_offset(struct css_set, subsys);
	bpf_probe_read_kernel(&group, sizeof(group),
			      (void *)(groups + 8 * bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)));
	return group;
}

static __always_inline bool is_zone_of(u64 node, u64 lock)
{
	u64 at = lock - node - bpf_core_field_offset(struct pglist_data, node_zones);

	return at < bpf_core_field_size(struct pglist_data, node_zones) &&
	       at % bpf_core_type_size(struct zone) == bpf_core_field_offset(struct zone, lock);
}

/* What the lock guards that the task has waited for. */
__noinline int lock_of_memory(u64 lock)
{
	u64 group, info = 0;

	if (!tells_groups())
		return LOCK_OTHER;
	group = group_of(bpf_get_current_task_btf());
	for (int i = 0; group && i < NODES_MOST; i++) {
		struct lruvec *lists;
		struct pglist_data *node;

		bpf_probe_read_kernel(&info, sizeof(info), (void *)(group + bpf_core_field_offset(struct mem_cgroup, nodeinfo) + 8 * i));
		lists = (void *)(info + bpf_core_field_offset(struct mem_cgroup_per_node, lruvec));
		node = info ? BPF_CORE_READ(lists, pgdat) : NULL;
		if (!node || BPF_CORE_READ(node, node_id) != i)
			break; /* there are no more */
		if (lock == (u64)lists + bpf_core_field_offset(struct lruvec, lru_lock))
			return LOCK_LIST;
		if (is_zone_of((u64)node, lock))
			return LOCK_ZONE;
	}
	return LOCK_OTHER;
}
