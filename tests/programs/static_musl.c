/*
 * static_musl - no dynamic loader, no shared library, another libc.
 *
 * What it does: built with musl-gcc -static. Two threads alternate between compute_statically() and
 * sleep_statically(), 20 calls deep in dig(), 2 ms each; the main thread joins them.
 *
 * Its true answer (one JSON line): visits; each thread computes about half of its time and sleeps the
 * other half, and every stack holds 20 frames of dig above the thread's start.
 *
 * Usage: static_musl [SECONDS=2]
 */
#include "truth.h"
#include <pthread.h>

static uint64_t deadline;

SITE static void compute_statically(void) { spin_cpu_ns(2 * NS_PER_MS); KEEP_FRAME(); }
SITE static void sleep_statically(void) { sleep_ns(2 * NS_PER_MS); KEEP_FRAME(); }

SITE static void dig(int left)
{
	if (left > 1) {
		dig(left - 1);
	} else {
		compute_statically();
		sleep_statically();
	}
	KEEP_FRAME();
}

SITE static void *run_thread(void *visits)
{
	while (now_ns() < deadline) {
		dig(20);
		++*(long *)visits;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	long visits[2] = { 0, 0 };
	deadline = now_ns() + (uint64_t)((argc > 1 ? atof(argv[1]) : 2) * 1e9);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run_thread, &visits[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("{\"program\":\"static_musl\",\"visits\":%ld,\"depth\":20}\n", visits[0] + visits[1]);
	return 0;
}
