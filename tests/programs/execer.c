/*
 * execer - a process that becomes another program, again and again.
 *
 * What it does: in each generation stage_even() or stage_odd() computes 100 ms and sleeps 100 ms, and
 * then the process executes itself anew; every third generation does so from a second thread, which
 * takes over the process' id. The pid never changes, the addresses and the image do.
 *
 * Its true answer: one JSON line per generation, with the pid, the stage's function, and its times.
 *
 * Usage: execer [GENERATIONS=6] [FIRST=0]
 */
#include "truth.h"
#include <pthread.h>

static int generation, generations = 6;
static char *self;

SITE static void compute_in_stage(void) { spin_cpu_ns(100 * NS_PER_MS); KEEP_FRAME(); }
SITE static void sleep_in_stage(void) { sleep_ns(100 * NS_PER_MS); KEEP_FRAME(); }
SITE static void stage_even(void) { compute_in_stage(); sleep_in_stage(); KEEP_FRAME(); }
SITE static void stage_odd(void) { compute_in_stage(); sleep_in_stage(); KEEP_FRAME(); }

SITE static void *become_next(void *arg)
{
	char total[16], next[16];
	snprintf(total, sizeof total, "%d", generations);
	snprintf(next, sizeof next, "%d", generation + 1);
	execl("/proc/self/exe", self, total, next, (char *)NULL);
	die("execl");
	return arg;
}

int main(int argc, char **argv)
{
	self = argv[0];
	generations = argc > 1 ? atoi(argv[1]) : generations;
	generation = argc > 2 ? atoi(argv[2]) : 0;
	/* The processor clock of a thread goes on across an exec. */
	uint64_t start = now_ns(), cpu_start = thread_cpu_ns();
	if (generation % 2)
		stage_odd();
	else
		stage_even();
	printf("{\"program\":\"execer\",\"generation\":%d,\"pid\":%d,\"function\":\"%s\",\"wall_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64 "}\n",
	       generation, getpid(), generation % 2 ? "stage_odd" : "stage_even", now_ns() - start, thread_cpu_ns() - cpu_start);
	fflush(stdout);
	if (generation + 1 >= generations)
		return 0;
	if (generation % 3 == 2) {
		pthread_t thread;
		pthread_create(&thread, NULL, become_next, NULL);
		pthread_join(thread, NULL); /* does not return: the exec ends this thread */
	}
	become_next(NULL);
	return 1;
}
