/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The few kernel types the programs read, relocated to the running kernel by its BTF (CO-RE). */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;

/* The names linux/types.h and libbpf's headers expect. */
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef i8 __s8;
typedef i16 __s16;
typedef i32 __s32;
typedef i64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* What is seldom done is put behind what every switch does, so that this lies in fewer cache lines. */
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_F_USER_STACK = 1 << 8,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid {
	int nr;
};
struct pid {
	unsigned int level;
	struct upid numbers[];
};
struct inode {
	unsigned short i_mode;
};
struct file {
	struct inode *f_inode;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip;
	unsigned long csx; /* all eight bytes: reading cs as u16 is refused in perf_event programs */
	unsigned long flags, sp;
};
struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_queued;
};
struct rq {
	u64 clock;
	u64 clock_task;
};
struct cfs_rq {
	struct rq *rq;
};
struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};
typedef struct {
	unsigned long sig[1];
} sigset_t;
struct sigpending {
	sigset_t signal;
};
struct signal_struct {
	struct sigpending shared_pending;
};
struct bpf_local_storage;
struct restart_block {
	struct {
		u32 *uaddr;
		u32 flags;
	} futex;
};
struct thread_info {
	u32 cpu;
};
struct thread_struct {
	unsigned long sp;
	unsigned long fsbase;
};
struct task_struct {
	struct thread_info thread_info;
	struct thread_struct thread;
	unsigned int __state;
	struct sched_entity se;
	struct sched_info sched_info;
	void *stack;
	unsigned int flags;
	int on_cpu;
	struct mm_struct *mm;
	int exit_code;
	unsigned int in_iowait : 1;
	int pid;
	int tgid;
	u64 start_time;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	char comm[16];
	struct files_struct *files;
	struct signal_struct *signal;
	sigset_t blocked;
	struct sigpending pending;
	struct restart_block restart_block;
	struct bpf_local_storage *bpf_storage;
	unsigned long min_flt;
	unsigned long maj_flt;
	int pagefault_disabled;
};
struct timerqueue_node {
	i64 expires;
};
struct hrtimer {
	struct timerqueue_node node;
	void *function;
};
struct hw_perf_event {
	struct hrtimer hrtimer;
};
struct perf_event {
	struct hw_perf_event hw;
};
struct linux_binprm;
struct bpf_map { /* with a member: a declaration alone is no match for the kernel's */
	u32 id;
};
struct bpf_iter_meta {
	u64 session_id;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#define NR_EXECVE 59
#define NR_EXECVEAT 322
#define PF_KTHREAD 0x00200000
#define TASK_INTERRUPTIBLE 0x01
#define TASK_UNINTERRUPTIBLE 0x02
#define TASK_STOPPED_OR_TRACED 0x0c
#define TASK_DEAD 0x80
#define TASK_WAKEKILL 0x100
#define TASK_NEW 0x800
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define S_IFCHR 0020000
#define S_IFIFO 0010000
