/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Reports of threads: their sums, the stay in progress included. */
#pragma once

/* Returns the kernel's time on processors at the begin of the stay in progress. */
static __always_inline u64 read_sums(struct ThreadRecord *r, struct thread *t)
{
	u64 exec_seen = 0;
	u32 version;

	for (int i = 0; i < 4; i++) {
		version = *(volatile u32 *)&t->version;
		r->since = *(volatile u64 *)&t->since;
		r->running = *(volatile u64 *)&t->running;
		r->runnable = *(volatile u64 *)&t->runnable;
		r->blocked = *(volatile u64 *)&t->blocked;
		r->stolen = *(volatile u64 *)&t->stolen;
		exec_seen = *(volatile u64 *)&t->exec_seen;
		r->state = *(volatile u8 *)&t->state;
		r->wait = *(volatile u32 *)&t->wait;
		r->involuntary = *(volatile u32 *)&t->involuntary;
		if (!(version & 1) && version == *(volatile u32 *)&t->version)
			break;
	}
	return exec_seen;
}

/* What the host or interrupts had of the stay on a processor from r->since to r->time. */
static __always_inline u64 stolen_until(struct ThreadRecord *r, struct thread *t, struct task_struct *task, u64 exec_seen)
{
	u64 stay = r->time - r->since, exec = exec_until(task, r->time), ran = exec - exec_seen;

	return t->exec_unknown || !exec || ran + TAIL_MAX_NS >= stay ? 0 : stay - ran;
}

/* How much of the stay off the processor from r->since to r->time the thread was runnable. */
static __always_inline u64 runnable_until(struct ThreadRecord *r, struct thread *t, struct task_struct *task)
{
	u64 stay = r->time - r->since, woken = *(volatile u64 *)&t->wake;
	struct clock_offset *offset = offset_here();
	i64 part;

	if (r->state != STATE_BLOCKED)
		return stay;
	if (!queues_are_known() || !offset || !offset->compared)
		return woken < r->since || woken > r->time ? 0 : r->time - woken;
	part = run_delay_at(task, r->time - offset->ns) - t->delay_seen;
	return part < 0 ? 0 : part > stay ? stay : part;
}

static __always_inline void emit_thread(struct task_struct *task, struct thread *t, u64 now, bool ended)
{
	struct scratch *s;
	struct ThreadRecord *r;
	struct site *site;
	u64 exec_seen, runnable, owner = *(volatile u64 *)&t->task; /* a number to the verifier */

	if (!is_thread_of(t, (u64)task))
		return;
	send_noted(t, task->pid, task->tgid, ended ? SCRATCH_SWITCH : SCRATCH_TASK);
	emit_sites(t, owner, task->pid, now);
	s = take_scratch(ended ? SCRATCH_SWITCH : SCRATCH_TASK);
	if (!s)
		return;
	r = (void *)s->pcs;
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = RECORD_THREAD;
	r->tid = task->pid;
	r->tgid = task->tgid;
	r->ns_tid = ns_pid(task);
	r->ns_tgid = ns_pid(task->group_leader);
	r->parent = task->real_parent->tgid;
	r->start = t->start;
	exec_seen = read_sums(r, t);
	/* The time is read after the sums, so that the stay in progress never ends before it began. */
	r->time = window_now();
	if (r->time < r->since)
		r->time = r->since;
	r->next_cut = t->next_cut;
	r->voluntary = r->wait - 1 - r->involuntary;
	r->exit_code = task->group_leader->exit_code;
	r->ended = ended;
	bpf_probe_read_kernel(r->comm, sizeof(r->comm), task->comm);
	if (r->state == STATE_RUNNING) {
		u64 stolen = stolen_until(r, t, task, exec_seen);

		r->stolen += stolen;
		r->running += r->time - r->since - stolen;
	} else {
		site = &t->sites[t->current & (SITE_SLOTS - 1)];
		r->ip = site->ip;
		r->sp = site->sp;
		r->nr = site->nr;
		r->futex = futex_word(site);
		r->operation = site->operation;
		r->fd_kind = site->fd_kind;
		r->site_flags = site->flags;
		runnable = runnable_until(r, t, task);
		r->runnable += runnable;
		r->blocked += r->time - r->since - runnable;
		if (!(task->flags & PF_KTHREAD))
			raw_regs(r->regs, (struct pt_regs *)bpf_task_pt_regs(task));
	}
	if (is_thread_of(t, owner)) /* it may have ended meanwhile, which has told all */
		send(RECORD_THREAD, r, sizeof(*r));
	give_scratch(s);
}
