/*
 * iolock - the worst customer of a profiler: 4 threads that do little else than hand over.
 *
 * What it does: one pair hands a token to and fro through two pipes, the other through a mutex and
 * two condition variables. All four share one processor, so every handover is a context switch, and
 * each computes a little before it replies: by default about 65 000 switches a second.
 *
 * Its true answer (one JSON line): round trips of each pair, switches, CPU seconds (getrusage), and
 * round trips per CPU-second, which is the figure to compare with and without a profiler. The work
 * per handover is a fixed number of steps, so runs are comparable.
 *
 * Usage: iolock [SECONDS=2] [STEPS=9500] [CPU=last]
 */
#include "truth.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static long steps = 9500;
static atomic_bool stop;
static volatile uint64_t sink;

SITE static void work(void)
{
	uint64_t x = 88172645463325252ull;
	for (long i = 0; i < steps; i++)
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	sink = x;
}

struct pipe_pair {
	int ask[2], reply[2];
	long round_trips;
};

SITE static void *pipe_asker(void *arg)
{
	struct pipe_pair *p = arg;
	char token = 0;
	prctl(PR_SET_NAME, "pipe-asker");
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		work();
		if (write(p->ask[1], &token, 1) != 1 || read(p->reply[0], &token, 1) != 1)
			die("pipe");
		p->round_trips++;
	}
	close(p->ask[1]);
	return NULL;
}

SITE static void *pipe_answerer(void *arg)
{
	struct pipe_pair *p = arg;
	char token;
	prctl(PR_SET_NAME, "pipe-answerer");
	while (read(p->ask[0], &token, 1) == 1) {
		work();
		if (write(p->reply[1], &token, 1) != 1)
			die("pipe");
	}
	return NULL;
}

struct lock_pair {
	pthread_mutex_t mutex;
	pthread_cond_t turn_changed[2];
	int turn; /* guarded by mutex; 2: the end */
	long round_trips;
};

/* Waits until it is `me`'s turn; false at the end. */
SITE static bool take_turn(struct lock_pair *p, int me)
{
	pthread_mutex_lock(&p->mutex);
	while (p->turn != me && p->turn != 2)
		pthread_cond_wait(&p->turn_changed[me], &p->mutex);
	bool mine = p->turn == me;
	pthread_mutex_unlock(&p->mutex);
	return mine;
}

SITE static void give_turn(struct lock_pair *p, int to)
{
	pthread_mutex_lock(&p->mutex);
	p->turn = to;
	pthread_mutex_unlock(&p->mutex);
	pthread_cond_signal(&p->turn_changed[to & 1]);
	KEEP_FRAME();
}

SITE static void *lock_asker(void *arg)
{
	struct lock_pair *p = arg;
	prctl(PR_SET_NAME, "lock-asker");
	while (take_turn(p, 0)) {
		work();
		p->round_trips++;
		if (atomic_load_explicit(&stop, memory_order_relaxed))
			break;
		give_turn(p, 1);
	}
	pthread_mutex_lock(&p->mutex);
	p->turn = 2;
	pthread_mutex_unlock(&p->mutex);
	pthread_cond_signal(&p->turn_changed[1]);
	return NULL;
}

SITE static void *lock_answerer(void *arg)
{
	struct lock_pair *p = arg;
	prctl(PR_SET_NAME, "lock-answerer");
	while (take_turn(p, 1)) {
		work();
		give_turn(p, 0);
	}
	return NULL;
}

static void share_processor(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		die("sched_setaffinity");
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	steps = argc > 2 ? atol(argv[2]) : steps;
	share_processor(argc > 3 ? atoi(argv[3]) : (int)sysconf(_SC_NPROCESSORS_ONLN) - 1);

	struct pipe_pair pipes = { .round_trips = 0 };
	struct lock_pair lock = { .mutex = PTHREAD_MUTEX_INITIALIZER,
				  .turn_changed = { PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER } };
	if (pipe(pipes.ask) != 0 || pipe(pipes.reply) != 0)
		die("pipe");
	uint64_t start = now_ns();
	pthread_t threads[4];
	pthread_create(&threads[0], NULL, pipe_asker, &pipes);
	pthread_create(&threads[1], NULL, pipe_answerer, &pipes);
	pthread_create(&threads[2], NULL, lock_asker, &lock);
	pthread_create(&threads[3], NULL, lock_answerer, &lock);
	sleep_ns((uint64_t)(seconds * 1e9));
	atomic_store(&stop, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);

	double wall = (double)(now_ns() - start) / 1e9;
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	double cpu = (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec
		+ (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
	long trips = pipes.round_trips + lock.round_trips;
	printf("{\"program\":\"iolock\",\"wall_s\":%.3f,\"cpu_s\":%.6f,\"pipe_round_trips\":%ld,\"lock_round_trips\":%ld,"
	       "\"round_trips_per_cpu_s\":%.1f,\"round_trips_per_s\":%.1f,\"switches_per_s\":%.0f}\n",
	       wall, cpu, pipes.round_trips, lock.round_trips, (double)trips / cpu, (double)trips / wall,
	       (double)(u.ru_nvcsw + u.ru_nivcsw) / wall);
	return 0;
}
