/*
 * convoy.c - threads that take units of work from a queue that a lock guards, as they are told to.
 *
 * Each thread takes `batch` units per acquisition, from one of `shards` queues (any of them, each as
 * likely), holds the lock for `hold` turns, and works on each unit for `think` turns. A turn is a
 * multiplication and an addition that wait for the turn before: 1 to 2 ns. With `second` each unit also
 * needs a second lock, for so many turns. It tells how many units per second it did, after the first `settle`
 * milliseconds: threads that always do the same keep out of each other's way at first, until one loses its
 * processor in the queue of a lock, and all wait for it from then on.
 *
 * Usage: convoy [NAME=VALUE]...
 *   threads=4 batch=1 shards=1 hold=2000 think=6000 second=0 second_shards=1 seconds=1 settle=20
 *   kind=tas|ttas|ticket|mcs|adaptive|mutex
 */
#include "truth.h"
#include <pthread.h>
#include <stdatomic.h>

enum { MOST_THREADS = 256, MOST_SHARDS = 64 };
enum kind { TAS, TTAS, TICKET, MCS, ADAPTIVE, MUTEX, KINDS };
static const char *const kinds[KINDS] = { "tas", "ttas", "ticket", "mcs", "adaptive", "mutex" };

struct node {
	_Alignas(64) struct node *_Atomic next;
	atomic_int waits;
};

struct guarded {
	_Alignas(64) atomic_uint word, serving;
	struct node *_Atomic tail;
	uint64_t taken;
	_Alignas(64) pthread_mutex_t mutex;
};

struct worker {
	_Alignas(64) _Atomic uint64_t units;
	pthread_t thread;
	struct node node;
	uint64_t random;
};

static struct guarded queues[MOST_SHARDS], seconds_of[MOST_SHARDS];
static struct worker workers[MOST_THREADS];
static long threads = 4, batch = 1, shards = 1, hold = 2000, think = 6000, second, second_shards = 1, settle = 20;
static double seconds = 1;
static enum kind kind = MUTEX;
static atomic_bool stop;

static inline void turns(long count)
{
	uint64_t x = (uint64_t)count;
	for (long i = 0; i < count; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		__asm__ volatile("" : "+r"(x));
	}
}

static SITE void lock_tas(struct guarded *q)
{
	while (atomic_exchange_explicit(&q->word, 1, memory_order_acquire))
		__builtin_ia32_pause();
}

static SITE void lock_ttas(struct guarded *q)
{
	while (atomic_exchange_explicit(&q->word, 1, memory_order_acquire))
		while (atomic_load_explicit(&q->word, memory_order_relaxed))
			__builtin_ia32_pause();
}

static SITE void lock_ticket(struct guarded *q)
{
	unsigned own = atomic_fetch_add_explicit(&q->word, 1, memory_order_relaxed);
	while (atomic_load_explicit(&q->serving, memory_order_acquire) != own)
		__builtin_ia32_pause();
}

static SITE void lock_mcs(struct guarded *q, struct node *own)
{
	atomic_store_explicit(&own->next, NULL, memory_order_relaxed);
	atomic_store_explicit(&own->waits, 1, memory_order_relaxed);
	struct node *before = atomic_exchange(&q->tail, own);
	if (!before)
		return;
	atomic_store_explicit(&before->next, own, memory_order_release);
	while (atomic_load_explicit(&own->waits, memory_order_acquire))
		__builtin_ia32_pause();
}

static SITE void unlock_mcs(struct guarded *q, struct node *own)
{
	struct node *expected = own;
	if (!atomic_load_explicit(&own->next, memory_order_acquire)) {
		if (atomic_compare_exchange_strong(&q->tail, &expected, NULL))
			return;
		while (!atomic_load_explicit(&own->next, memory_order_acquire))
			__builtin_ia32_pause();
	}
	atomic_store_explicit(&atomic_load(&own->next)->waits, 0, memory_order_release);
}

static inline void lock(struct guarded *q, struct node *own)
{
	switch (kind) {
	case TAS: lock_tas(q); break;
	case TTAS: lock_ttas(q); break;
	case TICKET: lock_ticket(q); break;
	case MCS: lock_mcs(q, own); break;
	default: pthread_mutex_lock(&q->mutex);
	}
}

static inline void unlock(struct guarded *q, struct node *own)
{
	switch (kind) {
	case TAS:
	case TTAS: atomic_store_explicit(&q->word, 0, memory_order_release); break;
	case TICKET: atomic_fetch_add_explicit(&q->serving, 1, memory_order_release); break;
	case MCS: unlock_mcs(q, own); break;
	default: pthread_mutex_unlock(&q->mutex);
	}
}

static inline struct guarded *any_of(struct guarded *all, long count, struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return &all[count == 1 ? 0 : w->random % (uint64_t)count];
}

static SITE void take(struct worker *w)
{
	struct guarded *q = any_of(queues, shards, w);
	lock(q, &w->node);
	q->taken += (uint64_t)batch;
	turns(hold);
	unlock(q, &w->node);
}

static SITE void hand_in(struct worker *w)
{
	struct guarded *q = any_of(seconds_of, second_shards, w);
	lock(q, &w->node);
	turns(second);
	unlock(q, &w->node);
}

static SITE void work(void) { turns(think); }

static void *run(void *own)
{
	struct worker *w = own;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		take(w);
		for (long i = 0; i < batch; i++) {
			work();
			if (second)
				hand_in(w);
			atomic_fetch_add_explicit(&w->units, 1, memory_order_relaxed);
		}
	}
	return NULL;
}

static void make(struct guarded *all)
{
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	if (kind == ADAPTIVE)
		pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
	for (int i = 0; i < MOST_SHARDS; i++)
		pthread_mutex_init(&all[i].mutex, &attributes);
}

static void option(const char *text)
{
	static const struct {
		const char *name;
		long *value;
		long least, most;
	} numbers[] = { { "threads", &threads, 1, MOST_THREADS }, { "batch", &batch, 1, 1 << 20 },
			{ "shards", &shards, 1, MOST_SHARDS },	  { "hold", &hold, 0, 1 << 30 },
			{ "think", &think, 0, 1 << 30 },	  { "second", &second, 0, 1 << 30 },
			{ "second_shards", &second_shards, 1, MOST_SHARDS },
			{ "settle", &settle, 1, 1 << 20 } };
	const char *value = strchr(text, '=');
	size_t length = value ? (size_t)(value++ - text) : 0;
	for (size_t i = 0; length && i < sizeof numbers / sizeof *numbers; i++)
		if (strlen(numbers[i].name) == length && !strncmp(text, numbers[i].name, length)) {
			*numbers[i].value = atol(value);
			if (*numbers[i].value >= numbers[i].least && *numbers[i].value <= numbers[i].most)
				return;
		}
	for (int i = 0; length == 4 && !strncmp(text, "kind", 4) && i < KINDS; i++)
		if (!strcmp(value, kinds[i])) {
			kind = (enum kind)i;
			return;
		}
	if (length == 7 && !strncmp(text, "seconds", 7) && (seconds = atof(value)) > 0)
		return;
	fprintf(stderr, "convoy: %s? See the head of convoy.c\n", text);
	exit(2);
}

static uint64_t units(void)
{
	uint64_t sum = 0;
	for (long i = 0; i < threads; i++)
		sum += atomic_load_explicit(&workers[i].units, memory_order_relaxed);
	return sum;
}

int main(int count, char **arguments)
{
	for (int i = 1; i < count; i++)
		option(arguments[i]);
	make(queues);
	make(seconds_of);
	for (long i = 0; i < threads; i++) {
		workers[i].random = 88172645463325252u + (uint64_t)i * 2654435761u;
		pthread_create(&workers[i].thread, NULL, run, &workers[i]);
	}
	/* Threads start one after the other: that is not what is told. */
	sleep_ns((uint64_t)settle * NS_PER_MS);
	uint64_t begin = now_ns(), before = units(), cpu = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	sleep_ns((uint64_t)(seconds * NS_PER_SECOND));
	uint64_t done = units() - before, lasted = now_ns() - begin;
	cpu = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	stop = true;
	printf("{\"threads\":%ld,\"batch\":%ld,\"kind\":\"%s\",\"shards\":%ld,\"units\":%" PRIu64
	       ",\"units_per_s\":%.1f,\"cpu_per_unit_ns\":%.1f}\n",
	       threads, batch, kinds[kind], shards, done, (double)done * 1e9 / (double)lasted,
	       (double)cpu / (double)(done ? done : 1));
	return 0;
}
