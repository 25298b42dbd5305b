/* What a probe costs each time it fires: told a number of calls and 0 or 1 (hit or guarded) on standard input, calls
 * that function so often in each of several batches, and answers with the ns per call of the shortest batch. */
#include <dwell/sdt.h>
#include <stdio.h>
#include <time.h>

#define BATCHES 15

/* What scripts read by name. */
int counter = 7;
char text[] = "an array of characters";
char *pointer = text;

__attribute__((noinline, noclone)) long hit(long n)
{
	__asm__ volatile("" ::: "memory");
	return n * 3 - 1;
}

/* The same with a static probe that asks first whether anybody watches it. */
__attribute__((noinline, noclone)) long guarded(long n)
{
	if (DWELL_PROBE_ENABLED(fired, guarded))
		DWELL_PROBE(fired, guarded, n);
	__asm__ volatile("" ::: "memory");
	return n * 3 - 1;
}

/* Never called while time is measured: what traces hit() only within it sees a false predicate. */
__attribute__((noinline, noclone)) long within(long n)
{
	return hit(n) + 1;
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(void)
{
	long calls, which;
	volatile long sum = 0;
	puts("ready");
	fflush(stdout);
	while (scanf("%ld %ld", &calls, &which) == 2) {
		long (*called)(long) = which ? guarded : hit;
		double shortest = 1e18;
		sum += within(counter);
		for (int batch = 0; batch < BATCHES; batch++) {
			double begin = now();
			for (long n = 0; n < calls; n++)
				sum += called(n & 1023);
			double took = (now() - begin) / (double)calls;
			if (took < shortest)
				shortest = took;
		}
		printf("%.2f\n", shortest);
		fflush(stdout);
	}
	return 0;
}
