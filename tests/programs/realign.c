/*
 * realign - functions that align their own stack.
 *
 * What it does: aligned_locals() has locals of 64-byte alignment, aligned_many_arguments() also takes
 * arguments from the stack and room by alloca, so that gcc keeps the caller's stack pointer in
 * another register (r10, r13) and the CFA is an expression. They call each other 8 deep; the
 * innermost computes and sleeps. The Makefile adds -mstackrealign.
 *
 * Its true answer (one JSON line): rounds; processor time is in compute_aligned, sleep in
 * sleep_aligned, and every stack holds 8 frames of each of the two functions below main.
 *
 * Usage: realign [SECONDS=2]
 */
#include "truth.h"
#include <alloca.h>

SITE static void aligned_many_arguments(int left, long a, long b, long c, long d, long e, long f, long g);

SITE static void compute_aligned(void)
{
	_Alignas(64) volatile double vector[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	uint64_t end = thread_cpu_ns() + NS_PER_MS;
	while (thread_cpu_ns() < end)
		for (int i = 0; i < 800; i++)
			vector[i & 7] = vector[i & 7] * 1.0000001;
}

SITE static void sleep_aligned(void)
{
	_Alignas(64) volatile char room[64];
	room[0] = 1;
	sleep_ns(NS_PER_MS);
	room[1] = room[0];
}

SITE static void aligned_locals(int left)
{
	_Alignas(64) volatile char room[192];
	room[0] = (char)left;
	if (left == 0) {
		compute_aligned();
		sleep_aligned();
	} else {
		aligned_many_arguments(left, 1, 2, 3, 4, 5, 6, 7);
	}
	room[1] = room[0];
}

SITE static void aligned_many_arguments(int left, long a, long b, long c, long d, long e, long f, long g)
{
	_Alignas(64) volatile long sums[8];
	volatile char *room = alloca((size_t)(left * 48 + 1));
	sums[0] = a + b + c + d;
	room[0] = (char)e;
	aligned_locals(left - 1);
	sums[1] = sums[0] + f + g + room[0];
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	long rounds = 0;
	for (; now_ns() < end; rounds++)
		aligned_many_arguments(8, 1, 2, 3, 4, 5, 6, 7);
	printf("{\"program\":\"realign\",\"rounds\":%ld,\"depth\":8,\"cpu_ns\":%" PRIu64 "}\n", rounds, thread_cpu_ns());
	return 0;
}
