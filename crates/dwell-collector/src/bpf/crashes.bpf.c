/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Tells when a process that runs one of certain files is about to die of a signal that a broken program gets. It is told
 * while the process still is what it was: afterwards nobody can say which file it ran.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "ns_pid.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inode___crash {
	unsigned long i_ino;
	long long i_size;
};
struct file___crash {
	struct inode___crash *f_inode;
};
struct mm_struct___crash {
	struct file___crash *exe_file;
	unsigned long arg_start, arg_end;
};
struct kernel_siginfo___crash {
	int si_code;
	union {
		struct {
			int _pid;
		} _kill;
	} _sifields;
};
struct k_sigaction___crash {
	struct {
		void *sa_handler;
	} sa;
};
#pragma clang attribute pop

#define ARGS 512

/* A file: not by its device, whose number is not the one that stat tells on some file systems. */
struct file_key {
	u64 inode;
	u64 size;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct file_key);
	__type(value, u8);
} files SEC(".maps");

struct crash {
	struct file_key file;
	u32 tgid;
	u32 signal;
	u32 args_len;
	u32 pad;
	char args[ARGS]; /* as the process was started, zeroes between */
};
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} crashes SEC(".maps");

#define BIT(n) (1u << (n))
/* SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGSEGV */
#define SIGNALS (BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(11))

SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal, int signal, struct kernel_siginfo___crash *info, struct k_sigaction___crash *action)
{
	if (signal < 0 || signal > 31 || !(SIGNALS & BIT(signal)) || BPF_CORE_READ(action, sa.sa_handler))
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	/* What others send says nothing of the program; abort() sends to itself, by the number that it knows itself by. */
	if (BPF_CORE_READ(info, si_code) <= 0 &&
	    BPF_CORE_READ(info, _sifields._kill._pid) != (int)ns_pid(BPF_CORE_READ(task, group_leader)))
		return 0;
	struct mm_struct___crash *mm = (void *)task->mm;
	struct inode___crash *inode = BPF_CORE_READ(mm, exe_file, f_inode);
	struct file_key key = {};
	key.inode = BPF_CORE_READ(inode, i_ino);
	key.size = BPF_CORE_READ(inode, i_size);
	if (!bpf_map_lookup_elem(&files, &key))
		return 0;
	struct crash *crash = bpf_ringbuf_reserve(&crashes, sizeof(*crash), 0);
	if (!crash) /* a hundred are waiting to be read: one is enough for a file to be taken back */
		return 0;
	crash->file = key;
	crash->tgid = bpf_get_current_pid_tgid() >> 32;
	crash->signal = signal;
	crash->pad = 0;
	u64 start = BPF_CORE_READ(mm, arg_start);
	u64 len = BPF_CORE_READ(mm, arg_end) - start;
	if (len > ARGS)
		len = ARGS;
	/* No more than there is: the stack may end right behind. */
	crash->args_len = bpf_probe_read_user(crash->args, len, (void *)start) ? 0 : len;
	bpf_ringbuf_submit(crash, 0);
	return 0;
}
