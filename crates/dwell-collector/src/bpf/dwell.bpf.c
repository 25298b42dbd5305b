/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Exact time per thread and wait site at every switch; a stack about once per period of thread
 * time, on and off the processor.
 *
 * - sched_switch keeps the sums. A wait that covers one of the thread's cuts owes a stack, which is
 *   taken in the thread's own context before it runs user code again: its stack still is as it was.
 * - sched_waking notes when a wait ends and who ended it.
 * - a clock (the scheduler's tick or a perf event) takes the stacks of running threads.
 * - a task iterator adopts threads that exist already and reports those that never switch.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"

#include "calls.h"
#include "maps.h"
#include "wake_slots.h"
#include "ns_pid.h"
#include "window.h"
#include "threads.h"
#include "registers.h"
#include "code_names.h"
#include "walk.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#include "stacks.h"
#include "sites.h"
#include "reports.h"

/* ---- threads ---- */

static __always_inline u8 state_of(struct task_struct *task)
{
	u32 state = task->__state;

	if (task->on_cpu)
		return STATE_RUNNING;
	return state && !(state & TASK_NEW) ? STATE_BLOCKED : STATE_RUNNABLE;
}

/* A switch that comes in between is waited for once; two in this time are not to be expected, and counted. */
#define ADOPTION_TRIES 2

/* NULL also if somebody else adopts it. */
static __always_inline struct thread *adopt(struct task_struct *task)
{
	struct thread *t = place_for(task);
	u64 before, now, exec;

	if (!t) {
		count(COUNTER_NO_STORAGE, 1);
		return NULL;
	}
	if (__sync_val_compare_and_swap(&t->wait, 0, ADOPTION_BEGUN) != 0)
		return NULL;
	t->born = task->start_time;
	if (queues_are_known()) /* or a waking has to be noted with its time */
		claim_slot(task);
	for (int i = 0; i < ADOPTION_TRIES; i++) {
		*(volatile u32 *)&t->wait = ADOPTION_BEGUN;
		before = bpf_ktime_get_boot_ns();
		now = in_window(before);
		t->start = t->since = now;
		t->state = state_of(task);
		t->next_cut = now + stationary_gap();
		t->delay_seen = run_delay(task);
		exec = t->state == STATE_RUNNING ? exec_until(task, before) + (now - before) : task->se.sum_exec_runtime;
		t->exec_seen = exec;
		t->exec_unknown = t->state == STATE_RUNNING && exec == now - before;
		t->dirty = 1;
		if (__sync_val_compare_and_swap(&t->wait, ADOPTION_BEGUN, 1) == ADOPTION_BEGUN) {
			set_quiet(task, t->next_cut);
			return t;
		}
	}
	forget(task, t);
	count(COUNTER_NO_STORAGE, 1);
	return NULL;
}

/* Forgets a thread whose task is gone, of which this new one has the address: its end was not seen. */
static __always_inline void forget_other(struct task_struct *task)
{
	struct thread *t = find_thread(task);

	if (t && t->born != task->start_time)
		forget(task, t);
}

static __always_inline void begin_sums(struct thread *t)
{
	t->version++;
	barrier();
}

static __always_inline void end_sums(struct thread *t)
{
	barrier();
	t->version++;
	t->dirty = 1;
}

/* How much of the stay off the processor from t->since to `now` the thread was runnable. The kernel knows better
 * than the waking when it was put on a run queue: the processor that should run it may first have to be called.
 * `clock`: that of the queue, now. */
static __always_inline u64 runnable_part(struct thread *t, struct task_struct *task, u64 clock, u64 now)
{
	u64 stay = now - t->since, delay, part;

	if (likely(queue_tells(clock))) {
		delay = run_delay_at(task, clock);
		part = delay - t->delay_seen;
		t->delay_seen = delay;
	} else {
		part = t->wake <= t->since ? stay : t->wake > now ? 0 : now - t->wake;
	}
	return t->state != STATE_BLOCKED || part > stay ? stay : part;
}

/* The stay off the processor is over at `now`. Returns since when the thread was runnable. */
static __always_inline u64 end_stay(struct thread *t, struct task_struct *task, u64 clock, u64 now)
{
	u64 wake = now - runnable_part(t, task, clock, now), blocked = wake - t->since, runnable = now - wake;

	begin_sums(t);
	t->blocked += blocked;
	t->runnable += runnable;
	t->since = now;
	end_sums(t);
	leave_site(t, blocked, runnable);
	return wake;
}

/*
 * A switch may go unseen: a kernel can be made to run no program while certain threads are current,
 * and an adoption can meet a thread in mid-switch. The kernel's account of the time on a processor
 * tells when it was: the sums stay exact. That stay has no stack and no waker; one whose beginning
 * was not seen is counted at the site before.
 */

/* The thread leaves but was not seen to come. `ran`: its time on the processor since. */
static __always_inline void came_unseen(struct thread *t, struct task_struct *task, u64 ran, u64 clock, u64 now)
{
	u64 away = now - t->since;

	count(COUNTER_NOT_SEEN, 1);
	end_stay(t, task, clock, ran < away ? now - ran : t->since);
	t->marks = 0;
	t->state = STATE_RUNNING;
}

/* The thread comes but was not seen to leave. `ran`: its time on the processor before. */
static __always_inline void left_unseen(struct thread *t, struct task_struct *task, u64 ran, u64 clock, u64 now)
{
	u64 left = ran < now - t->since ? t->since + ran : now;
	bool slept = queue_tells(clock) ?
			     run_delay_at(task, clock) - t->delay_seen + TAIL_MAX_NS < now - left :
			     t->wake > left;

	send_noted(t, task->pid, task->tgid, SCRATCH_SWITCH);
	count(COUNTER_NOT_SEEN, 1);
	begin_sums(t);
	t->running += left - t->since;
	t->since = left;
	t->state = slept ? STATE_BLOCKED : STATE_RUNNABLE;
	t->wait++;
	t->involuntary += !slept;
	end_sums(t);
}

/* What others had of a stay on a processor that ends now, of which the kernel did not count `rest`: but for the look for
 * another thread to run, which is not this one's work any more. */
static __always_inline u64 others_had(struct task_struct *prev, u64 rest)
{
	u64 look = since_counted(prev);

	return look < rest ? rest - look : 0;
}

/* Counts what others had of a stay that is about to be added. */
static __noinline u64 count_stolen(struct thread *t, struct task_struct *prev, u64 rest)
{
	u64 stolen = others_had(prev, rest);

	t->stolen += stolen;
	t->running -= stolen;
	return stolen;
}

/* When the work of a thread ended that leaves the processor at `now`, the kernel having counted `ran` of its stay. */
static __always_inline u64 end_of_work(struct thread *t, struct task_struct *prev, u64 ran, u64 now)
{
	i64 rest = (i64)(now - t->since - ran);

	if (unlikely(rest > TAIL_MAX_NS))
		return now - rest + count_stolen(t, prev, rest);
	return rest > 0 ? now - rest : now;
}

/* The thread leaves the processor it was on at the end of the window: the report to come has that stay. */
static __noinline void left_late(struct thread *t, struct task_struct *prev)
{
	u64 stay = window.end - t->since, stolen;
	i64 rest;

	if (t->state != STATE_RUNNING || t->exec_unknown || t->since >= window.end)
		return;
	t->exec_unknown = 1;
	rest = (i64)(bpf_ktime_get_boot_ns() - t->since - (prev->se.sum_exec_runtime - t->exec_seen));
	if (rest <= TAIL_MAX_NS)
		return;
	stolen = others_had(prev, rest);
	if (stolen > stay)
		stolen = stay;
	begin_sums(t);
	t->stolen += stolen;
	t->running -= stolen;
	end_sums(t);
}

/* What is seldom to be done before a thread's stay on a processor is counted. Returns when it ends. */
static __noinline u64 before_out(struct thread *t, struct task_struct *prev, u64 clock, u64 now)
{
	u64 exec = prev->se.sum_exec_runtime;

	if (now < t->since) /* the fast clock may step back by some ns from one processor to the next */
		now = t->since;
	send_noted(t, prev->pid, prev->tgid, SCRATCH_SWITCH);
	if (t->exec_unknown || window_ahead(now)) { /* what the kernel counted by its begin is not known */
		t->exec_unknown = 0;
		t->exec_seen = exec - (now - t->since);
	}
	if (t->state != STATE_RUNNING)
		came_unseen(t, prev, exec - t->exec_seen, clock, now);
	return now;
}

/* The thread leaves the processor. `state`: of its sleep; 0: it was preempted. */
static __always_inline void switch_out(void *ctx, struct thread *t, struct task_struct *prev, u32 state, u64 clock,
				       u64 now)
{
	u64 exec = prev->se.sum_exec_runtime;

	if (unlikely(now <= t->since || t->unusual))
		now = before_out(t, prev, clock, now);
	begin_sums(t);
	now = end_of_work(t, prev, exec - t->exec_seen, now);
	t->running += now - t->since;
	t->exec_seen = exec;
	t->since = now;
	t->wait++;
	t->state = state ? STATE_BLOCKED : STATE_RUNNABLE;
	t->involuntary += !state;
	end_sums(t);
	advance_cut(t, prev, now);
	if (unlikely(!enter_as_before(t, prev, state)))
		enter_site(t, prev, true, state, now);
	take_early(ctx, t, prev, now);
}

#define KEPT_SPAN_NS 100000000ull

/* Whether a wait is kept that is long enough. Threads by the hundred can have so many that the recorder could not follow:
 * where there are too many, only longer ones are kept until there are few again. */
__noinline int has_room(u64 duration, u64 now)
{
	u32 zero = 0;
	struct kept *k = bpf_map_lookup_elem(&kept, &zero);

	if (!k)
		return true;
	if (now >= k->until) {
		if (k->n < config.slices_most / 4)
			k->min /= 2;
		k->until = now + KEPT_SPAN_NS;
		k->n = 0;
	}
	if (duration < k->min) {
		count(COUNTER_PASSED_OVER, 1);
		return false;
	}
	if (++k->n >= config.slices_most) {
		k->min = 2 * (k->min > window.slice_min_ns ? k->min : window.slice_min_ns);
		k->n = 0;
	}
	return true;
}

/* What is seldom to be done before a thread's stay off the processor is counted. Returns when it ends. */
static __noinline u64 before_in(struct thread *t, struct task_struct *next, u64 clock, u64 now)
{
	if (now < t->since)
		now = t->since;
	if (t->state == STATE_RUNNING)
		left_unseen(t, next, next->se.sum_exec_runtime - t->exec_seen, clock, now);
	if (window_ahead(now))
		t->exec_unknown = 1;
	return now;
}

/* Tells of a wait that was from `since` to `now` and is one that is sampled, or long, of which there may be too many. */
static __always_inline void tell_wait(struct thread *t, struct task_struct *next, u64 since, u64 wake, u64 now)
{
	u32 flags = now >= t->next_cut ? WAIT_SAMPLED : 0, told;

	if (t->marks & WAIT_FIRST) {
		flags |= WAIT_FIRST;
		set_quiet(next, t->next_cut);
	}
	if (!flags && !has_room(now - since, now))
		return;
	if (flags && t->sites[t->current & (SITE_SLOTS - 1)].operation && is_signalled(next))
		flags |= WAIT_SIGNALLED;
	told = note_end(t, next, since, wake, now, flags);
	if (flags && !(t->marks & MARK_KERNEL_TAKEN))
		send_with_stack(t, next, told);
	else
		*(volatile u32 *)&t->told = told;
}

/* What is seldom to be done after a thread's stay off the processor is counted. */
static __noinline void after_in(struct thread *t, struct task_struct *next, u64 since, u64 wake, u64 now)
{
	tell_wait(t, next, since, wake, now);
	advance_cut(t, next, now);
}

/* The thread gets a processor: its stay off the processor is complete. */
static __always_inline void switch_in(struct thread *t, struct task_struct *next, u64 clock, u64 now)
{
	u64 since, wake;

	if (unlikely(now <= t->since || t->state == STATE_RUNNING))
		now = before_in(t, next, clock, now);
	since = t->since;
	wake = end_stay(t, next, clock, now);
	if (unlikely(now >= t->next_cut || now - since >= window.slice_min_ns || t->marks & WAIT_FIRST))
		after_in(t, next, since, wake, now);
	t->marks = 0;
	t->wake = 0; /* that waking has ended its sleep, and no other */
	t->state = STATE_RUNNING;
}

/* The last that is told of a thread. */
static __noinline void report_end(struct thread *t, struct task_struct *task, u64 now)
{
	emit_thread(task, t, now, !window_over(now));
	forget(task, t);
}

/* The arguments of sched_switch. They are read anew after each call: what would be kept across it needs a stack, and with
 * 64 bytes of it, or what is rounded up to that (from 49 on), the program runs on one of its own (since Linux 6.13,
 * BPF_PRIV_STACK_MIN_SIZE), which is in no cache. The same holds for on_waking. */
static __always_inline struct task_struct *leaving(u64 *ctx)
{
	return (void *)ctx[1];
}

static __always_inline struct task_struct *coming(u64 *ctx)
{
	return (void *)ctx[2];
}

/* The state of the thread that leaves, if it goes to sleep; 0: it was preempted. */
static __always_inline u32 sleep_state(u64 *ctx)
{
	return (bool)ctx[0] ? 0 : ctx[3];
}

/* A program that ran since the last switch has all caches: what this takes depends on how many lines of code and data it
 * touches, more than on what it does with them. So what is seldom done is in functions of its own. */
SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	u32 state = sleep_state(ctx);
	struct thread *t = thread_of(coming(ctx));
	u64 clock, now;

	if (!t && !find_thread(leaving(ctx)))
		return 0;
	clock = queue_clock(leaving(ctx));
	now = switch_time(clock, state);
	if (unlikely(window_over(now))) {
		t = thread_of(leaving(ctx));
		if (!t)
			return 0;
		left_late(t, leaving(ctx));
		goto left;
	}
	if (t)
		switch_in(t, coming(ctx), clock, now);
	t = thread_of(leaving(ctx));
	if (!t)
		return 0;
	switch_out(ctx, t, leaving(ctx), state, clock, now);
left:
	if (unlikely(state & TASK_DEAD))
		report_end(t, leaving(ctx), now);
	return 0;
}

/* The thread that was switched to runs: it still stands where it waited, and its memory can be read. */
SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_switched)
{
	struct task_struct *task;
	struct thread *t;
	u32 zero = 0;
	u64 *owes = bpf_map_lookup_elem(&owing, &zero);

	if (!owes || !unlikely(*owes))
		return 0;
	*owes = 0;
	task = bpf_get_current_task_btf();
	t = thread_of(task);
	if (t) /* also for those that it owes since before this program was attached */
		take_wait_stack(NULL, t, task, t->owes ? t->owes : t->wait, SCRATCH_TASK);
	return 0;
}

/* A waking that ends a wait that is sampled, or of a thread without a slot. */
static __noinline void look_at_waking(void *ctx, struct task_struct *p)
{
	struct thread *t = thread_of(p);
	u64 now = window_now();
	struct waking w;

	if (!t || window_over(now))
		return;
	w = who_wakes(ctx);
	if (deserves_a_look(t, now))
		note_waker(ctx, t, &w, p, now);
	else
		note_in_passing(t, &w);
	t->wake = now;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	struct wake_slot *slot = wake_slot_at(p);
	struct waking w;

	if (!slot || (queues_are_known() && is_nobodys(slot)))
		return 0;
	if (slot->task == (u64)p && likely(is_quiet(slot))) {
		w = who_wakes(ctx);
		note_in_slot(slot, &w);
	} else {
		look_at_waking(ctx, p);
	}
	return 0;
}

/* ---- births, deaths, names ---- */

static __always_inline void emit_task(u32 kind, struct task_struct *task, u32 other_tid, u32 other_tgid)
{
	struct TaskRecord r = {};

	r.kind = kind;
	r.time = window_now();
	r.tid = task->pid;
	r.tgid = task->tgid;
	r.other_tid = other_tid;
	r.other_tgid = other_tgid;
	r.ns_tid = ns_pid(task);
	bpf_probe_read_kernel(r.comm, sizeof(r.comm), task->comm);
	if (kind == RECORD_EXEC)
		send_urgent(kind, &r, sizeof(r), r.time);
	else
		send(kind, &r, sizeof(r));
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread *t;

	forget_other(child);
	if ((!config.follow_all && !thread_of(parent)) || window_over(window_now()))
		return 0;
	if (child->tgid != parent->tgid)
		inherit_maps(parent->tgid, child->tgid);
	emit_task(RECORD_FORK, child, parent->pid, parent->tgid);
	t = adopt(child); /* then: or a sweep reports it before anybody knows it */
	if (!t)
		return 0;
	/* Its way to its first instruction does not pass on_switched; its memory is its parent's, or like it. */
	if (!(child->flags & PF_KTHREAD)) {
		t->marks |= MARK_STACK_TAKEN;
		take_wait_stack(NULL, t, child, 0, SCRATCH_TASK);
	}
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	bool is_followed = thread_of(task);
	u32 tgid = task->tgid;

	/* A launched command's life begins here; what it was before is ours. */
	if (window_over(window_now()) || (!is_followed && !bpf_map_lookup_elem(&targets, &tgid)))
		return 0;
	bpf_map_delete_elem(&processes, &tgid);
	emit_task(RECORD_EXEC, task, old_pid, 0);
	if (!is_followed)
		adopt(task); /* then: or a tick takes its stack before anybody knows it */
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	struct TaskRecord r = {};

	if (!thread_of(task))
		return 0;
	r.kind = RECORD_RENAME;
	r.time = window_now();
	if (window_over(r.time))
		return 0;
	r.tid = task->pid;
	r.tgid = task->tgid;
	bpf_probe_read_kernel_str(r.comm, sizeof(r.comm), comm);
	send(RECORD_RENAME, &r, sizeof(r));
	return 0;
}

/* ---- the clock ---- */

/* `due`: when the clock should have fired, by CLOCK_MONOTONIC. It fires late where interrupts are off, as
 * they are on the way to another thread, which then is found in place of the one that ran. */
static __always_inline void take_running(void *ctx, bool in_kernel, u64 due)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t;
	u64 now;

	if (!task->pid)
		return;
	t = thread_of(task);
	if (!t)
		return;
	now = window_now();
	if (window_ahead(now) || window_over(now) || now - t->since < bpf_ktime_get_ns() - due)
		return;
	count(COUNTER_TICKS, 1);
	emit_running(ctx, task, in_kernel);
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_tick, struct hrtimer *timer)
{
	if ((u64)timer->function != kernel_marks.tick_function || bpf_get_prandom_u32() > config.tick_keep)
		return 0;
	take_running(ctx, !on_task_stack(ctx, bpf_get_current_task_btf()), timer->node.expires);
	return 0;
}

struct perf_ctx { /* struct bpf_perf_event_data */
	struct pt_regs regs;
	u64 sample_period;
	u64 addr;
};

SEC("perf_event")
int on_clock(struct perf_ctx *ctx)
{
	struct perf_event *event;

	/* The context's third word in the kernel (struct bpf_perf_event_data_kern). */
	bpf_probe_read_kernel(&event, sizeof(event), (void *)ctx + 16);
	take_running(ctx, (ctx->regs.csx & 3) == 0, BPF_CORE_READ(event, hw.hrtimer.node.expires));
	return 0;
}

/* ---- sweeps ---- */

SEC("iter/task")
int on_sweep(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t;
	u32 tgid;

	if (!task || !task->pid)
		return 0;
	find_registers(task);
	t = thread_of(task);
	if (!t && (sweep_flags & SWEEP_ADOPT)) {
		tgid = task->tgid;
		if (!config.follow_all && !bpf_map_lookup_elem(&targets, &tgid))
			return 0;
		if ((task->__state & TASK_DEAD) || (task->exit_code && !task->mm && !(task->flags & PF_KTHREAD)))
			return 0;
		t = adopt(task);
		if (t && t->state != STATE_RUNNING && t->wait == 1) {
			t->marks = WAIT_CUT_AT_START;
			enter_site(t, task, false, t->state == STATE_BLOCKED ? task->__state | TASK_INTERRUPTIBLE : 0,
				   t->since); /* of one that was woken since it has no bit */
		}
	}
	if (!t)
		return 0;
	if (t->dirty || (sweep_flags & SWEEP_ALL)) {
		t->dirty = 0;
		emit_thread(task, t, window_now(), false);
	}
	return 0;
}

#include "kernel_locks.h"
