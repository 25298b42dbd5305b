/*
 * manythreads - a large pool, mostly idle; or threads that are born and die all the time.
 *
 * What it does: `pool`: N threads (up to 10 000) sleep in wait_for_work() on one condition variable;
 * ten of them wake every 10 ms and compute 100 us in do_work(). `storm`: spawn_and_join() keeps N
 * threads alive at once, each of which computes 50 us in short_life() and ends. `waits`: each of N threads
 * sleeps again and again, three times of four 2 ms in wait_short(), else 6 ms in wait_long().
 *
 * Its true answer (one JSON line): threads alive together, threads born in all, work items done, and
 * the processor time of the process; of the two waits how often they were and how long they took in all, from
 * outside (nanoseconds). Prints {"ready":N} first, when the pool stands.
 *
 * Usage: manythreads [pool|storm|waits] [N=1000] [SECONDS=3]
 */
#include "truth.h"
#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_there = PTHREAD_COND_INITIALIZER;
static pthread_cond_t all_ready = PTHREAD_COND_INITIALIZER;
static int ready, items;
static bool stop;
static atomic_long done;

SITE static bool wait_for_work(void)
{
	pthread_mutex_lock(&mutex);
	while (items == 0 && !stop)
		pthread_cond_wait(&work_there, &mutex);
	bool more = !stop;
	if (more)
		items--;
	pthread_mutex_unlock(&mutex);
	return more;
}

SITE static void do_work(void)
{
	spin_cpu_ns(100 * NS_PER_US);
	atomic_fetch_add(&done, 1);
}

SITE static void *pool_thread(void *arg)
{
	char name[16];
	snprintf(name, sizeof name, "pool-%ld", (long)arg);
	prctl(PR_SET_NAME, name);
	pthread_mutex_lock(&mutex);
	ready++;
	pthread_cond_signal(&all_ready);
	pthread_mutex_unlock(&mutex);
	while (wait_for_work())
		do_work();
	return NULL;
}

SITE static void *short_life(void *arg)
{
	spin_cpu_ns(50 * NS_PER_US);
	atomic_fetch_add(&done, 1);
	return arg;
}

struct waits {
	atomic_ulong n, ns;
};
static struct waits shorts, longs;
static uint64_t wait_until;

SITE static void wait_short(void) { sleep_ns(2 * NS_PER_MS); KEEP_FRAME(); }
SITE static void wait_long(void) { sleep_ns(6 * NS_PER_MS); KEEP_FRAME(); }

SITE static void *wait_often(void *arg)
{
	uint32_t random = (uint32_t)(long)arg * 2654435761u + 1;
	for (uint64_t begun = now_ns(), ended; begun < wait_until; begun = ended) {
		random = random * 1664525 + 1013904223;
		bool is_short = random >> 30;
		struct waits *waits = is_short ? &shorts : &longs;
		if (is_short)
			wait_short();
		else
			wait_long();
		ended = now_ns();
		atomic_fetch_add(&waits->n, 1);
		atomic_fetch_add(&waits->ns, ended - begun);
	}
	return arg;
}

static void start(pthread_t *thread, void *(*run)(void *), long number)
{
	static pthread_attr_t attributes;
	static bool initialized;
	if (!initialized) {
		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, 64 * 1024);
		initialized = true;
	}
	errno = pthread_create(thread, &attributes, run, (void *)number);
	if (errno != 0)
		die("pthread_create (is the limit of processes too low?)");
}

SITE static void run_pool(pthread_t *threads, int count, uint64_t duration)
{
	for (int i = 0; i < count; i++)
		start(&threads[i], pool_thread, i);
	pthread_mutex_lock(&mutex);
	while (ready < count)
		pthread_cond_wait(&all_ready, &mutex);
	pthread_mutex_unlock(&mutex);
	printf("{\"ready\":%d}\n", count);
	fflush(stdout);
	uint64_t end = now_ns() + duration;
	while (now_ns() < end) {
		sleep_ns(10 * NS_PER_MS);
		pthread_mutex_lock(&mutex);
		items += 10;
		for (int i = 0; i < 10; i++)
			pthread_cond_signal(&work_there);
		pthread_mutex_unlock(&mutex);
	}
	pthread_mutex_lock(&mutex);
	stop = true;
	pthread_cond_broadcast(&work_there);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

SITE static long spawn_and_join(pthread_t *threads, int count, uint64_t duration)
{
	long born = 0;
	uint64_t end = now_ns() + duration;
	for (int i = 0; i < count; i++, born++)
		start(&threads[i], short_life, i);
	for (int i = 0; now_ns() < end; i = (i + 1) % count, born++) {
		pthread_join(threads[i], NULL);
		start(&threads[i], short_life, i);
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return born;
}

SITE static void run_waits(pthread_t *threads, int count, uint64_t duration)
{
	wait_until = now_ns() + duration;
	for (int i = 0; i < count; i++)
		start(&threads[i], wait_often, i);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "pool";
	int count = argc > 2 ? atoi(argv[2]) : 1000;
	uint64_t duration = (uint64_t)((argc > 3 ? atof(argv[3]) : 3) * 1e9);
	bool storm = strcmp(mode, "storm") == 0, waits = strcmp(mode, "waits") == 0;
	if (count < 1 || (!storm && !waits && strcmp(mode, "pool") != 0)) {
		fprintf(stderr, "manythreads: use pool, storm or waits, and at least 1 thread\n");
		return 2;
	}
	pthread_t *threads = calloc((size_t)count, sizeof *threads);
	long born = count;
	if (storm)
		born = spawn_and_join(threads, count, duration);
	else if (waits)
		run_waits(threads, count, duration);
	else
		run_pool(threads, count, duration);
	if (waits)
		printf("{\"short\":%lu,\"short_ns\":%lu,\"long\":%lu,\"long_ns\":%lu}\n", atomic_load(&shorts.n),
		       atomic_load(&shorts.ns), atomic_load(&longs.n), atomic_load(&longs.ns));
	printf("{\"program\":\"manythreads\",\"mode\":\"%s\",\"alive\":%d,\"born\":%ld,\"done\":%ld,\"cpu_ns\":%" PRIu64 "}\n",
	       mode, count, born, atomic_load(&done), clock_read_ns(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}
