/*
 * deadlock: threads that wait for each other's locks, or seem to. Each of COUNT threads holds a mutex of its own and
 * wants that of the next one, the last one that of the first.
 *
 *   deadlock ring COUNT [KIND]   they wait for ever; KIND of mutex: normal (if none is named), recursive,
 *                                errorcheck, robust, inherit; or write: they are read-write locks, to be written
 *   deadlock timed COUNT         the same, but each gives up every second and tries again
 *   deadlock chain COUNT         the same, but the last one wants nothing and holds its mutex for ever
 *   deadlock self 1              it wants the mutex that it holds
 *
 * On `r` it begins, and when all wait prints the threads and what each waits for; `q` ends it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16 };

static union {
	pthread_mutex_t mutex;
	pthread_rwlock_t rwlock;
} forks[MOST];
static int are_written;
static pthread_barrier_t all_hold;
static size_t count;
static const char *how;
static atomic_int tids[MOST], wanting;

__attribute__((noipa)) static void want_for_ever(size_t number)
{
	if (are_written)
		pthread_rwlock_wrlock(&forks[number].rwlock);
	else
		pthread_mutex_lock(&forks[number].mutex);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noipa)) static void want_for_a_while(pthread_mutex_t *mutex)
{
	for (;;) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		if (pthread_mutex_timedlock(mutex, &until) == 0)
			abort();
	}
}

__attribute__((noipa)) static void *philosopher(void *number)
{
	size_t me = (size_t)number;
	char name[16];
	snprintf(name, sizeof name, "philosopher-%c", 'a' + (char)me);
	prctl(PR_SET_NAME, name);
	tids[me] = gettid();
	if (are_written)
		pthread_rwlock_wrlock(&forks[me].rwlock);
	else
		pthread_mutex_lock(&forks[me].mutex);
	pthread_barrier_wait(&all_hold);
	wanting++;
	if (strcmp(how, "timed") == 0)
		want_for_a_while(&forks[(me + 1) % count].mutex);
	else if (strcmp(how, "self") == 0)
		want_for_ever(me);
	else if (strcmp(how, "chain") == 0 && me == count - 1)
		pause();
	else
		want_for_ever((me + 1) % count);
	return NULL;
}

static void make(size_t number, const char *kind)
{
	pthread_mutexattr_t attributes;

	are_written = strcmp(kind, "write") == 0;
	if (are_written) {
		pthread_rwlock_init(&forks[number].rwlock, NULL);
		return;
	}
	pthread_mutexattr_init(&attributes);
	if (strcmp(kind, "recursive") == 0)
		pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	else if (strcmp(kind, "errorcheck") == 0)
		pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
	else if (strcmp(kind, "robust") == 0)
		pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	else if (strcmp(kind, "inherit") == 0)
		pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&forks[number].mutex, &attributes);
}

static void begin(void)
{
	pthread_barrier_init(&all_hold, NULL, (unsigned)count);
	for (size_t i = 0; i < count; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, philosopher, (void *)i);
	}
	while (wanting < (int)count)
		usleep(1000);
	usleep(50000);
	printf("{\"threads\":[");
	for (size_t i = 0; i < count; i++)
		printf("%s{\"tid\":%d,\"wants\":\"%p\",\"held_by\":%d}", i ? "," : "", tids[i],
		       (void *)&forks[(i + 1) % count], tids[(i + 1) % count]);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	how = argv[1];
	count = strtoul(argv[2], NULL, 10);
	if (count == 0 || count > MOST)
		return 2;
	for (size_t i = 0; i < count; i++)
		make(i, argc > 3 ? argv[3] : "normal");
	printf("{}\n");
	for (int command; (command = getchar()) != EOF && command != 'q';)
		if (command == 'r')
			begin();
	printf("{\"ok\":true}\n");
	fflush(stdout);
	_exit(0);
}
