/*
 * qsort - a stack that goes out through libc and comes back.
 *
 * What it does: sort_numbers() calls libc's qsort, which calls compare_numbers(); one comparison in
 * 4 096 sleeps 100 us in rest_in_comparison().
 *
 * Its true answer (one JSON line): comparisons, rests, processor and sleep time. Every stack with
 * compare_numbers is: compare_numbers < qsort and its helpers < sort_numbers < main < _start.
 *
 * Usage: qsort [SECONDS=2]
 */
#include "truth.h"

enum { NUMBERS = 50000 };
static uint32_t numbers[NUMBERS];
static unsigned long comparisons, rests;
static uint64_t rest_wall_ns;

SITE static void rest_in_comparison(void)
{
	uint64_t before = now_ns();
	sleep_ns(100 * NS_PER_US);
	rest_wall_ns += now_ns() - before;
	rests++;
}

SITE static int compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	/* Some work, so that much of the time is here and not in the merge. */
	for (int i = 0; i < 20; i++) {
		x = x * 2654435761u + 1;
		y = y * 2654435761u + 1;
	}
	if (++comparisons % 4096 == 0)
		rest_in_comparison();
	return x < y ? -1 : x > y;
}

SITE static void sort_numbers(uint32_t seed)
{
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = seed = seed * 1664525u + 1013904223u;
	qsort(numbers, NUMBERS, sizeof *numbers, compare_numbers);
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	for (uint32_t seed = 1; now_ns() < end; seed++)
		sort_numbers(seed);
	printf("{\"program\":\"qsort\",\"comparisons\":%lu,\"rests\":%lu,\"rest_wall_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64 "}\n",
	       comparisons, rests, rest_wall_ns, thread_cpu_ns());
	return 0;
}
