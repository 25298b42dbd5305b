/* Habits with the disk, the scheduler and the loader: see habits.c. */
#include "habits.h"
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* ---- synchronous-io ---- */

enum { THINK_NS = 1500000, ANSWER_NS = 50000, RECORD = 4096 };

static int sockets[2];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t unwritten;

static void make_sockets(void)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) || sem_init(&unwritten, 0, 0))
		die("socketpair");
}

static int journal(void)
{
	/* Not /tmp, which may be in memory. */
	char path[] = "/var/tmp/habits-XXXXXX";
	int file = mkstemp(path);
	if (file < 0 || unlink(path))
		die(path);
	return file;
}

static SITE void write_down(int file)
{
	static char record[RECORD];
	if (pwrite(file, record, RECORD, 0) != RECORD || fdatasync(file))
		die("journal");
}

static void ask(struct worker *w)
{
	char answer = 0;
	while (!over) {
		/* Not a sleep: who sleeps so often is told to look for work by sleeping. */
		struct pollfd none = {.fd = sockets[0], .events = POLLIN};
		ppoll(&none, 1, &(struct timespec){.tv_nsec = THINK_NS}, NULL);
		if (send(sockets[0], &answer, 1, 0) != 1 || recv(sockets[0], &answer, 1, 0) != 1)
			die("socket");
		w->units++;
	}
	shutdown(sockets[0], SHUT_RDWR);
	sem_post(&unwritten);
}

/* Writes down each request before it is answered (healthy: another thread does). */
static void answer(void)
{
	char request;
	int file = journal();
	while (recv(sockets[1], &request, 1, 0) == 1) {
		compute(ANSWER_NS);
		if (sick)
			write_down(file);
		else
			sem_post(&unwritten);
		if (send(sockets[1], &request, 1, MSG_NOSIGNAL) != 1)
			return;
	}
}

static void write_behind(void)
{
	int file = journal();
	while (sem_wait(&unwritten) == 0 && !over) {
		while (sem_trywait(&unwritten) == 0)
			;
		write_down(file);
	}
}

void answer_requests(struct worker *w)
{
	pthread_once(&once, make_sockets);
	switch (w->number) {
	case 0: return ask(w);
	case 1: return answer();
	default: return write_behind();
	}
}

/* ---- priority-inversion ---- */

enum { WANTED_EVERY_NS = 20000000, HELD_NS = 1500000 };

void run_on(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static SITE void hold(uint64_t ns)
{
	pthread_mutex_lock(&mutex);
	compute(ns);
	pthread_mutex_unlock(&mutex);
}

static SITE void want(struct worker *w)
{
	uint64_t from = now_ns();
	pthread_mutex_lock(&mutex);
	w->waited += now_ns() - from;
	pthread_mutex_unlock(&mutex);
}

/* A thread that gives way (healthy: does not) has a lock that another needs, on a processor that a third computes on. */
void want_in_vain(struct worker *w)
{
	if (w->number == 0)
		while (!over) {
			sleep_ns(WANTED_EVERY_NS);
			want(w);
			w->units++;
		}
	run_on(0);
	if (sick && w->number == 1 && setpriority(PRIO_PROCESS, (id_t)own_tid(), 10))
		die("setpriority");
	while (!over && w->number == 1) {
		if (!sick)
			compute(HELD_NS);
		hold(sick ? HELD_NS : 1000);
		sleep_ns(NS_PER_MS);
	}
	while (!over)
		compute(NS_PER_MS);
}

/* ---- dynamic-loading ---- */

extern char **environ;

/* Runs a program that is beside this one: all it does is start and end. */
void start_programs(struct worker *w)
{
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
	if (length < 0)
		die("/proc/self/exe");
	program[length] = 0;
	strcpy(strrchr(program, '/') + 1, sick ? "linked" : "linked-static");
	while (!over) {
		pid_t child;
		char *arguments[] = { program, NULL };
		if (posix_spawn(&child, program, NULL, NULL, arguments, environ))
			die(program);
		waitpid(child, NULL, 0);
		w->units++;
	}
}

/* ---- wake-up-storm ---- */

enum { TOGETHER = 256, MAKE_STEPS = 6000, USE_STEPS = 300 };

static sem_t made;
static atomic_long units_made;
static volatile uint64_t sum;

static void make_semaphore(void) { sem_init(&made, 0, 0); }

static SITE void steps(int n)
{
	uint64_t hash = sum;
	for (int i = 0; i < n; i++)
		hash = (hash ^ (uint64_t)i) * 1099511628211u;
	sum = hash;
}

/* The first thread wakes the second for each unit it makes (healthy: for many). */
void wake_each_other(struct worker *w)
{
	pthread_once(&once, make_semaphore);
	if (w->number == 0) {
		for (long n = 1; !over; n++) {
			steps(MAKE_STEPS);
			units_made++;
			if (n % (sick ? 1 : TOGETHER) == 0)
				sem_post(&made);
		}
		sem_post(&made);
		return;
	}
	while (sem_wait(&made) == 0 && !over)
		for (long n = atomic_exchange(&units_made, 0); n > 0; n--) {
			steps(USE_STEPS);
			w->units++;
		}
}

/* ---- serial-thread ---- */

enum { PREPARE_NS = 1000000, FINISH_NS = 200000 };

static int waiting_units;

static SITE void prepare(void)
{
	compute(PREPARE_NS);
	KEEP_FRAME();
}

static void finish_units(struct worker *w)
{
	while (!over) {
		pthread_mutex_lock(&mutex);
		while (waiting_units == 0 && !over)
			pthread_cond_wait(&news, &mutex);
		waiting_units--;
		pthread_mutex_unlock(&mutex);
		compute(FINISH_NS);
		w->units++;
	}
}

/* One thread prepares what the others finish (healthy: each prepares its own). */
void hand_out(struct worker *w)
{
	if (w->number > 0 && sick)
		return finish_units(w);
	while (!over) {
		prepare();
		if (sick) {
			pthread_mutex_lock(&mutex);
			waiting_units++;
			pthread_cond_signal(&news);
			pthread_mutex_unlock(&mutex);
		} else {
			compute(FINISH_NS);
			w->units++;
		}
	}
}
