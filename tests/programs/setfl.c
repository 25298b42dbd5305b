/*
 * setfl: threads that call fcntl(F_SETFL), each call of which takes and releases the file's spin lock once
 * (_raw_spin_lock, _raw_spin_unlock). Prints its process id; on `r` it rests, so that who watches has emptied
 * its buffers, then every thread makes CALLS calls and a line of JSON tells how many and how long they took; `q`
 * or the end of the input ends it. `shared`: all threads use one file, so one lock; else each has its own.
 *
 * Usage: setfl THREADS CALLS [shared]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 16, REST_US = 250000 };

static long calls;
static int files[MOST_THREADS];

/* Threads run beside each other where there is a processor for each. */
static void *sets(void *file)
{
	int thread = (int *)file - files, fd = files[thread];
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(thread, &one);
	sched_setaffinity(0, sizeof one, &one);
	for (long i = 0; i < calls; i++)
		if (fcntl(fd, F_SETFL, 0) != 0)
			abort();
	return NULL;
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[1]) : 0;
	int shared = argc > 3 && strcmp(argv[3], "shared") == 0;

	if (n < 1 || n > MOST_THREADS || (calls = atol(argv[2])) < 1) {
		fprintf(stderr, "usage: setfl THREADS CALLS [shared]\n");
		return 2;
	}
	for (int i = 0; i < n; i++)
		files[i] = i && shared ? files[0] : open("/dev/null", O_RDWR);
	printf("%d\n", getpid());
	fflush(stdout);
	for (int command; (command = getchar()) != EOF && command != 'q';) {
		pthread_t threads[MOST_THREADS];
		long long start, end;

		if (command != 'r')
			continue;
		usleep(REST_US);
		start = now_ns();
		/* The first in this thread: nothing but the calls is measured when it is the only one. */
		for (int i = 1; i < n; i++)
			if (pthread_create(&threads[i], NULL, sets, &files[i]) != 0)
				abort();
		sets(&files[0]);
		for (int i = 1; i < n; i++)
			pthread_join(threads[i], NULL);
		end = now_ns();
		printf("{\"calls\": %ld, \"ns\": %lld}\n", n * calls, end - start);
		fflush(stdout);
	}
	return 0;
}
