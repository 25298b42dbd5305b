/*
 * longvfork: a thread whose children of vfork stay in its memory for long and call a function there, while it waits
 * in vfork. A puppet (puppet.h); it counts the calls. `longvfork MILLISECONDS`: how long each child stays.
 */
#include "puppet.h"
#include <sys/wait.h>

static atomic_ulong calls;
static int turns;

__attribute__((noinline, noclone)) void call_in_child(void)
{
	calls++;
}

__attribute__((noinline, noclone)) static pid_t run_child(void)
{
	pid_t child = vfork();
	if (child == 0) {
		for (int i = 0; i < turns && !ending; i++) {
			park_if_told();
			call_in_child();
			usleep(1000);
		}
		_exit(0);
	}
	return child;
}

static void *make_children(void *unused)
{
	while (!ending) {
		park_if_told();
		int status;
		pid_t child = run_child();
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
			wrong("a child of vfork");
	}
	return unused;
}

static void print(void)
{
	printf("{\"call_in_child\":%lu}\n", calls);
}

int main(int argc, char **argv)
{
	turns = argc > 1 ? atoi(argv[1]) : 1000;
	printf("{\"ready\":true}\n");
	fflush(stdout);
	for (int i = 0; i < 3; i++)
		start(make_children, NULL);
	obey(print);
	for (int i = 0; i < running; i++)
		pthread_join(threads[i], NULL);
	printf("{\"ok\":true}\n");
	return 0;
}
