/*
 * lockcost: what a lock and an unlock cost. `lockcost THREADS LOCKS SHARED [KIND]` starts THREADS threads and one
 * that sleeps, so that libc never takes itself for single-threaded. On `m` each thread takes and gives
 * back its LOCKS locks in turn (all the same ones when SHARED is 1), 2^19 times, nine times over; on `s`,
 * 2^13 times once. It prints the median time per pair in ns, and the pairs done since it began. `q` ends.
 * KIND is mutex (what it is without one), recursive, again (a recursive mutex that its thread has all the while),
 * checking, robust, inherit, spin, read, write or semaphore.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 9, PAIRS = 1 << 19, FEW_PAIRS = 1 << 13, MOST_LOCKS = 1 << 12, MOST_THREADS = 16 };

/* As a program has them: each in an object of its own, which fills a cache line. */
struct guarded {
	union {
		pthread_mutex_t mutex;
		pthread_spinlock_t spin;
		pthread_rwlock_t rwlock;
		sem_t semaphore;
	};
	unsigned long sum;
} __attribute__((aligned(64)));

static struct guarded objects[MOST_THREADS][MOST_LOCKS];
static pthread_barrier_t begin, end;
static unsigned lock_count, pairs_now;
static int shared;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The loop of a kind of lock: nothing is chosen within it. */
#define LOOP(kind, lock, unlock)                                       \
	static void kind(struct guarded *mine)                         \
	{                                                              \
		for (unsigned i = 0; i < pairs_now; i++) {             \
			struct guarded *one = &mine[i & (lock_count - 1)]; \
			lock;                                          \
			one->sum++;                                    \
			unlock;                                        \
		}                                                      \
	}
LOOP(mutexes, pthread_mutex_lock(&one->mutex), pthread_mutex_unlock(&one->mutex))
LOOP(spins, pthread_spin_lock(&one->spin), pthread_spin_unlock(&one->spin))
LOOP(reads, pthread_rwlock_rdlock(&one->rwlock), pthread_rwlock_unlock(&one->rwlock))
LOOP(writes, pthread_rwlock_wrlock(&one->rwlock), pthread_rwlock_unlock(&one->rwlock))
LOOP(semaphores, sem_wait(&one->semaphore), sem_post(&one->semaphore))

static const struct {
	const char *name;
	void (*loop)(struct guarded *mine);
} kinds[] = {
	{ "mutex", mutexes }, { "recursive", mutexes }, { "again", mutexes }, { "checking", mutexes },
	{ "robust", mutexes }, { "inherit", mutexes }, { "spin", spins },
	{ "read", reads }, { "write", writes }, { "semaphore", semaphores },
};
enum { MUTEX, RECURSIVE, AGAIN, CHECKING, ROBUST, INHERIT, SPIN, READ, WRITE, SEMAPHORE };
static size_t kind;

static void make(struct guarded *one)
{
	pthread_mutexattr_t attributes;
	switch (kind) {
	case RECURSIVE:
	case AGAIN:
	case CHECKING:
	case ROBUST:
	case INHERIT:
		pthread_mutexattr_init(&attributes);
		if (kind == RECURSIVE || kind == AGAIN)
			pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
		if (kind == CHECKING)
			pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
		if (kind == ROBUST)
			pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
		if (kind == INHERIT)
			pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
		pthread_mutex_init(&one->mutex, &attributes);
		break;
	case SPIN:
		pthread_spin_init(&one->spin, PTHREAD_PROCESS_PRIVATE);
		break;
	case SEMAPHORE:
		sem_init(&one->semaphore, 0, 1);
		break;
	default: /* zero will do */
		break;
	}
}

static void *worker(void *number)
{
	struct guarded *mine = objects[shared ? 0 : (size_t)number];
	for (unsigned i = 0; kind == AGAIN && i < lock_count; i++)
		pthread_mutex_lock(&mine[i].mutex);
	for (;;) {
		pthread_barrier_wait(&begin);
		kinds[kind].loop(mine);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void *sleeper(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	lock_count = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	shared = argc > 3 && atoi(argv[3]);
	size_t known = sizeof kinds / sizeof *kinds;
	while (argc > 4 && kind < known && strcmp(argv[4], kinds[kind].name) != 0)
		kind++;
	if (threads > MOST_THREADS || lock_count > MOST_LOCKS || (lock_count & (lock_count - 1)) || kind == known)
		return 2;
	for (unsigned t = 0; t < MOST_THREADS; t++)
		for (unsigned i = 0; i < MOST_LOCKS; i++)
			make(&objects[t][i]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	pthread_barrier_init(&begin, NULL, threads + 1);
	pthread_barrier_init(&end, NULL, threads + 1);
	pthread_t thread;
	if (pthread_create(&thread, NULL, sleeper, NULL) != 0)
		return 1;
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, worker, (void *)i) != 0)
			return 1;
	printf("{\"ready\":true}\n");
	unsigned long pairs = 0;
	for (int command; (command = getchar()) != EOF && command != 'q';) {
		double took[ROUNDS];
		int rounds = command == 's' ? 1 : ROUNDS;
		pairs_now = command == 's' ? FEW_PAIRS : PAIRS;
		for (int i = 0; i < rounds; i++) {
			double from = now();
			pthread_barrier_wait(&begin);
			pthread_barrier_wait(&end);
			took[i] = now() - from;
			pairs += (unsigned long)threads * pairs_now;
		}
		qsort(took, (size_t)rounds, sizeof *took, by_size);
		printf("{\"ns\":%.3f,\"pairs\":%lu}\n", took[rounds / 2] / pairs_now, pairs);
	}
	unsigned long sum = 0;
	for (unsigned t = 0; t < MOST_THREADS; t++)
		for (unsigned i = 0; i < MOST_LOCKS; i++)
			sum += objects[t][i].sum;
	printf("{\"ok\":%s}\n", sum == pairs ? "true" : "false");
	return 0;
}
