/*
 * mutexes: threads that do everything one can do with a mutex, and count what they did to each. A puppet
 * (puppet.h); its counts are for every lock "address": [acquired, nested, tries that failed, timeouts].
 * `mutexes TRACKS` takes TRACKS threads of each sort; `mutexes N PAIRS` does PAIRS pairs on 64 locks in each of N
 * threads instead, prints the same, and ends on `q`.
 */
#include "puppet.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { MOST_TRACKS = 16, OWN_LOCKS = 64, MANY_LOCKS = 3000 };

struct counted {
	pthread_mutex_t mutex;
	/* Of these only atomic additions: handlers and threads share them. */
	atomic_ulong acquired, nested, failed, timeouts;
	/* Written under the mutex. */
	unsigned long sum;
};

static struct counted own[MOST_TRACKS][OWN_LOCKS], many[MANY_LOCKS];
static struct counted shared, tried, recursive, checked, adaptive, robust, inherit, plain, between, timed,
	handler_lock, jumped, short_lived, process_lock;
static struct counted *const singles[] = { &shared,  &tried,	    &recursive, &checked,     &adaptive,
					   &robust,  &inherit,	    &plain,	&between,     &timed,
					   &jumped, &handler_lock, &short_lived, &process_lock };

/* Owners know their mutex: what libc keeps in it must be right whoever took it. */
static void check_owner(struct counted *one)
{
#ifdef __GLIBC__
	if (one->mutex.__data.__owner != gettid() || one->mutex.__data.__nusers == 0)
		wrong("the owner in a mutex");
#else
	(void)one;
#endif
}

static void acquired(struct counted *one)
{
	atomic_fetch_add_explicit(&one->acquired, 1, memory_order_relaxed);
	one->sum++;
}

static void lock(struct counted *one)
{
	if (pthread_mutex_lock(&one->mutex) != 0)
		wrong("pthread_mutex_lock");
	acquired(one);
}

static void unlock(struct counted *one)
{
	if (pthread_mutex_unlock(&one->mutex) != 0)
		wrong("pthread_mutex_unlock");
}

static bool try(struct counted *one)
{
	int result = pthread_mutex_trylock(&one->mutex);
	if (result == 0)
		acquired(one);
	else if (result == EBUSY)
		atomic_fetch_add_explicit(&one->failed, 1, memory_order_relaxed);
	else
		wrong("pthread_mutex_trylock");
	return result == 0;
}

static void *owner(void *number)
{
	struct counted *mine = own[(size_t)number];
	for (unsigned i = 0; !ending; i++) {
		if (i % 1024 == 0)
			park_if_told();
		struct counted *one = &mine[i % OWN_LOCKS];
		lock(one);
		check_owner(one);
		unlock(one);
	}
	return NULL;
}

static void *wanderer(void *number)
{
	for (size_t i = (size_t)number * 17; !ending; i++) {
		park_if_told();
		struct counted *one = &many[i % MANY_LOCKS];
		if (i % 3 != 0)
			lock(one);
		else if (!try(one))
			continue;
		unlock(one);
	}
	return NULL;
}

static void *sharer(void *unused)
{
	for (unsigned i = 0; !ending; i++) {
		park_if_told();
		lock(&shared);
		check_owner(&shared);
		if (i % 256 == 0)
			usleep(10);
		unlock(&shared);
		if (try(&tried)) {
			check_owner(&tried);
			if (i % 16 == 0)
				sched_yield();
			unlock(&tried);
		}
		lock(&adaptive);
		unlock(&adaptive);
		lock(&inherit);
		unlock(&inherit);
		lock(&between);
		unlock(&between);
	}
	return unused;
}

static void *nester(void *unused)
{
	while (!ending) {
		park_if_told();
		lock(&recursive);
		for (int i = 0; i < 3; i++) {
			if (i % 2 == 0 ? pthread_mutex_lock(&recursive.mutex) : pthread_mutex_trylock(&recursive.mutex))
				wrong("a recursive mutex");
			atomic_fetch_add(&recursive.nested, 1);
		}
		for (int i = 0; i < 4; i++)
			unlock(&recursive);
		lock(&checked);
		if (pthread_mutex_lock(&checked.mutex) != EDEADLK)
			wrong("an error-checking mutex");
		unlock(&checked);
		if (pthread_mutex_unlock(&checked.mutex) != EPERM)
			wrong("an unlock by another");
		struct timespec soon;
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += 20000;
		if (soon.tv_nsec >= 1000000000) {
			soon.tv_sec++;
			soon.tv_nsec -= 1000000000;
		}
		int result = pthread_mutex_timedlock(&timed.mutex, &soon);
		if (result == ETIMEDOUT) {
			atomic_fetch_add(&timed.timeouts, 1);
		} else if (result == 0) {
			acquired(&timed);
			usleep(60);
			unlock(&timed);
		} else {
			wrong("pthread_mutex_timedlock");
		}
	}
	return unused;
}

static void *dies_holding(void *unused)
{
	int result = pthread_mutex_lock(&robust.mutex);
	if (result == EOWNERDEAD)
		pthread_mutex_consistent(&robust.mutex);
	else if (result != 0)
		wrong("a robust mutex");
	acquired(&robust);
	lock(&short_lived);
	unlock(&short_lived);
	return unused;
}

/* Threads that live for one lock, and die with another. */
static void *parent(void *unused)
{
	while (!ending) {
		park_if_told();
		pthread_t thread;
		if (pthread_create(&thread, NULL, dies_holding, NULL) != 0)
			wrong("pthread_create");
		pthread_join(thread, NULL);
		pid_t child = fork();
		if (child == 0) {
			/* Counts in memory of its own: neither side adds. */
			for (int i = 0; i < 100; i++) {
				pthread_mutex_lock(&process_lock.mutex);
				pthread_mutex_unlock(&process_lock.mutex);
			}
			_exit(0);
		}
		if (child < 0 || waitpid(child, NULL, 0) != child)
			wrong("fork");
		lock(&process_lock);
		child = vfork();
		if (child == 0)
			_exit(0);
		if (child < 0 || waitpid(child, NULL, 0) != child)
			wrong("vfork");
		unlock(&process_lock);
	}
	return unused;
}

static void on_alarm(int signal)
{
	(void)signal;
	if (try(&handler_lock))
		unlock(&handler_lock);
}

/* Is interrupted all the time by a handler that locks as well. */
static void *interrupted(void *unused)
{
	sigset_t alarms;
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	for (unsigned i = 0; !ending; i++) {
		if (parking) {
			pthread_sigmask(SIG_BLOCK, &alarms, NULL);
			park_if_told();
			pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
		}
		lock(&plain);
		unlock(&plain);
		lock(&own[0][i % OWN_LOCKS]);
		unlock(&own[0][i % OWN_LOCKS]);
	}
	return unused;
}

static __thread sigjmp_buf way_out;
static __thread timer_t timer;

static void on_jump(int signal)
{
	(void)signal;
	siglongjmp(way_out, 1);
}

/* Waits for a lock, and leaves by a jump out of a signal handler. */
static void *jumper(void *unused)
{
	while (!ending) {
		park_if_told();
		if (sigsetjmp(way_out, 1) == 0) {
			struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
#ifdef __GLIBC__
			/* glibc 2.36 has no name for this field yet. */
			event._sigev_un._tid = gettid();
#else
			event.sigev_notify_thread_id = gettid();
#endif
			struct itimerspec when = { .it_value.tv_nsec = 200000 };
			if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
				wrong("timer_create");
			timer_settime(timer, 0, &when, NULL);
			/* Held by main for good. */
			pthread_mutex_lock(&jumped.mutex);
			wrong("a lock that is held");
		}
		timer_delete(timer);
		lock(&between);
		unlock(&between);
	}
	return unused;
}

static void init(struct counted *one, int type, int protocol, int is_robust)
{
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, type);
	pthread_mutexattr_setprotocol(&a, protocol);
	pthread_mutexattr_setrobust(&a, is_robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
	if (pthread_mutex_init(&one->mutex, &a) != 0)
		wrong("pthread_mutex_init");
	pthread_mutexattr_destroy(&a);
}

static void init_all(void)
{
	init(&recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, 0);
	init(&checked, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, 0);
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
	init(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE, 0);
#endif
	init(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 1);
	init(&inherit, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, 0);
	pthread_mutex_lock(&jumped.mutex);
}

static void print_one(struct counted *one, bool is_first)
{
	printf("%s\"%#lx\":[%lu,%lu,%lu,%lu]", is_first ? "" : ",", (unsigned long)&one->mutex, one->acquired,
	       one->nested, one->failed, one->timeouts);
}

static void print(void)
{
	printf("{");
	for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
		print_one(singles[i], i == 0);
	for (size_t t = 0; t < MOST_TRACKS; t++)
		for (size_t i = 0; i < OWN_LOCKS; i++)
			print_one(&own[t][i], false);
	for (size_t i = 0; i < MANY_LOCKS; i++)
		print_one(&many[i], false);
	printf("}\n");
}

static unsigned long pairs_each;

/* Counts nothing itself: how often is known. */
static void *pairs(void *number)
{
	struct counted *mine = own[(size_t)number];
	for (unsigned long i = 0; i < pairs_each; i++) {
		struct counted *one = &mine[i % OWN_LOCKS];
		pthread_mutex_lock(&one->mutex);
		one->sum++;
		pthread_mutex_unlock(&one->mutex);
	}
	for (int i = 0; i < OWN_LOCKS; i++)
		mine[i].acquired = mine[i].sum;
	return NULL;
}

static void run_pairs(int count)
{
	pthread_t ids[MOST_TRACKS];
	getchar();
	for (int i = 0; i < count; i++)
		if (pthread_create(&ids[i], NULL, pairs, (void *)(size_t)i) != 0)
			wrong("pthread_create");
	for (int i = 0; i < count; i++)
		pthread_join(ids[i], NULL);
	print();
	fflush(stdout);
	while (getchar() != 'q')
		;
	printf("{\"ok\":true}\n");
}

static void run_tracks(int tracks)
{
	struct itimerval often = { { 0, 100 }, { 0, 100 } };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	sigset_t alarms;
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigaction(SIGALRM, &action, NULL);
	action.sa_handler = on_jump;
	sigaction(SIGUSR1, &action, NULL);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	for (size_t i = 0; i < (size_t)tracks; i++) {
		start(owner, (void *)i);
		start(wanderer, (void *)i);
		start(sharer, NULL);
		start(nester, NULL);
	}
	start(parent, NULL);
	start(jumper, NULL);
	start(interrupted, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	obey(print);
	struct itimerval never = { 0 };
	setitimer(ITIMER_REAL, &never, NULL);
	for (int i = 0; i < running; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
		if (singles[i]->sum != singles[i]->acquired)
			wrong("a sum under a mutex");
	for (size_t i = 0; i < MANY_LOCKS; i++)
		if (many[i].sum != many[i].acquired)
			wrong("a sum under a mutex of many");
	printf("{\"ok\":true}\n");
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	if (count > MOST_TRACKS)
		return 2;
	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	init_all();
	printf("{\"ready\":true}\n");
	fflush(stdout);
	if (argc > 2) {
		pairs_each = strtoul(argv[2], NULL, 10);
		run_pairs(count);
	} else {
		run_tracks(count);
	}
	fflush(stdout);
	_exit(0);
}
