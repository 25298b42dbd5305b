/*
 * vdso - time spent in the kernel's own shared object.
 *
 * What it does: read_clock() calls clock_gettime(CLOCK_MONOTONIC) in a loop, which runs in [vdso]
 * without entering the kernel.
 *
 * Its true answer (one JSON line): the number of calls and the processor time; nearly all of it is in
 * [vdso], and every stack is [vdso] (or clock_gettime) < read_clock < main < _start. No waits.
 *
 * Usage: vdso [SECONDS=2]
 */
#include "truth.h"

SITE static uint64_t read_clock(int times)
{
	struct timespec t = { 0, 0 };
	for (int i = 0; i < times; i++)
		clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	long calls = 0;
	do
		calls += 100000;
	while (read_clock(100000) < end);
	printf("{\"program\":\"vdso\",\"calls\":%ld,\"cpu_ns\":%" PRIu64 "}\n", calls, thread_cpu_ns());
	return 0;
}
