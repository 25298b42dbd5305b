/*
 * spawn - children made by posix_spawn, as shells and build tools do.
 *
 * What it does: start_child() spawns this same program as `spawn --child MS`, which computes MS in
 * compute_as_spawned() and sleeps MS in sleep_as_spawned(); reap_spawned() waits for it.
 *
 * Its true answer (one JSON line): children and the parent's wait for them. The children are
 * processes of their own, named `spawn`, and end within milliseconds of their birth.
 *
 * Usage: spawn [SECONDS=2] [MS=5]
 */
#include "truth.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

SITE static void compute_as_spawned(double ms)
{
	spin_cpu_ns((uint64_t)(ms * NS_PER_MS));
	KEEP_FRAME();
}

SITE static void sleep_as_spawned(double ms)
{
	sleep_ns((uint64_t)(ms * NS_PER_MS));
	KEEP_FRAME();
}

SITE static pid_t start_child(char *ms)
{
	char *arguments[] = { "spawn", "--child", ms, NULL };
	pid_t child;
	errno = posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ);
	if (errno != 0)
		die("posix_spawn");
	return child;
}

SITE static void reap_spawned(pid_t child)
{
	int status;
	if (waitpid(child, &status, 0) != child || status != 0)
		die("child failed");
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--child") == 0) {
		compute_as_spawned(atof(argv[2]));
		sleep_as_spawned(atof(argv[2]));
		return 0;
	}
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	char *ms = argc > 2 ? argv[2] : "5";
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), waited = 0;
	long children = 0;
	for (; now_ns() < end; children++) {
		pid_t child = start_child(ms);
		uint64_t before = now_ns();
		reap_spawned(child);
		waited += now_ns() - before;
	}
	printf("{\"program\":\"spawn\",\"children\":%ld,\"wait_wall_ns\":%" PRIu64 ",\"child_cpu_ms\":%s,\"child_sleep_ms\":%s}\n",
	       children, waited, ms, ms);
	return 0;
}
