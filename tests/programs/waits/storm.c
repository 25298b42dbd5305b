/*
 * storm.c - many switches: pairs of threads that hand over to each other without pause, in bursts,
 * so that all together switch --storm times per second. In each pair the first thread (serve_*)
 * also sleeps between bursts; the second (return_*) waits at one site only.
 */
#include "waits.h"
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* Handovers between two looks at the clock. */
enum { BURST = 32 };

struct storm_pair {
	const char *kind, *syscall, *reason, *serve_function, *return_function;
	char names[2][16];
	void (*open)(struct storm_pair *);
	void (*await[2])(struct storm_pair *); /* what each of the two waits with */
	void (*give[2])(struct storm_pair *); /* wakes the other */
	int fds[2][2]; /* [direction][read, write] */
	sem_t sems[2];
	atomic_bool done;
};

static uint64_t handovers_per_s; /* of each pair, both directions together */

static void open_pipes(struct storm_pair *p)
{
	if (pipe2(p->fds[0], O_CLOEXEC) != 0 || pipe2(p->fds[1], O_CLOEXEC) != 0)
		die("pipe2");
}

static void open_sockets(struct storm_pair *p)
{
	for (int i = 0; i < 2; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->fds[i]) != 0)
			die("socketpair");
}

static void open_eventfds(struct storm_pair *p)
{
	for (int i = 0; i < 2; i++)
		p->fds[i][0] = p->fds[i][1] = eventfd(0, EFD_CLOEXEC);
}

static void open_sems(struct storm_pair *p)
{
	sem_init(&p->sems[0], 0, 0);
	sem_init(&p->sems[1], 0, 0);
}

#define DESCRIPTOR_WAIT(name, direction)                                             \
	SITE static void name(struct storm_pair *p)                                  \
	{                                                                            \
		uint64_t token;                                                      \
		if (read(p->fds[direction][0], &token, sizeof token) != sizeof token) \
			die(#name);                                                  \
	}
DESCRIPTOR_WAIT(serve_pipe, 1)
DESCRIPTOR_WAIT(return_pipe, 0)
DESCRIPTOR_WAIT(serve_socket, 1)
DESCRIPTOR_WAIT(return_socket, 0)
DESCRIPTOR_WAIT(serve_eventfd, 1)
DESCRIPTOR_WAIT(return_eventfd, 0)

SITE static void serve_semaphore(struct storm_pair *p)
{
	while (sem_wait(&p->sems[1]) != 0)
		;
	KEEP_FRAME();
}

SITE static void return_semaphore(struct storm_pair *p)
{
	while (sem_wait(&p->sems[0]) != 0)
		;
	KEEP_FRAME();
}

static void write_token(int fd)
{
	uint64_t token = 1;
	if (write(fd, &token, sizeof token) != sizeof token)
		die("write of a token");
}
static void give_descriptor_0(struct storm_pair *p) { write_token(p->fds[0][1]); }
static void give_descriptor_1(struct storm_pair *p) { write_token(p->fds[1][1]); }
static void give_sem_0(struct storm_pair *p) { sem_post(&p->sems[0]); }
static void give_sem_1(struct storm_pair *p) { sem_post(&p->sems[1]); }

#define STORM(k, call, why, opener, gift)                                                        \
	{ .kind = #k, .syscall = call, .reason = why, .serve_function = "serve_" #k,               \
	  .return_function = "return_" #k, .open = opener, .await = { serve_##k, return_##k },     \
	  .give = { gift##_0, gift##_1 } }

static struct storm_pair pairs[] = {
	STORM(pipe, "read", "pipe", open_pipes, give_descriptor),
	STORM(socket, "read", "socket", open_sockets, give_descriptor),
	STORM(eventfd, "read", "pipe", open_eventfds, give_descriptor),
	STORM(semaphore, "futex", "condition", open_sems, give_sem),
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

SITE static void sleep_between_bursts(uint64_t deadline)
{
	sleep_until_ns(deadline);
	KEEP_FRAME();
}

SITE static void run_serve(struct worker *w)
{
	struct storm_pair *p = w->arg;
	struct thread_truth *t = &w->truth;
	t->site0_is_remainder = true;
	int wait = truth_site(t, p->serve_function, p->syscall, p->reason, p->names[1]);
	int rest = truth_site(t, "sleep_between_bursts", "clock_nanosleep", "sleep", "");
	uint64_t burst_ns = BURST * 2 * NS_PER_SECOND / handovers_per_s, next = now_ns();
	truth_loop_begin(t);
	while (time_left()) {
		for (int i = 0; i < BURST; i++) {
			p->give[0](p);
			struct wait_stamp before = truth_before(t, wait);
			p->await[0](p);
			truth_after(t, wait, before);
		}
		next += burst_ns;
		if (next > now_ns()) {
			struct wait_stamp before = truth_before(t, rest);
			sleep_between_bursts(next);
			truth_after(t, rest, before);
		}
	}
	truth_loop_end(t);
	atomic_store(&p->done, true);
	p->give[0](p);
}

SITE static void run_return(struct worker *w)
{
	struct storm_pair *p = w->arg;
	struct thread_truth *t = &w->truth;
	int wait = truth_site(t, p->return_function, p->syscall, p->reason, p->names[0]);
	truth_loop_begin(t);
	while (!atomic_load(&p->done)) {
		struct wait_stamp before = truth_before(t, wait);
		p->await[1](p);
		truth_after(t, wait, before);
		p->give[1](p);
	}
	truth_loop_end(t);
}

void add_storm(void)
{
	if (!options.storm_switches || !kind_wanted("storm"))
		return;
	handovers_per_s = options.storm_switches / PAIRS;
	if (handovers_per_s == 0)
		handovers_per_s = 1;
	for (int i = 0; i < PAIRS; i++) {
		struct storm_pair *p = &pairs[i];
		p->open(p);
		snprintf(p->names[0], sizeof p->names[0], "s-%s", p->kind);
		snprintf(p->names[1], sizeof p->names[1], "r-%s", p->kind);
		worker_add(p->names[0], run_serve, p);
		worker_add(p->names[1], run_return, p);
	}
}
