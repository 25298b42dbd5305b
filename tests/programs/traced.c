/*
 * traced: calls functions with known arguments and says how often: lines of "FUNCTION ARGUMENT CALLS".
 *
 *     traced [ROUNDS [THREADS]]
 */
#include "rounds.h"
#include <string.h>

#define STEPS 10
#define GREETINGS 3

static const char *const greetings[GREETINGS] = { "hello", "good morning", "a greeting that is rather long, as greetings go" };

SITE long step(long n)
{
	__asm__ volatile("" ::: "memory");
	return n * 3 - 1;
}

SITE int many(int a, int b, int c, int d, int e, int f, int g, int h)
{
	__asm__ volatile("" ::: "memory");
	return a + b + c + d + e + f + g * h;
}

SITE size_t greet(const char *text)
{
	__asm__ volatile("" ::: "memory");
	return strlen(text);
}

static void *work(void *sum)
{
	long total = 0;
	for (long round = 0; round < rounds; round++) {
		/* step(n) is called n + 1 times a round. */
		for (long n = 0; n < STEPS; n++)
			for (long i = 0; i <= n; i++)
				total += step(n);
		total += many(1, -2, 3, -4, 5, -6, 7, (int)round);
		for (int i = 0; i < GREETINGS; i++)
			total += (long)greet(greetings[i]);
	}
	*(long *)sum = total;
	return NULL;
}

int main(int argc, char **argv)
{
	long threads = in_threads(argc, argv, work);
	for (long n = 0; n < STEPS; n++)
		printf("step %ld %ld\n", n, (n + 1) * rounds * threads);
	printf("many 8 %ld\n", rounds * threads);
	for (int i = 0; i < GREETINGS; i++)
		printf("greet %d %ld\n", i, rounds * threads);
	return 0;
}
