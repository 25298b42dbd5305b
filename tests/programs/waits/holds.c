/*
 * holds.c - waits for a lock that another thread holds. Within each period the holder takes the
 * lock at 0, sleeps holding it and lets go at 6/10; the waiter asks for it at 1/10.
 */
#include "waits.h"
#include <sys/file.h>

/* A lock with its holder and its waiter. */
struct hold {
	const char *kind, *function, *syscall;
	char waiter_name[16], holder_name[16];
	void (*lock_as_holder)(struct hold *);
	void (*lock_as_waiter)(struct hold *);
	void (*unlock_as_holder)(struct hold *);
	void (*unlock_as_waiter)(struct hold *);
	pthread_mutex_t mutex;
	int holder_fd, waiter_fd;
};

SITE static void wait_mutex(struct hold *h)
{
	pthread_mutex_lock(&h->mutex);
	KEEP_FRAME();
}

SITE static void hold_mutex(struct hold *h)
{
	pthread_mutex_lock(&h->mutex);
	KEEP_FRAME();
}

SITE static void release_mutex(struct hold *h)
{
	pthread_mutex_unlock(&h->mutex);
	KEEP_FRAME();
}

SITE static void wait_flock(struct hold *h)
{
	if (flock(h->waiter_fd, LOCK_EX) != 0)
		die("flock");
}

SITE static void hold_flock(struct hold *h)
{
	if (flock(h->holder_fd, LOCK_EX) != 0)
		die("flock");
}

SITE static void release_flock(struct hold *h)
{
	flock(h->holder_fd, LOCK_UN);
	KEEP_FRAME();
}

static void release_waiters_flock(struct hold *h) { flock(h->waiter_fd, LOCK_UN); }

static struct hold holds[] = {
	{ .kind = "mutex", .function = "wait_mutex", .syscall = "futex", .lock_as_holder = hold_mutex,
	  .lock_as_waiter = wait_mutex, .unlock_as_holder = release_mutex, .unlock_as_waiter = release_mutex },
	{ .kind = "flock", .function = "wait_flock", .syscall = "flock", .lock_as_holder = hold_flock,
	  .lock_as_waiter = wait_flock, .unlock_as_holder = release_flock, .unlock_as_waiter = release_waiters_flock },
};

/* The first instant after now that lies `tenths` tenths into a period. */
static uint64_t next_phase(unsigned tenths)
{
	uint64_t phase = options.period_ns * tenths / 10, now = now_ns() - phase;
	return now - now % options.period_ns + options.period_ns + phase;
}

SITE static void sleep_holding(void)
{
	sleep_until_ns(next_phase(6));
	KEEP_FRAME();
}

SITE static void sleep_before_asking(void)
{
	sleep_until_ns(next_phase(1));
	KEEP_FRAME();
}

SITE static void sleep_before_holding(void)
{
	sleep_until_ns(next_phase(0));
	KEEP_FRAME();
}

SITE static void run_holder(struct worker *w)
{
	struct hold *h = w->arg;
	struct thread_truth *t = &w->truth;
	int gap = truth_site(t, "sleep_before_holding", "clock_nanosleep", "sleep", "");
	int hold = truth_site(t, "sleep_holding", "clock_nanosleep", "sleep", "");
	truth_loop_begin(t);
	while (time_left()) {
		struct wait_stamp before = truth_before(t, gap);
		sleep_before_holding();
		truth_after(t, gap, before);
		h->lock_as_holder(h);
		before = truth_before(t, hold);
		sleep_holding();
		truth_after(t, hold, before);
		h->unlock_as_holder(h);
	}
	truth_loop_end(t);
}

SITE static void run_waiter(struct worker *w)
{
	struct hold *h = w->arg;
	struct thread_truth *t = &w->truth;
	int ask = truth_site(t, h->function, h->syscall, "lock", h->holder_name);
	int pace = truth_site(t, "sleep_before_asking", "clock_nanosleep", "sleep", "");
	truth_loop_begin(t);
	while (time_left()) {
		struct wait_stamp before = truth_before(t, pace);
		sleep_before_asking();
		truth_after(t, pace, before);
		before = truth_before(t, ask);
		h->lock_as_waiter(h);
		truth_after(t, ask, before);
		h->unlock_as_waiter(h);
	}
	truth_loop_end(t);
}

static void open_hold(struct hold *h)
{
	char path[4096];
	pthread_mutex_init(&h->mutex, NULL);
	snprintf(path, sizeof path, "%s/waits-%d.lock", options.dir, getpid());
	h->holder_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	h->waiter_fd = open(path, O_RDWR | O_CLOEXEC);
	if (h->holder_fd < 0 || h->waiter_fd < 0)
		die(path);
	unlink(path);
}

void add_holds(void)
{
	for (size_t i = 0; i < sizeof holds / sizeof *holds; i++) {
		struct hold *h = &holds[i];
		if (!kind_wanted(h->kind))
			continue;
		open_hold(h);
		snprintf(h->waiter_name, sizeof h->waiter_name, "%s", h->kind);
		snprintf(h->holder_name, sizeof h->holder_name, "%s-holder", h->kind);
		worker_add(h->holder_name, run_holder, h);
		worker_add(h->waiter_name, run_waiter, h);
	}
}
