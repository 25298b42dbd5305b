/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cuts of a thread's time, and exact sums per wait site. */
#pragma once

/* Rate limit of stacks taken only to know a site: one per 5 ms of a thread's time. */
#define FIRST_GAP_NS 5000000ull

/* Distances between cuts are uniform in [P/2, 3P/2]. */
static __always_inline u64 cut_gap(void)
{
	return config.period_ns / 2 + (((u64)bpf_get_prandom_u32() * config.period_ns) >> 32);
}

/* Time to the next cut from an instant that knows nothing of the cuts before: density (1 - F(u)) / P.
 * Half of it is uniform in [0, P/2]; the other half falls linearly to 0 at 3P/2, as the smaller of
 * two uniform numbers does. */
static __always_inline u64 stationary_gap(void)
{
	u32 a = bpf_get_prandom_u32(), b = bpf_get_prandom_u32();

	if (bpf_get_prandom_u32() & 1)
		return ((u64)a * config.period_ns) >> 33;
	return config.period_ns / 2 + (((u64)(a < b ? a : b) * config.period_ns) >> 32);
}

/* Moves the next cut past `now`, which it is not. After eight periods the cuts before are forgotten. */
__noinline int cuts_until(struct thread *t, u64 now)
{
	if (!t)
		return 0;
	if (now - t->next_cut < 8 * config.period_ns) {
		for (int i = 0; i < 20; i++) {
			t->next_cut += cut_gap();
			if (t->next_cut > now)
				return 0;
		}
	}
	t->next_cut = now + stationary_gap();
	return 0;
}

/* Wakers have to know of the next cut, too. */
static __noinline void pass_cut(struct thread *t, struct task_struct *task, u64 now)
{
	cuts_until(t, now);
	set_quiet(task, t->next_cut);
}

static __always_inline void advance_cut(struct thread *t, struct task_struct *task, u64 now)
{
	if (unlikely(now >= t->next_cut))
		pass_cut(t, task, now);
}

/* Sends the sums of one slot, if they are the task's. A function of its own to the verifier, like those below: looked at once. */
__noinline int emit_site(struct thread *t, u32 slot, u64 task, u32 tid, u64 now)
{
	struct SiteRecord r = {};
	struct site *s;

	if (!t)
		return 0;
	s = &t->sites[slot & (SITE_SLOTS - 1)];
	s->dirty = 0;
	r.kind = RECORD_SITE;
	r.tid = tid;
	r.time = now;
	r.ip = s->ip;
	r.sp = s->sp;
	r.blocked = s->blocked;
	r.runnable = s->runnable;
	r.count = s->count;
	r.max = s->max;
	r.install = s->install;
	r.nr = s->nr;
	r.futex = futex_word(s);
	r.operation = s->operation;
	r.fd_kind = s->fd_kind;
	r.flags = s->flags;
	r.slot = slot;
	if (is_thread_of(t, task))
		send(RECORD_SITE, &r, sizeof(r));
	return 0;
}

/* Sends what has changed. */
__noinline int emit_sites(struct thread *t, u64 task, u32 tid, u64 now)
{
	if (!t)
		return 0;
	for (u32 i = 0; i < SITE_SLOTS; i++)
		if (t->sites[i].dirty)
			emit_site(t, i, task, tid, now);
	return 0;
}

#define BIT(nr) (1ull << ((nr) & 63))
/* System calls whose first argument is a file descriptor that tells why they wait: a bit per number. */
static const u64 calls_on_fd[8] = {
	[0] = BIT(0) | BIT(1) | /* read, write */
	      BIT(16) | BIT(17) | BIT(18) | BIT(19) | BIT(20) | /* ioctl, p{read,write}64, readv, writev */
	      BIT(40), /* sendfile */
	[1] = BIT(72) | BIT(73) | BIT(74) | BIT(75), /* fcntl (locks), flock, fsync, fdatasync */
	[3] = BIT(217), /* getdents64 */
	[4] = BIT(275) | BIT(276) | BIT(277) | BIT(285) | /* splice, tee, sync_file_range, fallocate */
	      BIT(295) | BIT(296), /* preadv, pwritev */
	[5] = BIT(327) | BIT(328), /* preadv2, pwritev2 */
};

static __always_inline bool waits_on_fd(i32 nr)
{
	return (u32)nr < 512 && calls_on_fd[((u32)nr >> 6) & 7] & BIT(nr);
}

static __always_inline u8 fd_kind(u64 files, u64 fd)
{
	struct fdtable *fdt = BPF_CORE_READ((struct files_struct *)files, fdt);
	struct file **array = BPF_CORE_READ(fdt, fd), *file;

	if (fd >= BPF_CORE_READ(fdt, max_fds) || bpf_probe_read_kernel(&file, sizeof(file), array + fd) || !file)
		return FD_NONE;
	switch (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) {
	case S_IFREG: case S_IFBLK: case S_IFDIR: return FD_FILE;
	case S_IFSOCK: return FD_SOCKET;
	case S_IFIFO: return FD_PIPE;
	case S_IFCHR: return FD_CHAR;
	}
	return FD_ANON;
}

#define NR_FUTEX_WAITV 449
#define NR_FUTEX_WAIT 455
#define FUTEX_TIMEOUTS (1u << 0 | 1u << 6 | 1u << 9 | 1u << 11 | 1u << 13) /* commands with one: all that wait */

/* What the kernel reads of futex_waitv's array. */
struct futex_waitv {
	u64 val, uaddr;
	u32 flags, reserved;
};

/* How a thread waits by the first of the system calls on futexes. */
static __always_inline u16 operation_of(u32 op, u64 timeout)
{
	return FUTEX_CALL | (op & (FUTEX_COMMAND | FUTEX_PRIVATE)) |
	       (FUTEX_TIMEOUTS >> (op & 31) & 1 && timeout ? FUTEX_TIMED : 0);
}

/* How a thread waits on a futex, from the arguments of its system call; 0: on none. `word` comes in as the
 * first argument and goes out as the address of the word. Only the current task's memory can be read. */
static __always_inline u16 futex_operation(const u64 *arguments, i32 nr, bool current, u64 *word)
{
	struct futex_waitv first = {};

	switch (nr) {
	case NR_FUTEX:
		return operation_of(arguments[1], arguments[2]);
	case NR_FUTEX_WAIT:
		return FUTEX_CALL | FUTEX_WAIT2 | ((u32)arguments[2] & FUTEX_PRIVATE) | (arguments[3] ? FUTEX_TIMED : 0);
	case NR_FUTEX_WAITV:
		if (current)
			bpf_probe_read_user(&first, sizeof(first), (void *)*word);
		*word = first.uaddr;
		return FUTEX_CALL | FUTEX_WAITV | (first.flags & FUTEX_PRIVATE) | (arguments[2] ? FUTEX_TIMED : 0);
	}
	return 0;
}

static __always_inline bool is_in_iowait(struct task_struct *task)
{
	const u32 *word = (void *)task + __CORE_RELO(task, in_iowait, BYTE_OFFSET);

	/* As BPF_CORE_READ_BITFIELD, which chooses among all sizes at each run. */
	return (u64)*word << __CORE_RELO(task, in_iowait, LSHIFT_U64) >> __CORE_RELO(task, in_iowait, RSHIFT_U64);
}

/* Where a thread goes to wait. */
struct place {
	u64 ip, sp, arg0;
	u64 hash;
	u64 files; /* its struct files_struct */
	u32 tid;
	i32 nr;
	u16 operation;
	u8 flags;
	u8 sleeps;
};

/* Whether that is how a site waits. `nr`: 16 bits, or more of what is no number of a call. */
static __always_inline bool waits_by(const struct site *s, u16 operation, u64 nr, u8 flags)
{
	return (s->call ^ (operation | nr << 16 | (u64)flags << 32)) << (64 - CALL_BITS) == 0;
}

/* Same code, same call: only what it waits on may be another file. */
static __always_inline bool is_there(const struct site *s, const struct place *p)
{
	return s->install && s->ip == p->ip && s->sp == p->sp && s->nr == p->nr && s->flags == p->flags &&
	       s->operation == p->operation;
}

/* Of a place, but for what it waits on; to be multiplied by HASH. */
static __always_inline u64 bits_of_place(u64 ip, u64 sp, i32 nr, u8 flags)
{
	return ip ^ sp << 20 ^ (u64)(u32)nr << 40 ^ (u64)flags << 56;
}

/* Each place can have one of two slots. */
static __always_inline u32 first_slot(u64 hash)
{
	return (hash >> 56) & (SITE_SLOTS - 1);
}

static __always_inline u32 other_slot(u32 slot)
{
	return slot ^ 1;
}

/* The slot to give to a place: its own, a free one, one that was not used of late, else the less used one. */
static __always_inline u32 choose_slot(struct thread *t, const struct place *p)
{
	u32 one = first_slot(p->hash), two = other_slot(one);
	struct site *a = &t->sites[one], *b = &t->sites[two];

	if (is_there(a, p) || !a->install)
		return one;
	if (is_there(b, p) || !b->install)
		return two;
	if (a->dirty != b->dirty)
		return a->dirty ? two : one;
	return a->count < b->count ? one : two;
}

/* A place that neither slot is of, or not for this file. */
__noinline int install_site(struct thread *t, const struct place *p, u64 now)
{
	u64 bit, *seen;
	struct site *s;
	u32 slot;
	u8 kind;

	if (!t || !p)
		return 0;
	slot = choose_slot(t, p) & (SITE_SLOTS - 1);
	t->current = slot;
	s = &t->sites[slot];
	kind = p->sleeps && waits_on_fd(p->nr) ? fd_kind(p->files, p->arg0) : FD_NONE;
	if (is_there(s, p) && !p->operation && kind == s->fd_kind) {
		s->arg0 = p->arg0;
		return 0;
	}
	if (s->count)
		emit_site(t, slot, t->task, p->tid, now);
	s->ip = p->ip;
	s->sp = p->sp;
	s->nr = p->nr;
	s->flags = p->flags;
	s->operation = p->operation;
	s->arg0 = p->arg0;
	s->fd_kind = kind;
	s->blocked = s->runnable = s->count = s->max = 0;
	s->install++;

	bit = 1ull << ((p->hash >> 40) & 63);
	seen = &t->seen[(p->hash >> 46) & 3];
	if (*seen & bit || !p->sleeps)
		return 0;
	if (now < t->first_allowed) {
		count(COUNTER_FIRST_SKIPPED, 1);
		return 0;
	}
	/* Credit for up to 16 stacks gathers while none are taken. */
	if (t->first_allowed + 16 * FIRST_GAP_NS < now)
		t->first_allowed = now - 16 * FIRST_GAP_NS;
	t->first_allowed += FIRST_GAP_NS;
	*seen |= bit;
	t->marks |= WAIT_FIRST;
	return 0;
}

/* Whether the slot is the place's, for that file; then the thread waits there. */
static __always_inline bool is_here(struct thread *t, u32 slot, const struct place *p)
{
	struct site *s;

	/* Read back, so that the verifier does not follow every way to compute it. */
	*(volatile u8 *)&t->current = slot;
	s = &t->sites[*(volatile u8 *)&t->current & (SITE_SLOTS - 1)];
	return is_there(s, p) && (s->arg0 == p->arg0 || (!p->operation && !waits_on_fd(p->nr)));
}

/* Finds or installs the site the thread goes to wait at. `state`: of its sleep; 0: it was preempted. */
static __noinline void enter_site(struct thread *t, struct task_struct *task, bool current, u32 state, u64 now)
{
	bool sleeps = state;
	struct place p = { .tid = task->pid, .nr = -1, .sleeps = sleeps };
	struct pt_regs *regs;
	u32 slot;

	if (!sleeps)
		p.flags |= SITE_PREEMPTED;
	else if (state & TASK_UNINTERRUPTIBLE)
		p.flags |= state & TASK_WAKEKILL ? SITE_UNINTERRUPTIBLE | SITE_KILLABLE : SITE_UNINTERRUPTIBLE;
	else if (state & TASK_STOPPED_OR_TRACED)
		p.flags |= SITE_STOPPED;
	if (sleeps && is_in_iowait(task))
		p.flags |= SITE_IOWAIT;
	if (task->flags & PF_KTHREAD) {
		p.flags |= SITE_KTHREAD;
	} else {
		regs = registers_of(task);
		p.nr = call_of(regs);
		if (sleeps) {
			u64 arguments[] = { regs->di, regs->si, regs->r10, regs->r8 };

			if (runs_32_bit_code(regs)) {
				arguments[0] = (u32)regs->bx;
				arguments[1] = (u32)regs->cx;
				arguments[2] = (u32)regs->si;
				arguments[3] = (u32)regs->di;
			}
			p.ip = regs->ip;
			p.sp = regs->sp;
			p.arg0 = arguments[0];
			if (unlikely(p.nr == NR_RESTART_SYSCALL))
				p.nr = restarted_call(task, p.arg0);
			/* Uninterruptible, it waits for memory on its way. */
			if (!(p.flags & (SITE_UNINTERRUPTIBLE | SITE_STOPPED)))
				p.operation = futex_operation(arguments, p.nr, current, &p.arg0);
		}
	}
	p.hash = bits_of_place(p.ip, p.sp, p.nr, p.flags);
	if (p.operation)
		p.hash ^= (p.arg0 << 8) ^ (u64)p.operation << 44;
	p.hash *= HASH;
	slot = first_slot(p.hash);
	if (!is_here(t, slot, &p) && !is_here(t, other_slot(slot), &p)) {
		p.files = (u64)BPF_CORE_READ(task, files);
		install_site(t, &p, now);
		if (t->marks & WAIT_FIRST)
			set_quiet(task, 0);
	}
	if (sleeps)
		t->slept = t->current;
}

/* Whether the thread is preempted at the first site for that, which is the current one then. */
static __always_inline bool preempts_as_before(struct thread *t, const struct pt_regs *regs)
{
	i32 nr = call_of(regs);
	struct site *s;

	*(volatile u8 *)&t->current = first_slot(bits_of_place(0, 0, nr, SITE_PREEMPTED) * HASH);
	s = &t->sites[*(volatile u8 *)&t->current & (SITE_SLOTS - 1)];
	return waits_by(s, 0, (u16)nr, SITE_PREEMPTED);
}

/* Whether the thread goes to sleep as it did before, at the site that is the current one then. Not known of the two calls
 * that say elsewhere what they wait for, nor of 32-bit code. */
static __always_inline bool sleeps_as_before(struct thread *t, const struct pt_regs *regs)
{
	u16 operation = 0;
	struct site *s;

	t->current = t->slept;
	s = &t->sites[t->slept & (SITE_SLOTS - 1)];
	if (unlikely(s->nr == NR_FUTEX)) /* put behind the others */
		operation = operation_of(regs->si, regs->r10);
	return waits_by(s, operation, regs->orig_ax, 0) && s->arg0 == regs->di && s->sp == regs->sp && s->ip == regs->ip &&
	       likely(s->ip >> 32);
}

/* What enter_site() does for a thread that waits where it did before: most do, and it takes few looks. False: it has to
 * be called. */
static __always_inline bool enter_as_before(struct thread *t, struct task_struct *task, u32 state)
{
	if (unlikely(task->flags & PF_KTHREAD))
		return false;
	if (!state)
		return preempts_as_before(t, registers_of(task));
	if (unlikely(state & (TASK_UNINTERRUPTIBLE | TASK_STOPPED_OR_TRACED) || is_in_iowait(task)))
		return false;
	return sleeps_as_before(t, registers_of(task));
}

static __always_inline void leave_site(struct thread *t, u64 blocked, u64 runnable)
{
	struct site *s = &t->sites[t->current & (SITE_SLOTS - 1)];

	s->blocked += blocked;
	s->runnable += runnable;
	s->count++;
	if (blocked + runnable > s->max)
		s->max = blocked + runnable;
	s->dirty = 1;
}
