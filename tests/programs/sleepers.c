/*
 * sleepers - threads that sleep through everything.
 *
 * What it does: one thread each sleeps forever in pause, nanosleep, a futex, a read of a pipe, a read
 * of a socket, poll and epoll_wait, each in a function of its own; the process ends after SECONDS.
 *
 * Its true answer: the JSON line it prints once all of them sleep: every thread's tid, name, function
 * and reason. A profile started after that line must show each of them blocked for 100 % of its
 * window, although none ever switches.
 *
 * Usage: sleepers [SECONDS=5]
 */
#include "truth.h"
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static int pipe_fds[2], socket_fds[2];
static sem_t never;

SITE static void sleep_in_pause(void) { pause(); KEEP_FRAME(); }
SITE static void sleep_in_nanosleep(void) { sleep_ns(1000000 * NS_PER_SECOND); KEEP_FRAME(); }
SITE static void sleep_in_futex(void) { sem_wait(&never); KEEP_FRAME(); }

SITE static void sleep_in_pipe_read(void)
{
	char byte;
	if (read(pipe_fds[0], &byte, 1) != 1)
		die("read");
}

SITE static void sleep_in_socket_read(void)
{
	char byte;
	if (read(socket_fds[0], &byte, 1) != 1)
		die("read");
}

SITE static void sleep_in_poll(void)
{
	struct pollfd fd = { .fd = pipe_fds[0], .events = POLLIN };
	poll(&fd, 1, -1);
	KEEP_FRAME();
}

SITE static void sleep_in_epoll(void)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);
	epoll_wait(fd, &event, 1, -1);
	KEEP_FRAME();
}

static struct sleeper {
	const char *name, *function, *reason;
	void (*sleep)(void);
	pthread_t thread;
	_Atomic pid_t tid;
} sleepers[] = {
	{ "pause", "sleep_in_pause", "sleep", sleep_in_pause, 0, 0 },
	{ "nanosleep", "sleep_in_nanosleep", "sleep", sleep_in_nanosleep, 0, 0 },
	{ "futex", "sleep_in_futex", "condition", sleep_in_futex, 0, 0 },
	{ "pipe", "sleep_in_pipe_read", "pipe", sleep_in_pipe_read, 0, 0 },
	{ "socket", "sleep_in_socket_read", "socket", sleep_in_socket_read, 0, 0 },
	{ "poll", "sleep_in_poll", "poll", sleep_in_poll, 0, 0 },
	{ "epoll", "sleep_in_epoll", "poll", sleep_in_epoll, 0, 0 },
};
enum { SLEEPERS = sizeof sleepers / sizeof *sleepers };

SITE static void *run_sleeper(void *arg)
{
	struct sleeper *s = arg;
	prctl(PR_SET_NAME, s->name);
	s->tid = own_tid();
	s->sleep();
	return NULL;
}

/* Has the thread gone to sleep? The third field of its stat is S then. */
static bool sleeps(pid_t tid)
{
	char path[64], line[256], *end_of_name;
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	FILE *stat = fopen(path, "r");
	if (!stat)
		return false;
	bool asleep = fgets(line, sizeof line, stat) && (end_of_name = strrchr(line, ')')) && end_of_name[2] == 'S';
	fclose(stat);
	return asleep;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 5;
	if (pipe(pipe_fds) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, socket_fds) != 0 || sem_init(&never, 0, 0) != 0)
		die("set-up");
	for (int i = 0; i < SLEEPERS; i++)
		pthread_create(&sleepers[i].thread, NULL, run_sleeper, &sleepers[i]);
	for (int i = 0; i < SLEEPERS; i++)
		while (sleepers[i].tid == 0 || !sleeps(sleepers[i].tid))
			sleep_ns(NS_PER_MS);
	printf("{\"program\":\"sleepers\",\"pid\":%d,\"threads\":[", getpid());
	for (int i = 0; i < SLEEPERS; i++)
		printf("%s{\"tid\":%d,\"name\":\"%s\",\"function\":\"%s\",\"reason\":\"%s\"}", i ? "," : "", sleepers[i].tid,
		       sleepers[i].name, sleepers[i].function, sleepers[i].reason);
	printf("]}\n");
	fflush(stdout);
	sleep_ns((uint64_t)(seconds * 1e9));
	_exit(0);
}
