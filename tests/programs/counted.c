/*
 * counted: threads that call a few functions all the time and count the calls themselves. A puppet
 * (puppet.h), built in every way a program can be linked.
 */
#include "puppet.h"

#define SITE __attribute__((noinline, noclone))

static atomic_ulong add_calls, walk_calls, lock_calls;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long locked_sum;

SITE unsigned long add(unsigned long a, unsigned long b)
{
	atomic_fetch_add_explicit(&add_calls, 1, memory_order_relaxed);
	return a + b;
}

SITE double walk(double x, int steps)
{
	atomic_fetch_add_explicit(&walk_calls, 1, memory_order_relaxed);
	for (int i = 0; i < steps; i++)
		x = x * 0.5 + 1.0;
	return x;
}

static void *worker(void *unused)
{
	for (unsigned long i = 0; !ending; i++) {
		park_if_told();
		if (add(i, 5) != i + 5)
			wrong("a sum");
		if (walk(2.0, 3) != 2.0)
			wrong("a floating-point argument");
		/* Both calls are counted as one: all locks here are these. */
		atomic_fetch_add_explicit(&lock_calls, 1, memory_order_relaxed);
		pthread_mutex_lock(&mutex);
		locked_sum++;
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

static void print(void)
{
	printf("{\"add\":%lu,\"walk\":%lu,\"pthread_mutex_lock\":%lu}\n", add_calls, walk_calls, lock_calls);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 4;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < count; i++)
		start(worker, NULL);
	printf("{\"ready\":true}\n");
	obey(print);
	for (int i = 0; i < running; i++)
		pthread_join(threads[i], NULL);
	if (locked_sum != lock_calls)
		wrong("the sum under a mutex");
	printf("{\"ok\":true}\n");
	return 0;
}
