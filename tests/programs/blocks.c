/*
 * blocks: threads that wait for each other in a known order. `blocks turns ROUNDS`: in each round one thread takes
 * a mutex, two others come and wait for it, one after the other, and hold it for a while each; a fourth one comes
 * meanwhile and gives up. `blocks long ROUNDS`: the same, and the second holds it for 6 s. `blocks readers ROUNDS`: one has a read-write lock for writing, two come to read and do so
 * beside each other, a fourth one comes then to write. `blocks reborn ROUNDS`: in each round the same memory is
 * another lock, mutex or read-write lock, which one thread has, a second one wants, and a third one in vain.
 * `blocks spins ROUNDS`: in each round one has a spin lock and two spin for it. `blocks gates ROUNDS`: four come to a
 * barrier, one after the other. `blocks units ROUNDS`: two wait for a semaphore, which is raised twice, and one gives
 * up. `blocks heap ROUNDS`: turns with a mutex that `make_lock` made, `blocks copied ROUNDS` with one that nobody
 * made by a call. `blocks conditions ROUNDS`: one waits for a condition and one in vain, and both find their mutex taken after it.
 * `blocks late ROUNDS`: one waits for a condition from before the first command on, and finds its mutex taken after it.
 * `blocks quiet ROUNDS`: everything that can be done with locks without waiting for one.
 * `blocks storm THREADS EVERY [KIND] PAIRS`: threads that take one mutex, all at once,
 * and let another run every EVERYth time; KIND is recursive, checking, robust or inherit. `blocks reads ROUNDS`: in each round one thread takes the mutex and reads
 * from an empty pipe while another waits for the mutex; `blocks inverted ROUNDS`: the same, the first with nice 19. On
 * `r` it does so and prints, in ns of
 * CLOCK_BOOTTIME where it is a time, what happened; `q` ends it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000, FIRST_HOLD = 6 * MS, SECOND_HOLD = 3 * MS, THIRD_HOLD = 2 * MS, PATIENCE = 2 * MS, MOST = 16, MOST_SPANS = 4096 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static atomic_int stage, reading;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static unsigned long rounds, every = 1, second_hold = SECOND_HOLD;

/* Of one thread: its waits, what of them it acquired the mutex after, and how long it held it then. */
static struct {
	int tid;
	struct spans {
		unsigned long count, sum, all[MOST_SPANS];
	} waits, holds;
} facts[MOST];

static unsigned long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (unsigned long)t.tv_sec * 1000000000 + (unsigned long)t.tv_nsec;
}

static void pass_time(unsigned long ns)
{
	struct timespec t = { (long)(ns / 1000000000), (long)(ns % 1000000000) };
	nanosleep(&t, NULL);
}

static void wait_for(int wanted)
{
	while (stage < wanted)
		pass_time(50000);
}

static void add(struct spans *spans, unsigned long ns)
{
	if (spans->count == MOST_SPANS)
		abort();
	spans->all[spans->count++] = ns;
	spans->sum += ns;
}

static int by_length(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;
	return (x > y) - (x < y);
}

/* Prints the sum and all of them, the shortest first. */
static void print_spans(const char *sum, const char *all, struct spans *spans)
{
	qsort(spans->all, spans->count, sizeof *spans->all, by_length);
	printf(",\"%s\":%lu,\"%s\":[", sum, spans->sum, all);
	for (unsigned long i = 0; i < spans->count; i++)
		printf("%s%lu", i ? "," : "", spans->all[i]);
	printf("]");
}

static void waited(size_t me, unsigned long from)
{
	add(&facts[me].waits, now() - from);
}

static void hold(size_t me, unsigned long ns)
{
	unsigned long from = now();
	pass_time(ns);
	add(&facts[me].holds, now() - from);
}

/* Until when it is worth waiting: so many times the usual. */
static struct timespec patience(long times)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += times * PATIENCE;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	return until;
}

static pthread_mutex_t *in_turn = &mutex;

/* Stage 1: 0 has the mutex; 2: 1 is about to want it; 3: 2 is; 4: 3 is; 5: 3 has given up, 0 may let go. */
static void turn(size_t me)
{
	unsigned long from;
	switch (me) {
	case 0:
		pthread_mutex_lock(in_turn);
		stage = 1;
		wait_for(5);
		hold(me, FIRST_HOLD);
		pthread_mutex_unlock(in_turn);
		break;
	case 3: {
		wait_for(3);
		pass_time(MS);
		struct timespec until = patience(1);
		stage = 4;
		from = now();
		if (pthread_mutex_timedlock(in_turn, &until) != ETIMEDOUT)
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
		pthread_mutex_lock(in_turn);
		waited(me, from);
		hold(me, me == 1 ? second_hold : THIRD_HOLD);
		pthread_mutex_unlock(in_turn);
	}
}

/* Stage 1: 0 writes; 2: 1 is about to want to read; 3: 2 is, 0 may let go. 3 comes when both read. */
static void turn_to_read(size_t me)
{
	unsigned long from;
	switch (me) {
	case 0:
		pthread_rwlock_wrlock(&shared);
		stage = 1;
		wait_for(3);
		hold(me, FIRST_HOLD);
		pthread_rwlock_unlock(&shared);
		break;
	case 3:
		while (reading < 2)
			pass_time(50000);
		pass_time(MS);
		from = now();
		pthread_rwlock_wrlock(&shared);
		waited(me, from);
		hold(me, THIRD_HOLD);
		reading = 0;
		pthread_rwlock_unlock(&shared);
		break;
	default:
		wait_for((int)me);
		if (me == 2)
			pass_time(MS);
		stage = (int)me + 1;
		from = now();
		pthread_rwlock_rdlock(&shared);
		waited(me, from);
		/* The second one reads within reading. */
		if (me == 2)
			pthread_rwlock_rdlock(&shared);
		reading++;
		hold(me, SECOND_HOLD);
		if (me == 2) {
			pthread_rwlock_unlock(&shared);
			hold(me, SECOND_HOLD);
		}
		pthread_rwlock_unlock(&shared);
	}
}

static pthread_spinlock_t spin;

/* Stages as for readers. */
static void turn_to_spin(size_t me)
{
	unsigned long from;
	if (me == 3)
		return;
	wait_for((int)me);
	if (me == 0) {
		pthread_spin_lock(&spin);
		stage = 1;
		wait_for(3);
		hold(me, FIRST_HOLD);
	} else {
		if (me == 2)
			pass_time(MS);
		stage = (int)me + 1;
		from = now();
		pthread_spin_lock(&spin);
		waited(me, from);
		hold(me, me == 1 ? SECOND_HOLD : THIRD_HOLD);
	}
	pthread_spin_unlock(&spin);
}

static pthread_barrier_t gate;

/* Who comes last does not wait: glibc says who that is. */
static void turn_at_a_gate(size_t me)
{
	pass_time(MS + me * SECOND_HOLD);
	unsigned long from = now();
	int result = pthread_barrier_wait(&gate);
#ifdef __GLIBC__
	if (result == PTHREAD_BARRIER_SERIAL_THREAD)
		return;
#endif
	if (result != 0 && result != PTHREAD_BARRIER_SERIAL_THREAD)
		abort();
	waited(me, from);
}

static sem_t units;

/* Stage 1: 1 is about to want one; 2: 2 is; 3: 3 has given up. */
static void turn_with_units(size_t me)
{
	unsigned long from;
	switch (me) {
	case 0:
		wait_for(3);
		pass_time(FIRST_HOLD);
		sem_post(&units);
		pass_time(SECOND_HOLD);
		sem_post(&units);
		break;
	case 3: {
		wait_for(2);
		struct timespec until = patience(1);
		from = now();
		if (sem_timedwait(&units, &until) == 0 || errno != ETIMEDOUT)
			abort();
		waited(me, from);
		stage = 3;
		break;
	}
	default:
		wait_for((int)me - 1);
		stage = (int)me;
		from = now();
		if (sem_wait(&units) != 0)
			abort();
		waited(me, from);
	}
}

static pthread_cond_t news = PTHREAD_COND_INITIALIZER, no_news = PTHREAD_COND_INITIALIZER;
static atomic_ulong told;

/* Stage 1: 1 waits for news; 2: 2 does, in vain; then 0 has the mutex until both want it back. */
static void turn_with_news(size_t me)
{
	enum { LONG_HOLD = 40 * MS, TIMES = 8 };
	if (me == 3)
		return;
	wait_for(me == 0 ? 2 : (int)me - 1);
	/* Nobody waits for it yet, however late the others go to sleep. */
	while (pthread_mutex_trylock(&mutex) != 0)
		pass_time(50000);
	if (me == 0) {
		told = now();
		pthread_cond_signal(&news);
		hold(me, LONG_HOLD);
	} else if (me == 1) {
		stage = 1;
		told = 0;
		while (told == 0)
			pthread_cond_wait(&news, &mutex);
		waited(me, told);
		hold(me, SECOND_HOLD);
	} else {
		stage = 2;
		struct timespec until = patience(TIMES);
		unsigned long from = now() + TIMES * PATIENCE;
		if (pthread_cond_timedwait(&no_news, &mutex, &until) != ETIMEDOUT)
			abort();
		waited(me, from);
		hold(me, THIRD_HOLD);
	}
	pthread_mutex_unlock(&mutex);
}

static pthread_mutex_t *late;
static pthread_t late_thread;

static void *wait_for_late_news(void *unused)
{
	pthread_mutex_lock(late);
	stage = 1;
	while (told == 0)
		pthread_cond_wait(&news, late);
	pthread_mutex_unlock(late);
	return unused;
}

static void begin_to_wait(void)
{
	/* Zeroes are a mutex, which no call has made. */
	late = calloc(1, sizeof *late);
	pthread_create(&late_thread, NULL, wait_for_late_news, NULL);
	wait_for(1);
}

static void tell_late(void)
{
	pthread_mutex_lock(late);
	told = now();
	pthread_cond_signal(&news);
	hold(0, FIRST_HOLD);
	pthread_mutex_unlock(late);
	pthread_join(late_thread, NULL);
	printf("{\"lock\":\"%p\"}\n", (void *)late);
}

/* The same memory as one lock after the other. */
static union {
	pthread_mutex_t mutex;
	pthread_rwlock_t shared;
} memory;
static unsigned long generation;

static bool is_mutex(void)
{
	return generation % 3 != 2;
}

static void begin_life(void)
{
	pthread_mutexattr_t attributes;
	memset(&memory, 0, sizeof memory);
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, generation % 3 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
	if (is_mutex())
		pthread_mutex_init(&memory.mutex, &attributes);
	else
		pthread_rwlock_init(&memory.shared, NULL);
}

static void end_life(void)
{
	if (is_mutex() ? pthread_mutex_destroy(&memory.mutex) : pthread_rwlock_destroy(&memory.shared))
		abort();
}

static void release(void)
{
	if (is_mutex() ? pthread_mutex_unlock(&memory.mutex) : pthread_rwlock_unlock(&memory.shared))
		abort();
}

/* Stage 1: one has it; 2: another is about to want it; 3: the third has given up. They change places. */
static void turn_in_a_life(size_t me)
{
	unsigned long from;
	size_t part = (me + generation) % 3;
	if (me == 3)
		return;
	if (part == 0) {
		if (is_mutex() ? pthread_mutex_lock(&memory.mutex) : pthread_rwlock_wrlock(&memory.shared))
			abort();
		stage = 1;
		wait_for(3);
		hold(me, THIRD_HOLD);
		release();
	} else if (part == 1) {
		wait_for(1);
		stage = 2;
		from = now();
		if (is_mutex() ? pthread_mutex_lock(&memory.mutex) : pthread_rwlock_wrlock(&memory.shared))
			abort();
		waited(me, from);
		hold(me, THIRD_HOLD);
		release();
	} else {
		wait_for(2);
		struct timespec until = patience(1);
		from = now();
		if ((is_mutex() ? pthread_mutex_timedlock(&memory.mutex, &until) :
				  pthread_rwlock_timedwrlock(&memory.shared, &until)) != ETIMEDOUT)
			abort();
		waited(me, from);
		stage = 3;
	}
}

static void (*turn_of)(size_t);

static void *take_turns(void *number)
{
	size_t me = (size_t)number;
	facts[me].tid = gettid();
	for (unsigned long i = 0; i < rounds; i++) {
		if (me == 0 && turn_of == turn_in_a_life)
			begin_life();
		pthread_barrier_wait(&barrier);
		turn_of(me);
		pthread_barrier_wait(&barrier);
		if (me == 0) {
			stage = 0;
			if (turn_of == turn_in_a_life)
				end_life();
			generation++;
		}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void turns(void (*one)(size_t), void *lock)
{
	pthread_t threads[4];
	turn_of = one;
	pthread_barrier_init(&barrier, NULL, 4);
	for (size_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, take_turns, (void *)i);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("{\"lock\":\"%p\",\"threads\":[", lock);
	for (size_t i = 0; i < 4; i++) {
		printf("%s{\"tid\":%d,\"waits\":%lu", i ? "," : "", facts[i].tid, facts[i].waits.count);
		print_spans("waited", "each_wait", &facts[i].waits);
		print_spans("held", "each_hold", &facts[i].holds);
		printf("}");
	}
	printf("]}\n");
}

__attribute__((noinline)) static pthread_mutex_t *make_lock(bool by_call)
{
	static const pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_t *made = malloc(sizeof *made);
	if (!by_call)
		*made = plain;
	else if (pthread_mutex_init(made, NULL) != 0)
		abort();
	return made;
}

/* One is made and destroyed before, at the same place. */
static void turns_in_heap(bool by_call)
{
	pthread_mutex_t *before = make_lock(true);
	if (pthread_mutex_destroy(before) != 0)
		abort();
	free(before);
	in_turn = make_lock(by_call);
	if (in_turn != before)
		abort();
	turns(turn, in_turn);
}

static void quiet(void)
{
	static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
#ifndef __GLIBC__
	enum { PTHREAD_MUTEX_ADAPTIVE_NP = PTHREAD_MUTEX_NORMAL };
#endif
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
		pthread_rwlock_rdlock(&shared);
		pthread_rwlock_rdlock(&shared);
		pthread_rwlock_unlock(&shared);
		pthread_rwlock_unlock(&shared);
		pthread_rwlock_wrlock(&shared);
		pthread_rwlock_unlock(&shared);
		pthread_spin_lock(&spin);
		pthread_spin_unlock(&spin);
		if (sem_post(&units) != 0 || sem_wait(&units) != 0)
			abort();
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

/* Makes it another one than a normal mutex. */
static void make_mutex(const char *kind)
{
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	if (strcmp(kind, "recursive") == 0)
		pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	else if (strcmp(kind, "checking") == 0)
		pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
	else if (strcmp(kind, "robust") == 0)
		pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	else if (strcmp(kind, "inherit") != 0 ||
		 pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) != 0)
		abort();
	pthread_mutex_init(&mutex, &attributes);
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
	printf("{\"lock\":\"%p\",\"read_ns\":%lu,\"waited\":%lu}\n", (void *)&mutex, read_ns, facts[0].waits.sum);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	rounds = strtoul(argv[argc - 1], NULL, 10);
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	pthread_barrier_init(&gate, NULL, 4);
	sem_init(&units, 0, 0);
	if (strcmp(argv[1], "late") == 0)
		begin_to_wait();
	printf("{}\n");
	for (int command; (command = getchar()) != EOF && command != 'q';) {
		if (command != 'r')
			continue;
		if (strcmp(argv[1], "turns") == 0)
			turns(turn, &mutex);
		else if (strcmp(argv[1], "long") == 0)
			second_hold = 6000ul * MS, turns(turn, &mutex);
		else if (strcmp(argv[1], "readers") == 0)
			turns(turn_to_read, &shared);
		else if (strcmp(argv[1], "reborn") == 0)
			turns(turn_in_a_life, &memory);
		else if (strcmp(argv[1], "spins") == 0)
			turns(turn_to_spin, (void *)&spin);
		else if (strcmp(argv[1], "gates") == 0)
			turns(turn_at_a_gate, &gate);
		else if (strcmp(argv[1], "units") == 0)
			turns(turn_with_units, &units);
		else if (strcmp(argv[1], "conditions") == 0)
			turns(turn_with_news, &mutex);
		else if (strcmp(argv[1], "late") == 0)
			tell_late();
		else if (strcmp(argv[1], "heap") == 0)
			turns_in_heap(true);
		else if (strcmp(argv[1], "copied") == 0)
			turns_in_heap(false);
		else if (strcmp(argv[1], "quiet") == 0)
			quiet();
		else if (strcmp(argv[1], "reads") == 0)
			reads();
		else if (strcmp(argv[1], "inverted") == 0)
			niceness = 19, reads();
		else if (argc > 4) {
			if (argc > 5)
				make_mutex(argv[4]);
			every = strtoul(argv[3], NULL, 10);
			storm(strtoul(argv[2], NULL, 10) % MOST);
		}
	}
	printf("{\"ok\":true}\n");
	return 0;
}
