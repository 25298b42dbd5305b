/*
 * chain - a wait whose cause is three threads away.
 *
 * What it does: `chain-a` waits on a condition variable that `chain-b` signals; `chain-b` reads a
 * pipe that `chain-c` writes; `chain-c` wants a mutex that `chain-d` holds while it sleeps 20 ms in
 * root_cause(). Each passes on at once when its own wait ends; rounds start together.
 *
 * Its true answer (JSON): the waits of each thread and the thread that ends them. Each of a_waits_for_b,
 * b_waits_for_c and c_waits_for_d lasts about 20 ms a round, woken by the next thread; the chain of
 * a's wait is a < b < c < d, and its root is root_cause(), a sleep ended by a timer.
 *
 * Usage: chain [ROUNDS=100] [JSON-FILE]
 */
#include "truth.h"
#include <pthread.h>

enum { LINKS = 4 };

static long rounds = 100;
static pthread_barrier_t round_start, d_holds;
static pthread_mutex_t a_mutex = PTHREAD_MUTEX_INITIALIZER, d_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t a_cond = PTHREAD_COND_INITIALIZER;
static long a_round; /* guarded by a_mutex */
static int c_to_b[2];
static struct thread_truth truths[LINKS];

SITE static void a_waits_for_b(long round)
{
	pthread_mutex_lock(&a_mutex);
	while (a_round <= round)
		pthread_cond_wait(&a_cond, &a_mutex);
	pthread_mutex_unlock(&a_mutex);
	KEEP_FRAME();
}

SITE static void b_waits_for_c(long round)
{
	char byte;
	(void)round;
	if (read(c_to_b[0], &byte, 1) != 1)
		die("read");
}

SITE static void b_wakes_a(long round)
{
	pthread_mutex_lock(&a_mutex);
	a_round = round + 1;
	pthread_mutex_unlock(&a_mutex);
	pthread_cond_signal(&a_cond);
	KEEP_FRAME();
}

SITE static void c_waits_for_d(long round)
{
	(void)round;
	pthread_mutex_lock(&d_mutex);
	pthread_mutex_unlock(&d_mutex);
	KEEP_FRAME();
}

SITE static void c_wakes_b(long round)
{
	char byte = 0;
	(void)round;
	if (write(c_to_b[1], &byte, 1) != 1)
		die("write");
}

SITE static void root_cause(long round)
{
	(void)round;
	sleep_ns(20 * NS_PER_MS);
	KEEP_FRAME();
}

SITE static void d_wakes_c(long round)
{
	(void)round;
	pthread_mutex_unlock(&d_mutex);
	KEEP_FRAME();
}

/* The pause between two rounds, and the moment d needs to take its lock. A wait too, in every thread. */
SITE static void meet_others(bool is_d)
{
	pthread_barrier_wait(&round_start);
	if (is_d)
		pthread_mutex_lock(&d_mutex);
	pthread_barrier_wait(&d_holds);
	KEEP_FRAME();
}

static const struct chain_link {
	const char *name, *function, *syscall, *reason, *waker;
	void (*wait)(long);
	void (*wake)(long);
} chain_links[LINKS] = {
	{ "chain-a", "a_waits_for_b", "futex", "condition", "chain-b", a_waits_for_b, NULL },
	{ "chain-b", "b_waits_for_c", "read", "pipe", "chain-c", b_waits_for_c, b_wakes_a },
	{ "chain-c", "c_waits_for_d", "futex", "lock", "chain-d", c_waits_for_d, c_wakes_b },
	{ "chain-d", "root_cause", "clock_nanosleep", "sleep", "", root_cause, d_wakes_c },
};

SITE static void *run_link(void *arg)
{
	const struct chain_link *l = arg;
	int index = (int)(l - chain_links);
	struct thread_truth *t = &truths[index];
	truth_thread_begin(t, l->name);
	int wait = truth_site(t, l->function, l->syscall, l->reason, l->waker);
	int meet = truth_site(t, "meet_others", "futex", "lock", "");
	truth_loop_begin(t);
	for (long round = 0; round < rounds; round++) {
		struct wait_stamp before = truth_before(t, meet);
		meet_others(index == LINKS - 1);
		truth_after(t, meet, before);
		before = truth_before(t, wait);
		l->wait(round);
		truth_after(t, wait, before);
		if (l->wake)
			l->wake(round);
	}
	truth_loop_end(t);
	truth_thread_end(t);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[LINKS];
	rounds = argc > 1 ? atol(argv[1]) : rounds;
	pthread_barrier_init(&round_start, NULL, LINKS);
	pthread_barrier_init(&d_holds, NULL, LINKS);
	if (pipe(c_to_b) != 0)
		die("pipe");
	for (int i = 0; i < LINKS; i++)
		pthread_create(&threads[i], NULL, run_link, (void *)&chain_links[i]);
	for (int i = 0; i < LINKS; i++)
		pthread_join(threads[i], NULL);
	FILE *out = truth_output(argc > 2 ? argv[2] : NULL);
	truth_print(out, "chain", "\"root\":\"root_cause\"", truths, LINKS);
	return fflush(out) != 0;
}
