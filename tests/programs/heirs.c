/*
 * heirs: robust mutexes that processes share, of which one is killed. On `r` it starts a process one of whose two
 * threads takes and gives back such mutexes, one or two at a time, for as long as it lives, and a thread of its own that
 * wants them too. (Of two that wait, one may be killed when it was woken, and the other sleeps for ever: the kernel and
 * libc do not help there.)
 * On `k` it kills that process at once and takes every mutex. Who holds one says so in it, after it has it and before it
 * lets it go: a mutex that still says so must be inherited (EOWNERDEAD), and one that is not must be in order. It
 * prints how often the mutexes were acquired and how many were inherited; `q` ends it, and says whether all was right.
 */
#include "truth.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LOCKS = 4, PATIENCE_S = 10 };

static struct {
	struct guarded {
		pthread_mutex_t mutex;
		int holder; /* who has it */
		unsigned long first, second; /* equal where nobody has it */
	} locks[LOCKS];
	atomic_bool is_wrong; /* said by either process */
} *common;

static atomic_bool ending;
static unsigned long inherited, acquired;

static void wrong(const char *what, int result)
{
	fprintf(stderr, "heirs: %s (%d)\n", what, result);
	common->is_wrong = true;
}

static bool is_heir = true;

static int lock_in_time(pthread_mutex_t *mutex)
{
	struct timespec late;
	clock_gettime(CLOCK_REALTIME, &late);
	late.tv_sec += PATIENCE_S;
	return pthread_mutex_timedlock(mutex, &late);
}

/* Has the mutex, and says so. What a dead one has left it sets right. */
static void take(struct guarded *one)
{
	int result = is_heir ? lock_in_time(&one->mutex) : pthread_mutex_lock(&one->mutex);
	if (result == ETIMEDOUT) {
		fprintf(stderr, "heirs: a mutex is never free again\n");
		_exit(1);
	}
	if (result == EOWNERDEAD) {
		pthread_mutex_consistent(&one->mutex);
		one->second = one->first;
		inherited++;
	} else if (result != 0) {
		wrong("it cannot be taken", result);
	} else if (one->holder != 0 || one->first != one->second) {
		wrong("its holder died and nobody was told", one->holder);
	}
	one->holder = (int)syscall(SYS_gettid);
	one->first++;
}

static void give(struct guarded *one)
{
	one->second++;
	KEEP_FRAME();
	*(volatile int *)&one->holder = 0;
	if (pthread_mutex_unlock(&one->mutex) != 0)
		wrong("it cannot be given back", 0);
}

static void *take_and_give(void *seed)
{
	for (unsigned i = (unsigned)(size_t)seed; !ending; i = i * 1664525 + 1013904223) {
		struct guarded *one = &common->locks[i >> 28 & (LOCKS - 1)];
		take(one);
		if ((i >> 20 & 7) == 0 && one < &common->locks[LOCKS - 1]) {
			take(one + 1);
			give(one);
			one++;
		}
		give(one);
	}
	return NULL;
}

static void *sleep_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static pthread_t rival;

static pid_t start(void)
{
	ending = false;
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		pthread_t thread;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		is_heir = false;
		pthread_create(&thread, NULL, sleep_for_ever, NULL);
		take_and_give(NULL);
		_exit(1);
	}
	pthread_create(&rival, NULL, take_and_give, (void *)(size_t)(child * 2654435761u));
	return child;
}

static void end(pid_t child)
{
	int status;
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	if (!WIFSIGNALED(status))
		wrong("it ended by itself", status);
	ending = true;
	pthread_join(rival, NULL);
	acquired = 0;
	for (int i = 0; i < LOCKS; i++) {
		take(&common->locks[i]);
		give(&common->locks[i]);
		acquired += common->locks[i].first;
	}
}

int main(void)
{
	pthread_mutexattr_t attributes;
	pid_t child = 0;
	common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	for (int i = 0; i < LOCKS; i++)
		pthread_mutex_init(&common->locks[i].mutex, &attributes);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("{}\n");
	for (int command; (command = getchar()) != EOF && command != 'q';) {
		if (command == 'r') {
			child = start();
			printf("{\"pid\":%d}\n", child);
		} else if (command == 'k' && child) {
			end(child);
			child = 0;
			printf("{\"acquired\":%lu,\"inherited\":%lu}\n", acquired, inherited);
		}
	}
	printf("{\"ok\":%s}\n", common->is_wrong ? "false" : "true");
	return 0;
}
