/*
 * contended: what threads get done that want the same mutex. `contended THREADS HOLD BETWEEN` starts THREADS threads,
 * each of which takes the mutex, computes HOLD ns with it and BETWEEN ns without it, again and again. On `m` they do
 * so for 200 ms; it prints how often a second the mutex was taken and how long it was held on average, ns, from the
 * return of the lock to the call of the unlock. `q` ends it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

enum { RUN = 200000000, MOST_THREADS = 64, CALIBRATED = 1 << 22 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin, end;
static atomic_int over;
static unsigned long hold_steps, between_steps, guarded;

static struct {
	unsigned long pairs, held;
	unsigned long sink;
} __attribute__((aligned(64))) done[MOST_THREADS];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The same time for the same number of steps: each needs the one before. */
static unsigned long compute(unsigned long x, unsigned long steps)
{
	while (steps--)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

static void *worker(void *number)
{
	size_t me = (size_t)number;
	for (;;) {
		pthread_barrier_wait(&begin);
		unsigned long pairs = 0, held = 0, sink = me;
		while (!over) {
			pthread_mutex_lock(&mutex);
			unsigned long from = __rdtsc();
			sink = compute(sink, hold_steps);
			guarded++;
			held += __rdtsc() - from;
			pthread_mutex_unlock(&mutex);
			pairs++;
			sink = compute(sink, between_steps);
		}
		done[me].pairs = pairs;
		done[me].held = held;
		done[me].sink = sink;
		pthread_barrier_wait(&end);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	size_t threads = argc > 1 ? (size_t)atoi(argv[1]) : 2;
	double hold = argc > 2 ? atof(argv[2]) : 1000, between = argc > 3 ? atof(argv[3]) : 1000;
	if (threads > MOST_THREADS)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	double from = now();
	unsigned long ticks = __rdtsc();
	done[0].sink = compute(1, CALIBRATED);
	ticks = __rdtsc() - ticks;
	double took = now() - from, tick_ns = took / (double)ticks;
	hold_steps = (unsigned long)(hold / took * CALIBRATED);
	between_steps = (unsigned long)(between / took * CALIBRATED);
	pthread_barrier_init(&begin, NULL, (unsigned)threads + 1);
	pthread_barrier_init(&end, NULL, (unsigned)threads + 1);
	for (size_t i = 0; i < threads; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, worker, (void *)i) != 0)
			return 1;
	}
	printf("{\"ready\":true}\n");
	unsigned long all = 0;
	for (int command; (command = getchar()) != EOF && command != 'q';) {
		struct timespec run = { 0, RUN };
		over = 0;
		from = now();
		pthread_barrier_wait(&begin);
		nanosleep(&run, NULL);
		over = 1;
		pthread_barrier_wait(&end);
		took = now() - from;
		unsigned long pairs = 0, held = 0;
		for (size_t i = 0; i < threads; i++) {
			pairs += done[i].pairs;
			held += done[i].held;
		}
		all += pairs;
		printf("{\"per_second\":%.1f,\"held_ns\":%.2f,\"pairs\":%lu}\n", (double)pairs / took * 1e9,
		       (double)held / (double)pairs * tick_ns, all);
	}
	printf("{\"ok\":%s}\n", guarded == all ? "true" : "false");
	return 0;
}
