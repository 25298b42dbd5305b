/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Taking stacks and sending them. */
#pragma once

#define THREAD_SIZE 16384 /* a kernel stack on x86-64 */
#define SCRATCH_IRQ 0 /* the clock: interrupts are off, nothing of ours nests in it */
#define SCRATCH_SWITCH 1 /* switches and wakings: likewise */
#define SCRATCH_TASK 2 /* and 3: a thread's own context, which can be preempted */

#include "kernel_unwind.h"

/* True when the program runs on the current task's own kernel stack: not in an interrupt that came while
 * in the kernel (those run on the interrupt stack). One that came in user mode stays on the task's stack. */
static __always_inline bool on_task_stack(void *ctx, struct task_struct *current)
{
	/* The context lies on the stack in use. To the verifier half a pointer is a number, and it is enough: all kernel
	 * stacks lie in one region. */
	return (u32)(u64)ctx - (u32)(u64)current->stack < THREAD_SIZE;
}

static __always_inline void give_scratch(struct scratch *s)
{
	__sync_lock_test_and_set(&s->busy, 0);
}

static __always_inline struct scratch *scratch_at(u32 level)
{
	u32 key = bpf_get_smp_processor_id() * SCRATCH_LEVELS + level;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &key);

	return s && __sync_val_compare_and_swap(&s->busy, 0, 1) == 0 ? s : NULL;
}

static __always_inline struct scratch *take_scratch(u32 level)
{
	struct scratch *s = scratch_at(level);

	if (!s && level == SCRATCH_TASK)
		s = scratch_at(level + 1);
	if (!s)
		count(COUNTER_NO_SCRATCH, 1);
	return s;
}

static __always_inline struct StackRecord *stack_head(struct scratch *s)
{
	return (void *)&s->head[HEAD_WORDS - sizeof(struct StackRecord) / 8];
}

/* Copies the stack after the pcs, page by page as far as it can be read. Copies may have half of the ring: they are many
 * while user space reads the tables of a large program, and what is exact shall not be lost to them. */
__noinline u32 copy_bytes(struct scratch *s, u32 at, u64 from)
{
	u32 n = 0, room;

	if (!s || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > 2 * config.ring_wakeup_bytes)
		return 0;
	at = (at & PCS_MASK) + RAW_REG_WORDS;
	for (int i = 0; i < RAW_BYTES / 4096; i++) {
		if (bpf_probe_read_user(&s->pcs[at + i * 512], 4096, (void *)(from + i * 4096ull))) {
			/* The last, partial page: up to its end. */
			room = 4096 - ((from + i * 4096ull) & 4095);
			if (room < 4096 && room &&
			    !bpf_probe_read_user(&s->pcs[at + i * 512], room & 4095, (void *)(from + i * 4096ull)))
				n += room;
			break;
		}
		n += 4096;
	}
	return n;
}

static __always_inline u32 copy_raw(struct scratch *s, u32 at, const struct pt_regs *regs)
{
	raw_regs(&s->pcs[at & PCS_MASK], regs);
	return copy_bytes(s, at, regs->sp & ~7ull);
}

/* The user part of a stack, of the current task, into s->pcs from index `first` on. */
static __always_inline void user_stack(struct scratch *s, struct StackRecord *r, struct task_struct *task, u32 first)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	u64 walked;
	u32 n, end;

	if ((task->flags & PF_KTHREAD) || !untrusted(task)->mm) {
		r->end = END_NO_USER;
		return;
	}
	walked = walk_user(s, task, regs, first, MAX_USER_FRAMES);
	n = walked & PCS_MASK;
	end = walked >> 32;
	if (end != END_COMPLETE && (regs->orig_ax == NR_EXECVE || regs->orig_ax == NR_EXECVEAT)) {
		/* Past the point of no return an exec has no stack any more, or not yet; on its way out it
		 * has one, but no tables: a copy tells. */
		r->end = END_NO_USER;
		r->raw_len = copy_raw(s, first, regs);
		return;
	}
	r->n_user = n;
	r->end = end;
	if ((end >= END_NO_MAPPING && end <= END_UNSUPPORTED) || end == END_NOT_READY)
		r->raw_len = copy_raw(s, first + n, regs);
}

static __always_inline void send_stack(struct scratch *s, struct StackRecord *r)
{
	u64 size = sizeof(*r) + 8ull * (r->n_kernel + r->n_user);

	if (r->raw_len)
		size += sizeof(struct RawRegs) + r->raw_len;
	size &= 0x1ffff;
	if (size > sizeof(*r) + sizeof(s->pcs))
		size = sizeof(*r);
	if (r->raw_len && (r->end == END_NO_MAPPING || r->end == END_NOT_READY))
		send_urgent(r->kind, r, size, r->time);
	else
		send(r->kind, r, size);
}

static __always_inline struct StackRecord *begin_stack(struct scratch *s, u32 kind, struct task_struct *task)
{
	struct StackRecord *r = stack_head(s);

	__builtin_memset(r, 0, sizeof(*r));
	r->kind = kind;
	r->cpu = bpf_get_smp_processor_id();
	r->time = bpf_ktime_get_boot_ns();
	r->tid = task->pid;
	r->tgid = task->tgid;
	bpf_probe_read_kernel(r->comm, sizeof(r->comm), task->comm);
	return r;
}

/* Of the current thread and what interrupts it, by the kernel's helper. */
static __always_inline u32 kernel_stack(void *ctx, struct scratch *s)
{
	long n = bpf_get_stack(ctx, s->pcs, MAX_KERNEL_FRAMES * 8, 0);

	return n > 0 ? (u32)n / 8 & 127 : 0;
}

/* The same, faster. */
static __always_inline u32 own_stack(void *ctx, struct scratch *s, struct task_struct *task)
{
	u32 n = walk_own(s, (u64)BPF_CORE_READ(task, stack));

	return n ? n : kernel_stack(ctx, s);
}

/* Of a thread that is off the processor. */
static __always_inline u32 sleeping_stack(struct scratch *s, struct task_struct *task)
{
	u32 walked = walk_sleeping(s, (u64)BPF_CORE_READ(task, stack), task->thread.sp);
	long n;

	if (walked)
		return walked;
	n = bpf_get_task_stack(task, s->pcs, MAX_KERNEL_FRAMES * 8, 0);
	return n > 0 ? (u32)n / 8 & 127 : 0;
}

/* What the clock's interrupt came upon, of the current thread; 0: nothing that is known. */
static __always_inline u32 interrupted_stack(struct scratch *s, struct task_struct *task)
{
	if (!bpf_core_field_exists(task->se.cfs_rq->rq))
		return 0;
	return walk_interrupted(s, (u64)BPF_CORE_READ(task, stack), (u64)BPF_CORE_READ(task, se.cfs_rq, rq));
}

static __always_inline void emit_running(void *ctx, struct task_struct *task, bool in_kernel)
{
	struct scratch *s = take_scratch(SCRATCH_IRQ);
	struct StackRecord *r;

	if (!s)
		return;
	r = begin_stack(s, RECORD_RUNNING, task);
	if (in_kernel) {
		r->n_kernel = interrupted_stack(s, task);
		r->below_interrupt = r->n_kernel != 0;
		if (!r->n_kernel)
			r->n_kernel = kernel_stack(ctx, s);
	}
	user_stack(s, r, task, r->n_kernel);
	send_stack(s, r);
	give_scratch(s);
}

/* ---- waits ---- */

/* Whether a signal waits for the thread: that is what ended its sleep. */
static __always_inline bool is_signalled(struct task_struct *task)
{
	u64 pending = task->pending.signal.sig[0] | BPF_CORE_READ(task, signal, shared_pending.signal.sig[0]);

	return pending & ~task->blocked.sig[0];
}

/* Takes the stack of the waits from number `first` to the last one, whose system call `task` has not left, or, where that
 * is 0, of one to come; that with `ctx`, and its kernel part. */
static __always_inline void take_wait_stack(void *ctx, struct thread *t, struct task_struct *task, u32 first,
					    u32 level)
{
	struct scratch *s = take_scratch(level);
	struct StackRecord *r;

	if (!s)
		return;
	r = begin_stack(s, RECORD_WAIT_STACK, task);
	r->seq = t->wait;
	r->peer = first;
	r->sp = ((struct pt_regs *)bpf_task_pt_regs(task))->sp;
	if (ctx)
		r->n_kernel = own_stack(ctx, s, task);
	user_stack(s, r, task, r->n_kernel);
	send_stack(s, r);
	give_scratch(s);
}

/* Since Linux 6.18: has a thread call a function on its way back to user space. */
extern int bpf_task_work_schedule_resume_impl(struct task_struct *task, struct bpf_task_work *work, void *map,
					      int (*call)(struct bpf_map *, void *, void *), void *prog) __ksym __weak;

/* The thread goes back to user space: since it waited its stack has not changed, and its memory can be read. */
static int on_return(struct bpf_map *map, void *key, void *value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = thread_of(task);
	u32 first;

	if (!t)
		return 0;
	first = __sync_lock_test_and_set(&t->owes, 0);
	if (first)
		take_wait_stack(NULL, t, task, first, SCRATCH_TASK);
	return 0;
}

#define SLOT_TRIES 4

static __always_inline bool owe_by_work(struct thread *t, struct task_struct *task)
{
	struct owed *slot;
	u32 key;

	if (!bpf_ksym_exists(bpf_task_work_schedule_resume_impl))
		return false;
	if (t->owes)
		return true;
	t->owes = t->wait;
	for (u32 i = 0; i < SLOT_TRIES; i++) {
		key = (task->pid * SLOT_TRIES + i) & (OWED_SLOTS - 1);
		slot = bpf_map_lookup_elem(&owed_works, &key);
		if (slot && !bpf_task_work_schedule_resume_impl(task, &slot->work, &owed_works, on_return, NULL))
			return true;
	}
	t->owes = 0;
	count(COUNTER_NO_SCRATCH, 1);
	return false;
}

/* The thread owes its user stack for the wait that ends: it is taken as soon as its memory can be read. */
static __always_inline bool owe_stack(struct thread *t, struct task_struct *task)
{
	u32 zero = 0;
	u64 *owes;

	if (!config.stacks_after || (task->flags & PF_KTHREAD) || (t->marks & MARK_STACK_TAKEN))
		return false;
	if (!switches_are_told)
		return owe_by_work(t, task);
	owes = bpf_map_lookup_elem(&owing, &zero);
	if (owes)
		*owes = 1;
	return owes;
}

/* Stacks that are taken when a thread goes to wait. Where the kernel does not tell that a thread runs again, that is
 * the only time: the stack is taken if the wait is likely to cover the thread's next cut, which is if four times the
 * site's mean reaches that far, or sixteen times for a preemption, which has no site to speak of; a wait that covers
 * it all the same has the stack its site had last. So at most so many stacks are taken for one that is used.
 *
 * Elsewhere it spares waits that are often sampled, as they are long, what a stack would add to their waking: twice
 * the mean tells of most. Of shorter ones so few are sampled that one in a hundred wakings does not feel it; and who
 * then waits for a processor, as on a busy machine, feels nothing: there only the stacks that are used are taken, which
 * is a third of them. */
#define OFTEN_SAMPLED 512 /* one wait in so many */

static __noinline void take_if_likely(void *ctx, struct thread *t, struct task_struct *task, u64 now)
{
	struct site *site = &t->sites[t->current & (SITE_SLOTS - 1)];
	u64 waited = site->blocked + site->runnable;

	if (task->flags & PF_KTHREAD)
		return;
	if (config.stacks_after) {
		/* Of a site's first wait nothing can be foretold. */
		if ((site->flags & SITE_PREEMPTED) || (t->marks & WAIT_FIRST) || !site->count ||
		    site->runnable > waited / 4 || waited < site->count * (config.period_ns / OFTEN_SAMPLED))
			return;
	} else if (!(site->flags & SITE_PREEMPTED) && !(t->marks & WAIT_FIRST) &&
		   (t->next_cut - now) * site->count > 4 * waited) {
		return;
	}
	t->marks |= MARK_STACK_TAKEN | MARK_KERNEL_TAKEN;
	take_wait_stack(ctx, t, task, 0, SCRATCH_SWITCH);
}

/* The same, called only where the wait may be likely enough: by far the most are not. */
static __always_inline void take_early(void *ctx, struct thread *t, struct task_struct *task, u64 now)
{
	struct site *site = &t->sites[t->current & (SITE_SLOTS - 1)];

	if (unlikely((t->marks & WAIT_FIRST) ||
		     (t->next_cut - now) * site->count <= window.reach * (site->blocked + site->runnable)))
		take_if_likely(ctx, t, task, now);
}

/* The name of a waker that was noted in passing; none if it is gone. */
static __always_inline void late_comm(u8 *comm, u64 waker, u32 tid)
{
	struct task_struct *task = (void *)waker;

	if (BPF_CORE_READ(task, pid) == tid)
		bpf_probe_read_kernel(comm, 16, (void *)waker + bpf_core_field_offset(struct task_struct, comm));
}

/* System calls that send on a socket, or close one. */
static __always_inline bool sends(u64 nr)
{
	switch (nr) {
	case 1: case 3: case 20: case 40: /* write, close, writev, sendfile */
	case 42: case 44: case 46: case 48: /* connect, sendto, sendmsg, shutdown */
	case 275: case 307: /* splice, sendmmsg */
		return true;
	}
	return false;
}

/* System calls that may wait for a socket. */
static __always_inline bool awaits_socket(i32 nr)
{
	switch (nr) {
	case 0: case 1: case 19: case 20: /* read, write, readv, writev */
	case 7: case 23: case 270: case 271: /* poll, select, pselect6, ppoll */
	case 42 ... 47: /* connect, accept, sendto, recvfrom, sendmsg, recvmsg */
	case 232: case 281: case 441: /* epoll_wait, epoll_pwait, epoll_pwait2 */
	case 288: case 299: case 307: /* accept4, recvmmsg, sendmmsg */
		return true;
	}
	return false;
}

/* The kind of a waker that was noted in passing, in the midst of sending: a look at the stack would have cost too much, so it
 * is judged by what both do. */
#define WAKER_SENDS 15

/* What kind of waker ended the thread's wait, of which `noted` is known. */
static __always_inline u32 kind_of_waker(const struct thread *t, u8 noted)
{
	if (noted != WAKER_SENDS)
		return noted;
	return awaits_socket(t->sites[t->current & (SITE_SLOTS - 1)].nr) ? WAKER_TASK : WAKER_IRQ;
}

/* Where it was noted who ended a wait. */
enum noted { NOT_NOTED, NOTED_WITH_THREAD, NOTED_IN_SLOT };

/* A waking may be noted before its sleep has begun: the thread was on its way. That much before, as the waker may be
 * held up in between: by an interrupt, by its host, by the stack that we take of it. */
#define WAKING_LEAD_NS 100000

/* Where the waker of the stay off the processor was noted that began at `since`, and ended at `wake` but for its wait for
 * a processor. */
static __always_inline enum noted where_noted(struct thread *t, u64 since, u64 wake)
{
	if (t->state != STATE_BLOCKED)
		return NOT_NOTED;
	if (unlikely(t->wake + WAKING_LEAD_NS > since))
		return NOTED_WITH_THREAD;
	/* Between its waking and its run queue it may have passed its cut: that processor may have been the host's. */
	if (queues_are_known() && wake < t->next_cut + window.tick_ns)
		return NOTED_IN_SLOT;
	if (!(t->marks & WAIT_CUT_AT_START))
		count(COUNTER_WAKING_NOT_SEEN, 1);
	return NOT_NOTED;
}

/* Takes over who ended the wait. Returns what to tell of it. */
static __always_inline u32 end_by_slot(struct ended *e, struct thread *t, const struct wake_slot *slot)
{
	if (!slot)
		return 0;
	e->waker = slot->waker;
	e->waker_tid = slot->waker_tid;
	e->waker_place = 0;
	return kind_of_waker(t, slot->waker_kind) << 8;
}

/* Notes who ended a wait. A function of its own to the verifier, since many ways lead here. */
__noinline u32 note_who_ended(struct thread *t, const struct wake_slot *slot, u64 since, u64 wake, u32 flags)
{
	enum noted noted;
	struct ended *e;
	u32 told;

	if (!t)
		return 0;
	noted = where_noted(t, since, wake);
	e = &t->last;
	told = ENDED | flags | (t->marks & WAIT_CUT_AT_START) | bpf_get_smp_processor_id() << ENDED_CPU_SHIFT;
	if (noted == NOTED_IN_SLOT) {
		told |= end_by_slot(e, t, slot);
	} else if (noted == NOTED_WITH_THREAD) {
		told |= kind_of_waker(t, t->waker_kind) << 8;
		e->waker = t->waker;
		e->waker_tid = t->waker_tid;
		e->waker_place = t->cut_wait == t->wait ? t->waker_place : 0;
		if (t->waker_named) {
			told |= ENDED_NAMED;
			__builtin_memcpy(e->waker_comm, t->waker_comm, sizeof(e->waker_comm));
		}
	}
	return told;
}

/* Notes that the wait of `task` is over. Returns what is told of it, by which one of the next two sends it. */
static __always_inline u32 note_end(struct thread *t, struct task_struct *task, u64 since, u64 wake, u64 now,
				     u32 flags)
{
	t->last.since = since;
	t->last.wake = wake;
	t->last.end = now;
	return note_who_ended(t, wake_slot_of(task), since, wake, flags);
}

/* The record of a wait that is over; `told`: what was said of it. */
static __always_inline void fill_wait(struct WaitRecord *r, struct thread *t, u32 told)
{
	struct site *site = &t->sites[t->current & (SITE_SLOTS - 1)];
	struct ended *e = &t->last;

	r->kind = RECORD_WAIT;
	r->cpu = told >> ENDED_CPU_SHIFT;
	r->start = e->since;
	r->wake = e->wake;
	r->end = e->end;
	r->ip = site->ip;
	r->sp = site->sp;
	r->arg0 = site->arg0;
	r->wait = t->wait;
	r->nr = site->nr;
	r->operation = site->operation;
	r->fd_kind = site->fd_kind;
	r->site_flags = site->flags;
	r->n_kernel = 0;
	r->flags = told & (ENDED - 1);
	r->waker_place = 0;
	r->waker_tid = 0;
	r->waker_kind = told >> 8 & 15;
	__builtin_memset(r->waker_comm, 0, sizeof(r->waker_comm));
	if (r->waker_kind != WAKER_NONE) {
		r->waker_place = e->waker_place;
		r->waker_tid = e->waker_tid;
		if (told & ENDED_NAMED)
			__builtin_memcpy(r->waker_comm, e->waker_comm, sizeof(r->waker_comm));
		else
			late_comm(r->waker_comm, e->waker, e->waker_tid);
	}
}

/* Sends a wait that was noted, unless another does: a sweep may meet a thread that goes and comes, which then has sent it
 * itself, and noted the next. */
__noinline int send_last(struct thread *t, u32 tid, u32 tgid, u32 level)
{
	struct scratch *s;
	struct WaitRecord *r;
	u32 told, wait;

	if (!t)
		return 0;
	wait = *(volatile u32 *)&t->wait;
	told = *(volatile u32 *)&t->told;
	if (!told)
		return 0;
	s = take_scratch(level);
	if (!s) {
		t->told = 0;
		return 0;
	}
	r = (void *)s->head;
	fill_wait(r, t, told);
	r->tid = tid;
	r->tgid = tgid;
	if (wait == *(volatile u32 *)&t->wait && __sync_val_compare_and_swap(&t->told, told, 0) == told)
		send(RECORD_WAIT, r, sizeof(*r));
	give_scratch(s);
	return 0;
}

/* When its thread leaves the processor, or by a sweep. Nobody waits for that; at the wait's end the thread does, which
 * for a ms had nothing in a cache. */
static __always_inline void send_noted(struct thread *t, u32 tid, u32 tgid, u32 level)
{
	if (unlikely(t->told))
		send_last(t, tid, tgid, level);
}

/* Sends the wait that was noted with its kernel stack, where the thread still stands. */
static __always_inline void send_with_stack(struct thread *t, struct task_struct *task, u32 told)
{
	struct scratch *s = take_scratch(SCRATCH_SWITCH);
	struct WaitRecord *r;

	if (!s)
		return;
	r = (void *)s->head;
	fill_wait(r, t, told);
	r->tid = task->pid;
	r->tgid = task->tgid;
	r->n_kernel = sleeping_stack(s, task);
	if (owe_stack(t, task))
		r->flags |= WAIT_STACK_FOLLOWS;
	send(RECORD_WAIT, r, (sizeof(*r) + 8ull * r->n_kernel) & 0xfff);
	give_scratch(s);
}

/* Whether a softirq runs because the thread asked for it: it sends on a socket of this machine, say,
 * and delivers the packet itself on the way out. Leaf first, that call comes before the entry of any
 * interrupt. */
__noinline int own_softirq(struct scratch *s, u32 n)
{
	u64 pc;

	if (!s)
		return 0;
	for (u32 i = 0; i < MAX_KERNEL_FRAMES; i++) {
		pc = s->pcs[i];
		if (i >= n || pc - kernel_marks.entry_start < kernel_marks.entry_len)
			return 0;
		if (pc - kernel_marks.bh_enable_start < kernel_marks.bh_enable_len)
			return 1;
	}
	return 0;
}

/* Where a waker stands, and, in the lower half, what it wakes others from. What lies on top of its stack is no help: it
 * may be a slot that the function did not write. */
static __always_inline u64 waking_place(struct pt_regs *regs, const struct site *site)
{
	u64 place = (regs->sp ^ regs->ip << 24) * HASH;
	u64 awaited = (site->arg0 ^ site->ip << 24) * HASH;

	return (place & 0xffffffff00000000ull) | awaited >> 32;
}

#define OWN_WAKER_STACK_EVERY_NS 250000000ull

/* Whether the waker's stack is passed over, since it would add to the waking: where waits are so long that many
 * are sampled it is taken for one waking in OFTEN_SAMPLED, or a few a second, and where it is the first from that
 * place. The others have the last one of the same waker at the same place: drawn by chance, it stands for them. */
static __always_inline bool passes_over(struct thread *waker, u64 place, struct thread *t)
{
	struct site *site = &t->sites[t->current & (SITE_SLOTS - 1)];
	u64 chance = bpf_get_prandom_u32(), bit = 1ull << (place >> 58), mean;

	if (!(waker->woke_from & bit)) {
		waker->woke_from |= bit;
		return false;
	}
	if ((t->marks & WAIT_FIRST) || !site->count)
		return false;
	mean = (site->blocked + site->runnable) / site->count;
	return (OWN_WAKER_STACK_EVERY_NS * chance) >> 32 > mean &&
	       ((mean * chance) >> 32) * OFTEN_SAMPLED > config.period_ns;
}

/* Nothing but a timer or a signal ends these: no stack has to tell. */
static __always_inline bool is_sleep(i32 nr)
{
	return nr == 35 || nr == 230; /* nanosleep, clock_nanosleep */
}

/* Who wakes a thread. */
struct waking {
	struct task_struct *task;
	struct pt_regs *regs; /* of its system call */
	bool irq; /* rather an interrupt */
	bool own; /* of which it has to be seen whether it is the task's own doing: it is in the midst of a system call */
};

static __always_inline struct waking who_wakes(void *ctx)
{
	struct waking w = { .task = bpf_get_current_task_btf() };

	w.regs = registers_of(w.task);
	w.irq = !on_task_stack(ctx, w.task);
	if (!(w.task->flags & PF_KTHREAD)) {
		w.own = w.irq && (i64)w.regs->orig_ax >= 0;
		w.irq |= (i64)w.regs->orig_ax < 0; /* one from user mode stays on the task's stack */
	}
	return w;
}

/* Whether a wait that ends now is not one that is sampled. When the thread was woken, the kernel's account of its run queue
 * tells at the end of the wait. */
static __always_inline bool is_quiet(const struct wake_slot *slot)
{
	u64 until = slot->quiet_until;
	struct clock_offset *offset = offset_here();

	/* For half of all waits the last tick tells, which costs less than to read the clock. */
	if (offset && offset->compared && last_tick(offset) + window.tick_ns < until)
		return true;
	return bpf_ktime_get_boot_ns() < until;
}

/* Whether the wait that ends now will be sampled, or kept for its length. Not where its thread is still on its way to it: since
 * then it has run. A look at the stack of its waker would hold up both. */
static __always_inline bool deserves_a_look(const struct thread *t, u64 now)
{
	/* By the two clocks that are read a sleep may begin some ns after its end. */
	return t->state == STATE_BLOCKED && ((i64)(now - t->since) >= (i64)window.slice_min_ns || now >= t->next_cut ||
					     (t->marks & WAIT_FIRST));
}

static __always_inline u8 kind_in_passing(const struct waking *w)
{
	return w->own && sends(call_of(w->regs)) ? WAKER_SENDS : w->irq ? WAKER_IRQ : WAKER_TASK;
}

static __always_inline void note_in_passing(struct thread *t, const struct waking *w)
{
	t->waker = (u64)w->task;
	t->waker_tid = w->task->pid;
	t->waker_kind = kind_in_passing(w);
	t->waker_named = false;
}

/* Writes only what has changed: most threads are woken by the same one again and again. */
static __always_inline void note_in_slot(struct wake_slot *slot, const struct waking *w)
{
	u8 kind = kind_in_passing(w);

	if (slot->waker == (u64)w->task && slot->waker_tid == (u32)w->task->pid && slot->waker_kind == kind)
		return;
	slot->waker = (u64)w->task;
	slot->waker_tid = w->task->pid;
	slot->waker_kind = kind;
}

/* Also its name, and its stack when the wait it ends is one that is sampled. */
static __always_inline void note_waker(void *ctx, struct thread *t, struct waking *w, struct task_struct *wakee, u64 now)
{
	struct site *site = &t->sites[t->current & (SITE_SLOTS - 1)];
	struct task_struct *task = w->task;
	u64 place = 0;
	bool sampled, passed = false;
	struct thread *waker = NULL;
	struct scratch *s = NULL;
	struct StackRecord *r;
	u32 n = 0;

	sampled = t->cut_wait != t->wait &&
		  (now >= t->next_cut || (t->marks & WAIT_FIRST)) && !(w->irq && !w->own && is_sleep(site->nr));
	if (sampled && (!w->irq || w->own))
		waker = thread_of(task);
	if (waker) {
		place = waking_place(w->regs, site);
		passed = passes_over(waker, place, t);
	}
	if (!passed && (sampled || w->own))
		s = take_scratch(SCRATCH_SWITCH);
	if (s)
		n = own_stack(ctx, s, task);
	if (w->own)
		w->irq = s ? !own_softirq(s, n) : kind_of_waker(t, kind_in_passing(w)) == WAKER_IRQ;
	w->own = false;
	note_in_passing(t, w);
	t->waker_named = true;
	bpf_probe_read_kernel(t->waker_comm, sizeof(t->waker_comm), task->comm);
	if (passed) {
		t->cut_wait = t->wait;
		t->waker_place = w->irq ? 0 : place;
	}
	if (!s)
		return;
	if (sampled) {
		t->cut_wait = t->wait;
		t->waker_place = 0;
		r = begin_stack(s, RECORD_WAKER, task);
		r->seq = t->wait;
		r->sp = place;
		r->peer = wakee->pid;
		r->waker_kind = t->waker_kind;
		r->n_kernel = n;
		if (w->irq || (task->flags & PF_KTHREAD))
			r->end = END_NO_USER;
		else if (!waker) /* nothing is known of who is not recorded */
			r->end = END_NO_MAPPING;
		else
			user_stack(s, r, task, n);
		send_stack(s, r);
	}
	give_scratch(s);
}
