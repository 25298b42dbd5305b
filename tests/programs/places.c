/*
 * places: calls functions some of which have no room for a jump, and says how often: lines of "FUNCTION CALLS". The
 * first round's calls come in the order outer 0, tiny 0, leaf 0, outer 1, tiny 1, leaf 1, …
 *
 *     places [ROUNDS [THREADS]]
 */
#include "rounds.h"

/* Three bytes, and the next function follows at once: a jump of five does not fit. */
int tiny(int n);
int tiny_next(int n);
__asm__(".text\n"
	".globl tiny\n.type tiny, @function\ntiny:\n"
	".cfi_startproc\n\tmov %edi, %eax\n\tret\n.cfi_endproc\n.size tiny, .-tiny\n"
	".globl tiny_next\n.type tiny_next, @function\ntiny_next:\n"
	".cfi_startproc\n\tlea 1(%rdi), %eax\n\tadd $2, %eax\n\tret\n.cfi_endproc\n.size tiny_next, .-tiny_next\n");

SITE int leaf(int n)
{
	__asm__ volatile("" ::: "memory");
	return n * 3 + 1;
}

/* Ends by a jump to leaf, which returns in its place. */
SITE int tail(int n)
{
	__asm__ volatile("" ::: "memory");
	return leaf(n + 1000);
}

SITE int outer(int n)
{
	int sum = tiny(n);
	__asm__ volatile("" ::: "memory");
	return sum + leaf(n) - tiny_next(n);
}

static void *work(void *sum)
{
	long total = 0;
	for (long round = 0; round < rounds; round++) {
		total += outer((int)round);
		if (round % 2)
			total += tail((int)round);
	}
	*(long *)sum = total;
	return NULL;
}

int main(int argc, char **argv)
{
	long threads = in_threads(argc, argv, work);
	long calls = rounds * threads, tails = rounds / 2 * threads;
	printf("outer %ld\ntiny %ld\ntiny_next %ld\ntail %ld\nleaf %ld\n", calls, calls, calls, tails, calls + tails);
	return 0;
}
