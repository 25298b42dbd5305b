/*
 * blocks: threads that wait for each other in a known order. `blocks turns ROUNDS`: in each round one thread takes
 * a mutex, two others come and wait for it, one after the other, and hold it for a while each; a fourth one comes
 * meanwhile and gives up. `blocks quiet ROUNDS`: everything that can be done with mutexes without waiting for one.
 * `blocks storm THREADS EVERY PAIRS`: threads that take one mutex, all at once,
 * and let another run every EVERYth time. `blocks reads ROUNDS`: in each round one thread takes the mutex and reads
 * from an empty pipe while another waits for the mutex; `blocks inverted ROUNDS`: the same, the first with nice 19. On
 * `r` it does so and prints, in ns of
 * CLOCK_BOOTTIME where it is a time, what happened; `q` ends it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000, FIRST_HOLD = 6 * MS, SECOND_HOLD = 3 * MS, THIRD_HOLD = 2 * MS, PATIENCE = 2 * MS, MOST = 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static atomic_int stage;
static unsigned long rounds, every = 1;

/* Of one thread: its waits, what of them it acquired the mutex after, and how long it held it then. */
static struct {
	int tid;
	unsigned long waits, waited, longest_wait, held, longest_hold;
} facts[MOST];

static unsigned long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (unsigned long)t.tv_sec * 1000000000 + (unsigned long)t.tv_nsec;
}

static void pass_time(unsigned long ns)
{
	struct timespec t = { 0, (long)ns };
	nanosleep(&t, NULL);
}

static void wait_for(int wanted)
{
	while (stage < wanted)
		pass_time(50000);
}

static void waited(size_t me, unsigned long from)
{
	unsigned long ns = now() - from;
	facts[me].waits++;
	facts[me].waited += ns;
	if (ns > facts[me].longest_wait)
		facts[me].longest_wait = ns;
}

static void hold(size_t me, unsigned long ns)
{
	unsigned long from = now();
	pass_time(ns);
	ns = now() - from;
	facts[me].held += ns;
	if (ns > facts[me].longest_hold)
		facts[me].longest_hold = ns;
}

/* Stage 1: 0 has the mutex; 2: 1 is about to want it; 3: 2 is; 4: 3 is; 5: 3 has given up, 0 may let go. */
static void turn(size_t me)
{
	unsigned long from;
	switch (me) {
	case 0:
		pthread_mutex_lock(&mutex);
		stage = 1;
		wait_for(5);
		hold(me, FIRST_HOLD);
		pthread_mutex_unlock(&mutex);
		break;
	case 3: {
		wait_for(3);
		pass_time(MS);
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += PATIENCE;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		stage = 4;
		from = now();
		if (pthread_mutex_timedlock(&mutex, &until) != ETIMEDOUT)
			abort();
		waited(me, from);
		stage = 5;
		break;
	}
	default:
		wait_for((int)me);
		if (me == 2)
			pass_time(MS);
		stage = (int)me + 1;
		from = now();
		pthread_mutex_lock(&mutex);
		waited(me, from);
		hold(me, me == 1 ? SECOND_HOLD : THIRD_HOLD);
		pthread_mutex_unlock(&mutex);
	}
}

static void *take_turns(void *number)
{
	size_t me = (size_t)number;
	facts[me].tid = gettid();
	for (unsigned long i = 0; i < rounds; i++) {
		pthread_barrier_wait(&barrier);
		turn(me);
		pthread_barrier_wait(&barrier);
		if (me == 0)
			stage = 0;
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void turns(void)
{
	pthread_t threads[4];
	pthread_barrier_init(&barrier, NULL, 4);
	for (size_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, take_turns, (void *)i);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("{\"lock\":\"%p\",\"threads\":[", (void *)&mutex);
	for (size_t i = 0; i < 4; i++)
		printf("%s{\"tid\":%d,\"waits\":%lu,\"waited\":%lu,\"longest_wait\":%lu,\"held\":%lu,\"longest_hold\":%lu}",
		       i ? "," : "", facts[i].tid, facts[i].waits, facts[i].waited, facts[i].longest_wait, facts[i].held,
		       facts[i].longest_hold);
	printf("]}\n");
}

static void quiet(void)
{
	static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	const int types[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
			      PTHREAD_MUTEX_ADAPTIVE_NP };
	pthread_mutex_t kinds[8];
	for (int i = 0; i < 8; i++) {
		pthread_mutexattr_t attributes;
		pthread_mutexattr_init(&attributes);
		pthread_mutexattr_settype(&attributes, types[i % 4]);
		if (i >= 4)
			pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
		pthread_mutex_init(&kinds[i], &attributes);
	}
	for (unsigned long i = 0; i < rounds; i++) {
		pthread_mutex_t *one = &kinds[i % 8];
		pthread_mutex_lock(one);
		if (i % 4 == 1) {
			pthread_mutex_lock(one);
			pthread_mutex_unlock(one);
		}
		pthread_mutex_unlock(one);
		if (i % 4 == 2 && pthread_mutex_unlock(one) != EPERM)
			abort();
		if (pthread_mutex_trylock(one) != 0)
			abort();
		pthread_mutex_unlock(one);
		if (i % 1000 == 0) {
			struct timespec soon;
			clock_gettime(CLOCK_REALTIME, &soon);
			pthread_mutex_lock(&mutex);
			while (pthread_cond_timedwait(&condition, &mutex, &soon) != ETIMEDOUT)
				;
			pthread_mutex_unlock(&mutex);
		}
	}
	printf("{}\n");
}

static void *storm_thread(void *sum)
{
	pthread_barrier_wait(&barrier);
	for (unsigned long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&mutex);
		++*(volatile unsigned long *)sum;
		if (i % every == 0)
			sched_yield();
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void storm(size_t count)
{
	unsigned long sum = 0;
	pthread_t threads[MOST];
	pthread_barrier_init(&barrier, NULL, (unsigned)count);
	for (size_t i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, storm_thread, &sum);
	for (size_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("{\"lock\":\"%p\",\"acquired\":%lu}\n", (void *)&mutex, sum);
}

static int ends[2];
static unsigned long read_ns;

__attribute__((noipa)) static void read_while_holding(void)
{
	char byte;
	unsigned long from = now();
	if (read(ends[0], &byte, 1) != 1)
		abort();
	read_ns += now() - from;
}

static int niceness;

static void *read_and_hold(void *unused)
{
	if (setpriority(PRIO_PROCESS, (id_t)gettid(), niceness) != 0)
		abort();
	for (unsigned long i = 0; i < rounds; i++) {
		pthread_barrier_wait(&barrier);
		pthread_mutex_lock(&mutex);
		stage = 1;
		read_while_holding();
		pthread_mutex_unlock(&mutex);
		pthread_barrier_wait(&barrier);
	}
	return unused;
}

static void *want_and_leave(void *unused)
{
	for (unsigned long i = 0; i < rounds; i++) {
		pthread_barrier_wait(&barrier);
		wait_for(1);
		unsigned long from = now();
		pthread_mutex_lock(&mutex);
		waited(0, from);
		pthread_mutex_unlock(&mutex);
		pthread_barrier_wait(&barrier);
	}
	return unused;
}

static void reads(void)
{
	pthread_t reader, waiter;
	if (pipe(ends) != 0)
		abort();
	pthread_barrier_init(&barrier, NULL, 3);
	pthread_create(&reader, NULL, read_and_hold, NULL);
	pthread_create(&waiter, NULL, want_and_leave, NULL);
	for (unsigned long i = 0; i < rounds; i++) {
		stage = 0;
		pthread_barrier_wait(&barrier);
		wait_for(1);
		pass_time(FIRST_HOLD);
		if (write(ends[1], "", 1) != 1)
			abort();
		pthread_barrier_wait(&barrier);
	}
	pthread_join(reader, NULL);
	pthread_join(waiter, NULL);
	printf("{\"lock\":\"%p\",\"read_ns\":%lu,\"waited\":%lu}\n", (void *)&mutex, read_ns, facts[0].waited);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	rounds = strtoul(argv[argc - 1], NULL, 10);
	printf("{}\n");
	for (int command; (command = getchar()) != EOF && command != 'q';) {
		if (command != 'r')
			continue;
		if (strcmp(argv[1], "turns") == 0)
			turns();
		else if (strcmp(argv[1], "quiet") == 0)
			quiet();
		else if (strcmp(argv[1], "reads") == 0)
			reads();
		else if (strcmp(argv[1], "inverted") == 0)
			niceness = 19, reads();
		else if (argc > 4)
			every = strtoul(argv[3], NULL, 10), storm(strtoul(argv[2], NULL, 10) % MOST);
	}
	printf("{\"ok\":true}\n");
	return 0;
}
