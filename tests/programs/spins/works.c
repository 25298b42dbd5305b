/* Work that is easily taken for a wait. */
#define _GNU_SOURCE
#include "spins.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define load(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

enum { SIZE = 1 << 14 };
static unsigned char text[SIZE];
static uint32_t numbers[SIZE];
static volatile uint64_t sink;
static uint64_t shared_count LINE;

struct item {
	struct item *next;
	uint64_t value;
};
static struct item list[4096];
static struct item *top LINE;

__attribute__((constructor)) static void fill(void)
{
	memset(text, 'x', SIZE);
	text[SIZE - 1] = 0;
	for (unsigned i = 0; i < SIZE; i++)
		numbers[i] = i * 2654435761u;
	for (unsigned i = 0; i < 4096; i++)
		list[i] = (struct item){i < 4095 ? &list[i + 1] : 0, i};
}

/* Reads a flag every turn, as a wait does, but computes. */
LABEL void work_random(volatile int *stop)
{
	uint64_t x = 1;
	while (!*stop)
		x = x * 6364136223846793005u + 1442695040888963407u;
	sink = x;
}

LABEL void work_xorshift(volatile int *stop)
{
	uint64_t x = 88172645463325252u;
	while (!*stop) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	sink = x;
}

LABEL void work_float(volatile int *stop)
{
	double x = 0.5;
	while (!*stop)
		x = 3.9 * x * (1 - x);
	sink = (uint64_t)(x * 1e9);
}

LABEL void work_length(volatile int *stop)
{
	while (!*stop) {
		const unsigned char *at = text;
		while (*at)
			at++;
		sink = (uint64_t)(at - text);
	}
}

LABEL void work_find(volatile int *stop)
{
	while (!*stop) {
		unsigned i = 0;
		while (i < SIZE && text[i] != 'y')
			i++;
		sink = i;
	}
}

LABEL void work_memchr(volatile int *stop)
{
	while (!*stop)
		sink = (uint64_t)memchr(text, 'y', SIZE);
}

LABEL void work_checksum(volatile int *stop)
{
	while (!*stop) {
		uint32_t a = 1, b = 0;
		for (unsigned i = 0; i < SIZE; i++) {
			a = (a + text[i]) % 65521;
			b = (b + a) % 65521;
		}
		sink = b << 16 | a;
	}
}

LABEL void work_list(volatile int *stop)
{
	while (!*stop) {
		uint64_t count = 0;
		for (const struct item *at = list; at; at = at->next)
			count++;
		sink = count;
	}
}

LABEL void work_list_find(volatile int *stop)
{
	while (!*stop) {
		const struct item *at = list;
		while (at && at->value != 5000)
			at = at->next;
		sink = (uint64_t)at;
	}
}

LABEL void work_xadd(volatile int *stop)
{
	while (!*stop)
		__atomic_fetch_add(&shared_count, 1, __ATOMIC_SEQ_CST);
}

/* Looks at what was there before. */
LABEL void work_xadd_limit(volatile int *stop)
{
	while (!*stop)
		while (__atomic_fetch_add(&shared_count, 3, __ATOMIC_SEQ_CST) % 4096 > 4)
			;
}

LABEL void work_cas_count(volatile int *stop)
{
	while (!*stop) {
		uint64_t old = load(&shared_count);
		while (!__atomic_compare_exchange_n(&shared_count, &old, old + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			;
	}
}

LABEL void work_cas_maximum(volatile int *stop)
{
	uint64_t own = 0;
	while (!*stop) {
		uint64_t old = load(&shared_count);
		own += 7;
		while (old < own && !__atomic_compare_exchange_n(&shared_count, &old, own, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			;
	}
}

/* A lock-free stack without reuse hazards: each thread takes all and puts it back item by item. */
LABEL void work_cas_stack(volatile int *stop)
{
	struct item own[64];
	for (int i = 0; i < 64; i++)
		own[i].next = i < 63 ? &own[i + 1] : 0;
	struct item *mine = own;
	while (!*stop) {
		while (mine) {
			struct item *rest = mine->next;
			mine->next = load(&top);
			while (!__atomic_compare_exchange_n(&top, &mine->next, mine, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
				;
			mine = rest;
		}
		mine = __atomic_exchange_n(&top, NULL, __ATOMIC_SEQ_CST);
	}
	/* The items lie on our stack: nobody may find them later. */
	store(&top, NULL);
}

static struct {
	unsigned head LINE, tail LINE;
	uint32_t slots[256] LINE;
} ring;

/* Polls a ring and works on what it finds, which is nearly always something. */
LABEL void work_ring(volatile int *stop)
{
	uint64_t sum = 0;
	unsigned put = 0, taken = 0;
	while (!*stop) {
		while (put - load(&ring.tail) < 256) {
			ring.slots[put % 256] = put;
			store(&ring.head, ++put);
		}
		while (load(&ring.head) != taken) {
			uint64_t hash = ring.slots[taken % 256];
			for (int i = 0; i < 16; i++)
				hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9u;
			sum += hash;
			store(&ring.tail, ++taken);
		}
	}
	sink = sum;
	ring.head = ring.tail = 0;
}

LABEL void work_probe(volatile int *stop)
{
	while (!*stop) {
		unsigned at = 17, tries = 0;
		while (numbers[at] != 1 && tries < SIZE) {
			at = (at + 1) % SIZE;
			tries++;
		}
		sink = at;
	}
}

LABEL void work_sum(volatile int *stop)
{
	while (!*stop) {
		uint32_t sum = 0;
		for (unsigned i = 0; i < SIZE; i++)
			sum += numbers[i];
		sink = sum;
	}
}

LABEL void work_divide(volatile int *stop)
{
	uint64_t count = 0;
	for (uint64_t n = 3; !*stop; n += 2) {
		uint64_t d = 3;
		while (d * d <= n && n % d)
			d += 2;
		count += d * d > n;
	}
	sink = count;
}

LABEL void work_collatz(volatile int *stop)
{
	uint64_t longest = 0;
	for (uint64_t start = 1; !*stop; start++) {
		uint64_t steps = 0;
		for (uint64_t n = start; n != 1; steps++)
			n = n & 1 ? 3 * n + 1 : n / 2;
		longest = steps > longest ? steps : longest;
	}
	sink = longest;
}

LABEL void work_bits(volatile int *stop)
{
	uint64_t n = 0, bits = 0;
	while (!*stop) {
		for (uint64_t left = n++; left; left &= left - 1)
			bits++;
	}
	sink = bits;
}

LABEL void work_sort(volatile int *stop)
{
	uint32_t copy[256];
	while (!*stop) {
		memcpy(copy, numbers, sizeof copy);
		for (unsigned i = 1; i < 256; i++)
			for (unsigned j = i; j > 0 && copy[j - 1] > copy[j]; j--) {
				uint32_t other = copy[j];
				copy[j] = copy[j - 1];
				copy[j - 1] = other;
			}
		sink = copy[0];
	}
}

/* A reader under a sequence lock that nobody writes: the loop goes round once. */
LABEL void work_sequence(volatile int *stop)
{
	static unsigned sequence, pair[2];
	while (!*stop) {
		unsigned before, a, b;
		do {
			before = load(&sequence);
			a = __atomic_load_n(&pair[0], __ATOMIC_RELAXED);
			b = __atomic_load_n(&pair[1], __ATOMIC_RELAXED);
			__atomic_thread_fence(__ATOMIC_ACQUIRE);
		} while (before & 1 || __atomic_load_n(&sequence, __ATOMIC_RELAXED) != before);
		sink = a + b;
	}
}

LABEL void work_clock(volatile int *stop)
{
	struct timespec now;
	while (!*stop) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sink = (uint64_t)now.tv_nsec;
	}
}

const struct work works[] = {
	{"work_random", work_random, 1},
	{"work_xorshift", work_xorshift, 1},
	{"work_float", work_float, 1},
	{"work_length", work_length, 1},
	{"work_find", work_find, 1},
	{"work_memchr", work_memchr, 1},
	{"work_checksum", work_checksum, 1},
	{"work_list", work_list, 1},
	{"work_list_find", work_list_find, 1},
	{"work_xadd", work_xadd, 2},
	{"work_xadd_limit", work_xadd_limit, 2},
	{"work_cas_count", work_cas_count, 2},
	{"work_cas_maximum", work_cas_maximum, 2},
	{"work_cas_stack", work_cas_stack, 1},
	{"work_ring", work_ring, 1},
	{"work_probe", work_probe, 1},
	{"work_sum", work_sum, 1},
	{"work_divide", work_divide, 1},
	{"work_collatz", work_collatz, 1},
	{"work_bits", work_bits, 1},
	{"work_sort", work_sort, 1},
	{"work_sequence", work_sequence, 1},
	{"work_clock", work_clock, 1},
	{0},
};
