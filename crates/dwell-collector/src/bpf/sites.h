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

/* Moves the next cut past `now`. After eight periods the cuts before are forgotten. */
static __always_inline void advance_cut(struct thread *t, u64 now)
{
	if (now < t->next_cut)
		return;
	if (now - t->next_cut < 8 * config.period_ns) {
		for (int i = 0; i < 20; i++) {
			t->next_cut += cut_gap();
			if (t->next_cut > now)
				return;
		}
	}
	t->next_cut = now + stationary_gap();
}

static __always_inline void emit_site(struct thread *t, struct site *s, u32 tid, u64 now)
{
	struct SiteRecord r = {};

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
	r.slot = s - t->sites;
	send(RECORD_SITE, &r, sizeof(r));
}

/* System calls whose first argument is a file descriptor that tells why they wait: a bit per number. */
static __always_inline bool waits_on_fd(i32 nr)
{
	switch (nr) {
	case 0: case 1: /* read, write */
	case 16: case 17: case 18: case 19: case 20: /* ioctl, p{read,write}64, readv, writev */
	case 40: /* sendfile */
	case 72: /* fcntl (locks) */
	case 75: case 74: case 73: /* fdatasync, fsync, flock */
	case 217: case 275: case 276: /* getdents64, splice, tee */
	case 277: case 285: /* sync_file_range, fallocate */
	case 295: case 296: case 327: case 328: /* preadv… */
		return true;
	}
	return false;
}

static __always_inline u8 fd_kind(struct task_struct *task, u64 fd)
{
	struct files_struct *files = task->files;
	struct fdtable *fdt;
	struct file **array, *file;
	u16 mode;

	if (!files)
		return FD_NONE;
	fdt = files->fdt;
	if (!fdt || fd >= fdt->max_fds)
		return FD_NONE;
	array = fdt->fd;
	if (bpf_probe_read_kernel(&file, sizeof(file), array + fd) || !file)
		return FD_NONE;
	mode = BPF_CORE_READ(file, f_inode, i_mode);
	switch (mode & S_IFMT) {
	case S_IFREG: case S_IFBLK: case S_IFDIR: return FD_FILE;
	case S_IFSOCK: return FD_SOCKET;
	case S_IFIFO: return FD_PIPE;
	case S_IFCHR: return FD_CHAR;
	}
	return FD_ANON;
}

#define NR_FUTEX 202
#define NR_FUTEX_WAITV 449
#define NR_FUTEX_WAIT 455
#define FUTEX_TIMEOUTS (1u << 0 | 1u << 6 | 1u << 9 | 1u << 11 | 1u << 13) /* commands with one: all that wait */

/* What the kernel reads of futex_waitv's array. */
struct futex_waitv {
	u64 val, uaddr;
	u32 flags, reserved;
};

/* How a thread waits on a futex, from the arguments of its system call; 0: on none. `word` comes in as the
 * first argument and goes out as the address of the word. Only the current task's memory can be read. */
static __always_inline u16 futex_operation(struct pt_regs *regs, i32 nr, bool current, u64 *word)
{
	struct futex_waitv first = {};
	u32 op;

	switch (nr) {
	case NR_FUTEX:
		op = regs->si;
		if (FUTEX_TIMEOUTS >> (op & 31) & 1 && regs->r10)
			return FUTEX_CALL | (op & (FUTEX_COMMAND | FUTEX_PRIVATE)) | FUTEX_TIMED;
		return FUTEX_CALL | (op & (FUTEX_COMMAND | FUTEX_PRIVATE));
	case NR_FUTEX_WAIT:
		return FUTEX_CALL | FUTEX_WAIT2 | ((u32)regs->r10 & FUTEX_PRIVATE) | (regs->r8 ? FUTEX_TIMED : 0);
	case NR_FUTEX_WAITV:
		if (current)
			bpf_probe_read_user(&first, sizeof(first), (void *)*word);
		*word = first.uaddr;
		return FUTEX_CALL | FUTEX_WAITV | (first.flags & FUTEX_PRIVATE) | (regs->r10 ? FUTEX_TIMED : 0);
	}
	return 0;
}

/* Finds or installs the site the thread goes to wait at. */
static __always_inline void enter_site(struct thread *t, struct task_struct *task, bool current, bool sleeps,
				       u32 state, u64 now)
{
	u64 ip = 0, sp = 0, arg0 = 0, hash;
	i32 nr = -1;
	u16 operation = 0;
	u8 flags = 0;
	struct pt_regs *regs;
	struct site *s;

	if (!sleeps)
		flags |= SITE_PREEMPTED;
	else if (state & TASK_UNINTERRUPTIBLE)
		flags |= SITE_UNINTERRUPTIBLE;
	else if (state & TASK_STOPPED_OR_TRACED)
		flags |= SITE_STOPPED;
	if (sleeps && BPF_CORE_READ_BITFIELD(task, in_iowait))
		flags |= SITE_IOWAIT;
	if (task->flags & PF_KTHREAD) {
		flags |= SITE_KTHREAD;
	} else {
		regs = (struct pt_regs *)bpf_task_pt_regs(task);
		nr = regs->orig_ax > 0x7fff ? -1 : (i32)regs->orig_ax;
		if (sleeps) {
			ip = regs->ip;
			sp = regs->sp;
			arg0 = regs->di;
			/* Uninterruptible, it waits for memory on its way. */
			if (!(flags & (SITE_UNINTERRUPTIBLE | SITE_STOPPED)))
				operation = futex_operation(regs, nr, current, &arg0);
		}
	}
	hash = ip ^ (sp << 20) ^ (u64)(u32)nr << 40 ^ (u64)flags << 56;
	if (operation)
		hash ^= (arg0 << 8) ^ (u64)operation << 44;
	hash *= 0x9e3779b97f4a7c15ull;
	t->current = (hash >> 56) & (SITE_SLOTS - 1);
	s = &t->sites[t->current & (SITE_SLOTS - 1)];
	if (s->install && s->ip == ip && s->sp == sp && s->nr == nr && s->flags == flags && s->operation == operation &&
	    (!operation || s->arg0 == arg0)) {
		if (s->arg0 == arg0 || !waits_on_fd(nr))
			return;
		u8 kind = fd_kind(task, arg0);
		s->arg0 = arg0;
		if (kind == s->fd_kind)
			return;
	}
	if (s->count)
		emit_site(t, s, task->pid, now);
	s->ip = ip;
	s->sp = sp;
	s->nr = nr;
	s->flags = flags;
	s->operation = operation;
	s->arg0 = arg0;
	s->fd_kind = sleeps && waits_on_fd(nr) ? fd_kind(task, arg0) : FD_NONE;
	s->blocked = s->runnable = s->count = s->max = 0;
	s->install = ++t->installs;
	s->dirty = 0;

	u64 bit = 1ull << ((hash >> 40) & 63);
	u32 word = (hash >> 46) & 3;
	if (!(t->seen[word] & bit) && sleeps) {
		if (now < t->first_allowed) {
			count(COUNTER_FIRST_SKIPPED, 1);
			return;
		}
		/* Credit for up to 16 stacks gathers while none are taken. */
		if (t->first_allowed + 16 * FIRST_GAP_NS < now)
			t->first_allowed = now - 16 * FIRST_GAP_NS;
		t->first_allowed += FIRST_GAP_NS;
		t->seen[word] |= bit;
		t->marks |= WAIT_FIRST;
	}
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
