/*
 * locks - threads that wait for every kind of POSIX lock, each a variable of its own, and log how long
 * (see truth.h). The name of a site is `want_` and the variable waited for.
 *
 *     locks [--json FILE] [--rounds N]
 */
#include "truth.h"
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t hot_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t pi_mutex, recursive_mutex;
static pthread_rwlock_t book = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t news_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t never_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t gate;
static sem_t slot, jobs;
static int items, rounds = 150;

SITE static void want_hot_mutex(void) { pthread_mutex_lock(&hot_mutex); KEEP_FRAME(); }
SITE static void want_pi_mutex(void) { pthread_mutex_lock(&pi_mutex); KEEP_FRAME(); }
SITE static void want_recursive_mutex(void) { pthread_mutex_lock(&recursive_mutex); KEEP_FRAME(); }
SITE static void want_book_read(void) { pthread_rwlock_rdlock(&book); KEEP_FRAME(); }
SITE static void want_book_write(void) { pthread_rwlock_wrlock(&book); KEEP_FRAME(); }
SITE static void want_slot(void) { sem_wait(&slot); KEEP_FRAME(); }
SITE static void want_jobs(void) { sem_wait(&jobs); KEEP_FRAME(); }
SITE static void want_gate(void) { pthread_barrier_wait(&gate); KEEP_FRAME(); }
SITE static void want_news_mutex(void) { pthread_mutex_lock(&news_mutex); KEEP_FRAME(); }
SITE static void want_news(void) { pthread_cond_wait(&news, &news_mutex); KEEP_FRAME(); }
SITE static void want_never(void)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 3 * NS_PER_MS;
	if (until.tv_nsec >= (long)NS_PER_SECOND) {
		until.tv_sec++;
		until.tv_nsec -= NS_PER_SECOND;
	}
	pthread_cond_timedwait(&never, &never_mutex, &until);
	KEEP_FRAME();
}
SITE static void hold(uint64_t ns) { sleep_ns(ns); KEEP_FRAME(); }

/* Waits by calling `wait`, and logs it. */
#define LOGGED(t, site, wait) \
	do { \
		struct wait_stamp before = truth_before(t, site); \
		wait; \
		truth_after(t, site, before); \
	} while (0)

static void take_turns(struct thread_truth *t, const char *function, void (*want)(void), void (*give)(void), uint64_t ns)
{
	int wanted = truth_site(t, function, "futex", "lock", "");
	int held = truth_site(t, "hold", "clock_nanosleep", "sleep", "");
	truth_loop_begin(t);
	for (int i = 0; i < rounds; i++) {
		LOGGED(t, wanted, want());
		LOGGED(t, held, hold(ns));
		give();
		if (i % 8 == 7)
			LOGGED(t, held, hold(ns / 2));
	}
	truth_loop_end(t);
}

static void give_hot_mutex(void) { pthread_mutex_unlock(&hot_mutex); }
static void give_pi_mutex(void) { pthread_mutex_unlock(&pi_mutex); }
static void give_recursive_mutex(void) { pthread_mutex_unlock(&recursive_mutex); }
static void give_book(void) { pthread_rwlock_unlock(&book); }
static void give_slot(void) { sem_post(&slot); }
static void give_nothing(void) {}

static void hot(struct thread_truth *t) { take_turns(t, "want_hot_mutex", want_hot_mutex, give_hot_mutex, NS_PER_MS); }
static void pi(struct thread_truth *t) { take_turns(t, "want_pi_mutex", want_pi_mutex, give_pi_mutex, NS_PER_MS); }
static void recursive(struct thread_truth *t)
{
	take_turns(t, "want_recursive_mutex", want_recursive_mutex, give_recursive_mutex, 2 * NS_PER_MS);
}
static void reader(struct thread_truth *t) { take_turns(t, "want_book_read", want_book_read, give_book, NS_PER_MS); }
static void writer(struct thread_truth *t) { take_turns(t, "want_book_write", want_book_write, give_book, 2 * NS_PER_MS); }
static void slots(struct thread_truth *t) { take_turns(t, "want_slot", want_slot, give_slot, NS_PER_MS); }
static void party(struct thread_truth *t) { take_turns(t, "want_gate", want_gate, give_nothing, (uint64_t)(t->tid % 3 + 1) * NS_PER_MS); }

/* A worker and its boss: nobody holds anything. */
static void worker(struct thread_truth *t)
{
	int wanted = truth_site(t, "want_jobs", "futex", "condition", "boss");
	truth_site(t, "hold", "clock_nanosleep", "sleep", "");
	truth_loop_begin(t);
	for (int i = 0; i < rounds; i++)
		LOGGED(t, wanted, want_jobs());
	truth_loop_end(t);
}

static void boss(struct thread_truth *t)
{
	int pause = truth_site(t, "hold", "clock_nanosleep", "sleep", "");
	truth_loop_begin(t);
	for (int i = 0; i < 2 * rounds; i++) {
		LOGGED(t, pause, hold(2 * NS_PER_MS));
		sem_post(&jobs);
	}
	truth_loop_end(t);
}

static void taker(struct thread_truth *t)
{
	int wanted = truth_site(t, "want_news", "futex", "condition", "giver");
	int locked = truth_site(t, "want_news_mutex", "futex", "lock", "");
	truth_loop_begin(t);
	for (int i = 0; i < rounds; i++) {
		LOGGED(t, locked, want_news_mutex());
		while (items == 0)
			LOGGED(t, wanted, want_news());
		items--;
		pthread_mutex_unlock(&news_mutex);
	}
	truth_loop_end(t);
}

static void giver(struct thread_truth *t)
{
	int locked = truth_site(t, "want_news_mutex", "futex", "lock", "");
	int pause = truth_site(t, "hold", "clock_nanosleep", "sleep", "");
	truth_loop_begin(t);
	for (int i = 0; i < 2 * rounds; i++) {
		LOGGED(t, pause, hold(2 * NS_PER_MS));
		LOGGED(t, locked, want_news_mutex());
		items++;
		pthread_cond_signal(&news);
		pthread_mutex_unlock(&news_mutex);
	}
	truth_loop_end(t);
}

static void timer(struct thread_truth *t)
{
	int wanted = truth_site(t, "want_never", "futex", "condition", "");
	truth_site(t, "hold", "clock_nanosleep", "sleep", "");
	truth_loop_begin(t);
	pthread_mutex_lock(&never_mutex);
	for (int i = 0; i < rounds; i++)
		LOGGED(t, wanted, want_never());
	pthread_mutex_unlock(&never_mutex);
	truth_loop_end(t);
}

struct role {
	const char *name;
	void (*play)(struct thread_truth *);
	int threads;
};

static const struct role roles[] = {
	{ "hot", hot, 3 }, { "pi", pi, 2 }, { "recursive", recursive, 2 }, { "reader", reader, 2 },
	{ "writer", writer, 1 }, { "slots", slots, 2 }, { "party", party, 3 }, { "worker", worker, 2 },
	{ "boss", boss, 1 }, { "taker", taker, 2 }, { "giver", giver, 1 }, { "timer", timer, 1 },
};
#define THREADS_MAX 32
static struct thread_truth truths[THREADS_MAX];
static const struct role *played[THREADS_MAX];

static void *run(void *arg)
{
	long number = (long)arg;
	truth_thread_begin(&truths[number], played[number]->name);
	played[number]->play(&truths[number]);
	truth_thread_end(&truths[number]);
	return NULL;
}

static void make_locks(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&pi_mutex, &attr);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&recursive_mutex, &attr);
	pthread_barrier_init(&gate, NULL, 3);
	sem_init(&slot, 0, 1);
	sem_init(&jobs, 0, 0);
}

int main(int argc, char **argv)
{
	const char *json = NULL;
	pthread_t threads[THREADS_MAX];
	int count = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--json") == 0)
			json = argv[i + 1];
		else if (strcmp(argv[i], "--rounds") == 0)
			rounds = atoi(argv[i + 1]);
	}
	make_locks();
	for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
		for (int i = 0; i < roles[r].threads; i++)
			played[count++] = &roles[r];
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i) != 0)
			die("pthread_create");
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	truth_print(truth_output(json), "locks", "", truths, count);
	return 0;
}
