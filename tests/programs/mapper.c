/*
 * mapper: threads that map memory of many sizes and unmap it again, all the time, and check that what they wrote
 * there is theirs. Whoever wants room in this process finds that another came first. A puppet (puppet.h); it
 * counts mappings. `mapper THREADS`.
 */
#include "puppet.h"
#include <stdint.h>
#include <sys/mman.h>

enum { KEPT = 8, PAGE = 4096, LARGEST = 4096 };

static atomic_ulong mapped;

struct kept {
	uint64_t *start;
	size_t pages;
};

static uint64_t *last_of(struct kept *one)
{
	return one->start + (one->pages * PAGE / sizeof *one->start) - 1;
}

static void give_back(struct kept *one)
{
	uint64_t mark = (uintptr_t)one;
	if (one->start == NULL)
		return;
	if (*one->start != mark || *last_of(one) != mark || munmap(one->start, one->pages * PAGE) != 0)
		wrong("a mapping of its own");
	one->start = NULL;
}

static void *map(void *number)
{
	struct kept kept[KEPT] = { 0 };
	uint64_t seed = 0x9e3779b97f4a7c15u + (uintptr_t)number;
	for (unsigned i = 0; !ending; i++) {
		park_if_told();
		struct kept *one = &kept[i % KEPT];
		give_back(one);
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		/* As many small ones as large ones. */
		one->pages = 1 + (seed >> 8) % (seed % 2 ? LARGEST : 16);
		one->start = mmap(NULL, one->pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (one->start == MAP_FAILED)
			wrong("mmap");
		*one->start = *last_of(one) = (uintptr_t)one;
		mapped++;
	}
	for (int i = 0; i < KEPT; i++)
		give_back(&kept[i]);
	return NULL;
}

static void print(void)
{
	printf("{\"mapped\":%lu}\n", mapped);
}

int main(int argc, char **argv)
{
	printf("{\"ready\":true}\n");
	fflush(stdout);
	for (intptr_t i = 0; i < (argc > 1 ? atoi(argv[1]) : 2); i++)
		start(map, (void *)i);
	obey(print);
	for (int i = 0; i < running; i++)
		pthread_join(threads[i], NULL);
	printf("{\"ok\":true}\n");
	return 0;
}
