/*
 * spinlocks.c - threads that spin for locks of their own making, next to one that computes.
 *
 *   holder   holds both locks most of the time, asleep
 *   spinner  spins for one of them (test and test-and-set, with a pause), then sleeps a little
 *   mixed    spins for the other (a ticket lock without one), then computes
 *   worker   computes in loops that re-read memory, and never waits
 *
 * Each tells by CLOCK_THREAD_CPUTIME_ID how long it ran, and how much of that was spent waiting.
 * Usage: spinlocks SECONDS
 */
#include "truth.h"
#include <pthread.h>
#include <stdatomic.h>

enum { HELD_MS = 12, FREE_MS = 2, COMPUTED_MS = 8, NUMBERS = 1 << 12 };

static _Alignas(64) atomic_int word;
static _Alignas(64) atomic_uint next, serving;
static atomic_bool stop;
static uint32_t numbers[NUMBERS];
static volatile uint64_t sink;

struct told {
	const char *name;
	pid_t tid;
	uint64_t cpu_ns, spun_ns;
};

static SITE void lock_word(void)
{
	for (;;) {
		while (atomic_load_explicit(&word, memory_order_relaxed))
			__builtin_ia32_pause();
		if (!atomic_exchange_explicit(&word, 1, memory_order_acquire))
			return;
	}
}

static SITE void lock_ticket(void)
{
	unsigned ticket = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
	while (atomic_load_explicit(&serving, memory_order_acquire) != ticket)
		;
}

static void unlock_word(void) { atomic_store_explicit(&word, 0, memory_order_release); }
static void unlock_ticket(void) { atomic_fetch_add_explicit(&serving, 1, memory_order_release); }

/* A hash, a search and a sum over memory: loops that are taken for waits most easily. */
static SITE void compute(uint64_t ns)
{
	for (uint64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;) {
		uint64_t hash = 14695981039346656037u;
		for (int turn = 0; turn < 8; turn++)
			for (int i = 0; i < NUMBERS; i++)
				hash = (hash ^ numbers[i]) * 1099511628211u;
		int found = 0;
		for (int turn = 0; turn < 8; turn++) {
			found = 0;
			while (found < NUMBERS && numbers[found] != (uint32_t)-turn - 1)
				found++;
		}
		sink = hash + (uint64_t)found;
	}
}

static void begin(struct told *t)
{
	prctl(PR_SET_NAME, t->name);
	t->tid = own_tid();
}

/* Takes and holds a lock; how long that took is known by the thread's own clock. */
static void wait_for(struct told *t, void (*lock)(void))
{
	uint64_t from = thread_cpu_ns();
	lock();
	t->spun_ns += thread_cpu_ns() - from;
}

static void *holder(void *told)
{
	struct told *t = told;
	begin(t);
	while (!stop) {
		wait_for(t, lock_word);
		wait_for(t, lock_ticket);
		sleep_ns(HELD_MS * NS_PER_MS);
		unlock_word();
		unlock_ticket();
		sleep_ns(FREE_MS * NS_PER_MS);
	}
	t->cpu_ns = thread_cpu_ns();
	return NULL;
}

static void *spinner(void *told)
{
	struct told *t = told;
	begin(t);
	while (!stop) {
		wait_for(t, lock_word);
		unlock_word();
		sleep_ns(FREE_MS * NS_PER_MS);
	}
	t->cpu_ns = thread_cpu_ns();
	return NULL;
}

static void *mixed(void *told)
{
	struct told *t = told;
	begin(t);
	while (!stop) {
		wait_for(t, lock_ticket);
		unlock_ticket();
		compute(COMPUTED_MS * NS_PER_MS);
	}
	t->cpu_ns = thread_cpu_ns();
	return NULL;
}

static void *worker(void *told)
{
	struct told *t = told;
	begin(t);
	while (!stop)
		compute(COMPUTED_MS * NS_PER_MS);
	t->cpu_ns = thread_cpu_ns();
	return NULL;
}

int main(int count, char **arguments)
{
	double seconds = count > 1 ? atof(arguments[1]) : 2;
	void *(*const run[])(void *) = { holder, spinner, mixed, worker };
	struct told told[] = { { .name = "holder" }, { .name = "spinner" }, { .name = "mixed" }, { .name = "worker" } };
	pthread_t threads[4];

	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = (uint32_t)i * 2654435761u >> 1;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run[i], &told[i]);
	sleep_ns((uint64_t)(seconds * NS_PER_SECOND));
	stop = true;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 4; i++)
		printf("{\"name\":\"%s\",\"tid\":%d,\"cpu_ns\":%" PRIu64 ",\"spun_ns\":%" PRIu64 "}\n", told[i].name,
		       told[i].tid, told[i].cpu_ns, told[i].spun_ns);
	return 0;
}
