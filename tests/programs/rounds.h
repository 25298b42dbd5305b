/*
 * rounds.h - the command line and the threads of a program that does its work in rounds: PROGRAM [ROUNDS [THREADS]].
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SITE __attribute__((noinline, noclone))
#define MOST_THREADS 64

static long rounds = 100;

/* Does the work in each thread, with a long of its own; says how many threads. */
static long in_threads(int argc, char **argv, void *(*work)(void *))
{
	static long sums[MOST_THREADS];
	pthread_t all[MOST_THREADS];
	long threads = argc > 2 ? atol(argv[2]) : 1;
	if (argc > 1)
		rounds = atol(argv[1]);
	if (threads > MOST_THREADS)
		threads = MOST_THREADS;
	for (long i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, work, &sums[i]);
	for (long i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	return threads;
}
