/*
 * pingpong - what one context switch costs, and how late a woken thread is.
 *
 * What it does: `switch` (default): two threads on one processor hand a byte to and fro through
 * pipes, so that every handover is one context switch. `latency`: a thread on one processor sleeps
 * 200 us and then writes the time into a pipe; a thread asleep on another processor reads it.
 * Meanwhile a child process of the lowest priority spins on either: a virtual processor that halts is
 * late by what its host takes to resume it, tens of us, beside which nothing else shows.
 *
 * Its true answer (one JSON line): `cpu_ns_per_switch`, the processor time of both threads (user
 * and system, getrusage) per switch; or p50, p99 and the maximum of the wake-up latency in ns, from
 * just before the write to the return of the read.
 *
 * Usage: pingpong [switch|latency] [SECONDS=1] [CPU=last]
 */
#include "truth.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static int there[2], back[2];

static void move_to(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		die("sched_setaffinity");
}

SITE static void *pong(void *arg)
{
	char token;
	(void)arg;
	prctl(PR_SET_NAME, "pong");
	while (read(there[0], &token, 1) == 1)
		if (write(back[1], &token, 1) != 1)
			die("write");
	return NULL;
}

SITE static long ping(double seconds)
{
	char token = 0;
	long rounds = 0;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	while (now_ns() < end)
		for (int i = 0; i < 64; i++, rounds++)
			if (write(there[1], &token, 1) != 1 || read(back[0], &token, 1) != 1)
				die("pipe");
	return rounds;
}

static double cpu_ns(void)
{
	return (double)clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void measure_switch(double seconds, int cpu)
{
	pthread_t thread;
	move_to(cpu);
	pthread_create(&thread, NULL, pong, NULL);
	ping(0.02); /* warm */
	double before = cpu_ns();
	long rounds = ping(seconds);
	double used = cpu_ns() - before;
	close(there[1]);
	pthread_join(thread, NULL);
	printf("{\"program\":\"pingpong\",\"mode\":\"switch\",\"switches\":%ld,\"cpu_ns_per_switch\":%.1f,\"switches_per_s\":%.0f}\n",
	       2 * rounds, used / (double)(2 * rounds), (double)(2 * rounds) / seconds);
}

enum { LATENCIES_MAX = 1 << 20 };
static uint64_t latencies[LATENCIES_MAX];
static int latencies_used;

SITE static void *late_reader(void *arg)
{
	uint64_t sent;
	move_to(*(int *)arg);
	prctl(PR_SET_NAME, "late-reader");
	while (read(there[0], &sent, sizeof sent) == (ssize_t)sizeof sent) {
		uint64_t late = now_ns() - sent;
		if (latencies_used < LATENCIES_MAX)
			latencies[latencies_used++] = late;
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Keeps a processor from halting. */
static pid_t keep_awake(int cpu)
{
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		die("fork");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	move_to(cpu);
	if (sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){ 0 }) != 0)
		die("sched_setscheduler");
	for (;;)
		__builtin_ia32_pause();
}

static void let_sleep(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void measure_latency(double seconds, int cpu)
{
	pthread_t thread;
	int reader_cpu = cpu ? cpu - 1 : cpu;
	pid_t awake[] = { keep_awake(cpu), keep_awake(reader_cpu) };
	prctl(PR_SET_TIMERSLACK, 1UL);
	pthread_create(&thread, NULL, late_reader, &reader_cpu);
	move_to(cpu);
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	while (now_ns() < end) {
		sleep_ns(200 * NS_PER_US);
		uint64_t now = now_ns();
		if (write(there[1], &now, sizeof now) != (ssize_t)sizeof now)
			die("write");
	}
	let_sleep(awake[0]); /* they hold the pipe too */
	let_sleep(awake[1]);
	close(there[1]);
	pthread_join(thread, NULL);
	if (latencies_used == 0) {
		fprintf(stderr, "pingpong: no wake-up in %g s; give it longer\n", seconds);
		exit(1);
	}
	qsort(latencies, (size_t)latencies_used, sizeof *latencies, by_size);
	printf("{\"program\":\"pingpong\",\"mode\":\"latency\",\"wakeups\":%d,\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64
	       ",\"max_ns\":%" PRIu64 "}\n",
	       latencies_used, latencies[latencies_used / 2], latencies[(long)latencies_used * 99 / 100],
	       latencies[latencies_used - 1]);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "switch";
	double seconds = argc > 2 ? atof(argv[2]) : 1;
	int cpu = argc > 3 ? atoi(argv[3]) : (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
	if (pipe(there) != 0 || pipe(back) != 0)
		die("pipe");
	if (strcmp(mode, "switch") == 0)
		measure_switch(seconds, cpu);
	else if (strcmp(mode, "latency") == 0)
		measure_latency(seconds, cpu);
	else {
		fprintf(stderr, "pingpong: unknown mode \"%s\"; use switch or latency\n", mode);
		return 2;
	}
	return 0;
}
