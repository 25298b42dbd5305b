/*
 * truth.h - how a test program learns and states its own true answer.
 *
 * A thread's blocked time cannot be measured by a stopwatch around the call: that also counts the
 * processor time of the call and the time spent wanting a processor. The truth here is
 *
 *     blocked = wall (CLOCK_MONOTONIC) - cpu (CLOCK_THREAD_CPUTIME_ID) - run_delay (schedstat)
 *
 * over a span of the thread's life. Over a long span the three readings cost nothing against the
 * span, so that sum is exact (`thread_truth.loop_blocked_ns`). A thread with one wait site gives
 * all of it to that site. A thread with several sites reads the three clocks around every wait, in
 * one order and again if it lost the processor meanwhile, so that what the readings cost cancels
 * out; what is left of the thread's sum was asleep at none of its sites (`elsewhere_ns`). Where one
 * site is far busier than the others, only the rare ones are read, and the busy one, site 0, gets
 * the remainder.
 */
#ifndef DWELL_TRUTH_H
#define DWELL_TRUTH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000ull
#define NS_PER_MS 1000000ull
#define NS_PER_US 1000ull

/* A function that must exist under its own name in the binary and in every stack. The empty asm
 * behind the last call of such a function keeps it from becoming a tail call (see KEEP_FRAME). */
#define SITE __attribute__((noinline, noclone, noipa))
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* Copies what is left of a file; `what` is said if it cannot. */
static inline void copy_all(int in, int out, const char *what)
{
	char block[65536];
	for (ssize_t n; (n = read(in, block, sizeof block)) > 0;)
		if (write(out, block, (size_t)n) != n)
			die(what);
}

static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

static inline uint64_t now_ns(void) { return clock_read_ns(CLOCK_MONOTONIC); }
static inline uint64_t thread_cpu_ns(void) { return clock_read_ns(CLOCK_THREAD_CPUTIME_ID); }
static inline pid_t own_tid(void) { return (pid_t)syscall(SYS_gettid); }

static inline struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_SECOND), .tv_nsec = (long)(ns % NS_PER_SECOND) };
}

static inline void sleep_ns(uint64_t ns)
{
	struct timespec t = timespec_of(ns);
	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

static inline void sleep_until_ns(uint64_t deadline)
{
	struct timespec t = timespec_of(deadline);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* The processor's own spin: computes until the thread has used `ns` of processor time. */
static inline void spin_cpu_ns(uint64_t ns)
{
	uint64_t end = thread_cpu_ns() + ns;
	volatile uint64_t sink = 0;
	while (thread_cpu_ns() < end)
		for (int i = 0; i < 200; i++)
			sink += (uint64_t)i * 2654435761u;
}

/* Two of the numbers of /proc/thread-self/schedstat, ns. */
struct schedstat {
	uint64_t run_ns, delay_ns;
};

static inline struct schedstat read_schedstat(int fd)
{
	char text[96];
	struct schedstat s = { 0, 0 };
	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	if (n <= 0)
		return s;
	text[n] = 0;
	sscanf(text, "%" SCNu64 " %" SCNu64, &s.run_ns, &s.delay_ns);
	return s;
}

/* Three clocks at one instant, ns. */
struct wait_stamp {
	uint64_t stopwatch_ns; /* CLOCK_MONOTONIC at the call, for `wall_ns` */
	uint64_t wall_ns, cpu_ns, delay_ns;
};

/* Reads the clocks; repeats when the thread waited for a processor in between, which would put the
 * same delay on one side of one clock and on the other side of another. */
static inline struct wait_stamp read_clocks(int schedstat_fd)
{
	struct wait_stamp s;
	uint64_t delay = read_schedstat(schedstat_fd).delay_ns;
	do {
		s.delay_ns = delay;
		s.cpu_ns = thread_cpu_ns();
		s.wall_ns = now_ns();
		delay = read_schedstat(schedstat_fd).delay_ns;
	} while (delay != s.delay_ns);
	s.stopwatch_ns = s.wall_ns;
	return s;
}

/* Time asleep between two instants. */
static inline int64_t asleep_between(struct wait_stamp from, struct wait_stamp to)
{
	return (int64_t)(to.wall_ns - from.wall_ns) - (int64_t)(to.cpu_ns - from.cpu_ns)
		- (int64_t)(to.delay_ns - from.delay_ns);
}

#define SITES_MAX 8

/* One place where a thread waits, and what it knows of the waits there. */
struct site_truth {
	const char *function; /* the C function that makes the call */
	const char *syscall; /* the call, or "" for a page fault or preemption */
	const char *reason; /* dwell's word for the wait */
	const char *waker; /* name of the thread that ends the wait; "" when a timer or the disk does */
	uint64_t waits;
	uint64_t wall_ns; /* CLOCK_MONOTONIC around the call, summed */
	uint64_t max_ns; /* the longest of them */
	int64_t raw_blocked_ns; /* wall - cpu - run_delay around the call (threads with several sites) */
};

/* One thread, its exact sums, and its sites. */
struct thread_truth {
	char name[16];
	pid_t tid;
	int schedstat_fd;
	uint64_t start_ns, end_ns; /* of the thread function, CLOCK_MONOTONIC */
	struct wait_stamp loop_start;
	uint64_t loop_wall_ns;
	int64_t loop_blocked_ns;
	uint64_t cpu_ns, run_ns, run_delay_ns;
	long voluntary, involuntary;
	bool site0_is_remainder; /* only the other sites are read wait by wait */
	int sites_used;
	struct site_truth sites[SITES_MAX];
};


/* Are the three clocks read around every wait of this site? */
static inline bool truth_is_fine(const struct thread_truth *t, int site)
{
	return t->sites_used > 1 && !(t->site0_is_remainder && site == 0);
}

static inline int truth_site(struct thread_truth *t, const char *function, const char *syscall,
			     const char *reason, const char *waker)
{
	if (t->sites_used == SITES_MAX)
		abort();
	t->sites[t->sites_used] = (struct site_truth){ function, syscall, reason, waker, 0, 0, 0, 0 };
	return t->sites_used++;
}

/* First call of a thread: its name, and where its life began. */
static inline void truth_thread_begin(struct thread_truth *t, const char *name)
{
	t->start_ns = now_ns();
	snprintf(t->name, sizeof t->name, "%s", name);
	prctl(PR_SET_NAME, t->name);
	prctl(PR_SET_TIMERSLACK, 1UL);
	t->tid = own_tid();
	t->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (t->schedstat_fd < 0)
		die("/proc/thread-self/schedstat");
}

/* Directly before the loop of waits. */
static inline void truth_loop_begin(struct thread_truth *t) { t->loop_start = read_clocks(t->schedstat_fd); }

/* Directly after it. */
static inline void truth_loop_end(struct thread_truth *t)
{
	struct wait_stamp end = read_clocks(t->schedstat_fd);
	t->loop_wall_ns = end.wall_ns - t->loop_start.wall_ns;
	t->loop_blocked_ns = asleep_between(t->loop_start, end);
}

/* Last call of a thread. */
static inline void truth_thread_end(struct thread_truth *t)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	t->voluntary = usage.ru_nvcsw;
	t->involuntary = usage.ru_nivcsw;
	t->cpu_ns = thread_cpu_ns();
	struct schedstat s = read_schedstat(t->schedstat_fd);
	t->run_ns = s.run_ns;
	t->run_delay_ns = s.delay_ns;
	close(t->schedstat_fd);
	t->end_ns = now_ns();
}

static inline __attribute__((always_inline)) struct wait_stamp truth_before(const struct thread_truth *t, int site)
{
	struct wait_stamp s = { 0, 0, 0, 0 };
	if (truth_is_fine(t, site))
		s = read_clocks(t->schedstat_fd);
	s.stopwatch_ns = now_ns();
	return s;
}

static inline __attribute__((always_inline)) void truth_after(struct thread_truth *t, int site, struct wait_stamp before)
{
	uint64_t wall = now_ns() - before.stopwatch_ns;
	struct site_truth *w = &t->sites[site];
	w->waits++;
	w->wall_ns += wall;
	if (wall > w->max_ns)
		w->max_ns = wall;
	if (truth_is_fine(t, site))
		w->raw_blocked_ns += asleep_between(before, read_clocks(t->schedstat_fd));
}

/* Sum of the sites that were read wait by wait. */
static inline int64_t truth_read_blocked_ns(const struct thread_truth *t)
{
	int64_t sum = 0;
	for (int i = 0; i < t->sites_used; i++)
		sum += t->sites[i].raw_blocked_ns;
	return sum;
}

/* True blocked time of a site, ns: see the head of this file. */
static inline int64_t truth_site_blocked_ns(const struct thread_truth *t, int site)
{
	if (truth_is_fine(t, site))
		return t->sites[site].raw_blocked_ns;
	return t->loop_blocked_ns - truth_read_blocked_ns(t);
}

/* Time asleep in the loop at none of the thread's sites. */
static inline int64_t truth_elsewhere_ns(const struct thread_truth *t)
{
	bool all_read = t->sites_used > 1 && !t->site0_is_remainder;
	return t->sites_used == 0 || all_read ? t->loop_blocked_ns - truth_read_blocked_ns(t) : 0;
}

/* What one empty measurement costs, ns of wall time: an upper bound for the error of `wall_ns`. */
static inline double truth_empty_call_ns(void)
{
	enum { ROUNDS = 10000 };
	uint64_t sum = 0;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start = now_ns();
		KEEP_FRAME();
		sum += now_ns() - start;
	}
	return (double)sum / ROUNDS;
}

static inline void truth_print_site(FILE *out, const struct thread_truth *t, int i)
{
	const struct site_truth *s = &t->sites[i];
	fprintf(out,
		"{\"function\":\"%s\",\"syscall\":\"%s\",\"reason\":\"%s\",\"waker\":\"%s\",\"waits\":%" PRIu64
		",\"wall_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64 ",\"blocked_ns\":%" PRId64 "}",
		s->function, s->syscall, s->reason, s->waker, s->waits, s->wall_ns, s->max_ns,
		truth_site_blocked_ns(t, i));
}

static inline void truth_print_thread(FILE *out, const struct thread_truth *t)
{
	fprintf(out,
		"{\"tid\":%d,\"name\":\"%s\",\"start_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64
		",\"schedstat_run_ns\":%" PRIu64 ",\"run_delay_ns\":%" PRIu64
		",\"voluntary\":%ld,\"involuntary\":%ld,\"loop_wall_ns\":%" PRIu64 ",\"blocked_ns\":%" PRId64
		",\"elsewhere_ns\":%" PRId64 ",\"sites\":[",
		t->tid, t->name, t->start_ns, t->end_ns, t->cpu_ns, t->run_ns, t->run_delay_ns, t->voluntary,
		t->involuntary, t->loop_wall_ns, t->loop_blocked_ns, truth_elsewhere_ns(t));
	for (int i = 0; i < t->sites_used; i++) {
		if (i)
			fputc(',', out);
		truth_print_site(out, t, i);
	}
	fputs("]}", out);
}

/* Writes every thread's truth as one JSON object. `more` holds further members or is empty. */
static inline void truth_print(FILE *out, const char *program, const char *more,
			       const struct thread_truth *threads, int count)
{
	fprintf(out, "{\"program\":\"%s\",\"pid\":%d,\"clock\":\"monotonic\",\"empty_call_ns\":%.0f%s%s,\n \"threads\":[",
		program, getpid(), truth_empty_call_ns(), *more ? "," : "", more);
	for (int i = 0; i < count; i++) {
		fputs(i ? ",\n  " : "\n  ", out);
		truth_print_thread(out, &threads[i]);
	}
	fputs("\n ]}\n", out);
}

/* Opens the file of `--json FILE`; "-" and NULL are standard output. */
static inline FILE *truth_output(const char *path)
{
	if (!path || strcmp(path, "-") == 0)
		return stdout;
	FILE *out = fopen(path, "w");
	if (!out)
		die(path);
	return out;
}

#endif
