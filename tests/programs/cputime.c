/*
 * cputime: threads that compute and sleep on one processor, and tell a function how long they have run.
 * `cputime ROUNDS THREADS`: each calls mark(ns of CLOCK_THREAD_CPUTIME_ID) so often.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline, noclone)) void mark(unsigned long ran)
{
	__asm__ volatile("" : : "r"(ran) : "memory");
}

static unsigned long ran(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ul + now.tv_nsec;
}

static void *work(void *rounds)
{
	for (long i = 0; i < (long)rounds; i++) {
		unsigned long end = ran() + 300000;
		while (ran() < end)
			;
		if (i % 3 == 0)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		mark(ran());
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	long rounds = atol(argv[1]);
	int count = atoi(argv[2]);
	pthread_t threads[16];
	if (count < 1 || count > 16)
		return 2;
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)rounds) != 0)
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
