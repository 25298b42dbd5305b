/*
 * vfork - a parent that stands still while its child uses its memory.
 *
 * What it does: run_child() vforks; the child computes 2 ms in compute_in_child() and sleeps 2 ms in
 * sleep_in_child() on the parent's stack, then ends; the parent waits inside vfork() until then, with
 * its return address in a register, and then for the child's status in reap_child().
 *
 * Its true answer (one JSON line): children, and the parent's wait in vfork in ns of wall time: a wait
 * for a child (state "blocked", about 4 ms each), its stack vfork < run_child < main < _start.
 *
 * Usage: vfork [SECONDS=2]
 */
#include "truth.h"
#include <sys/wait.h>

SITE static void compute_in_child(void)
{
	spin_cpu_ns(2 * NS_PER_MS);
	KEEP_FRAME();
}

SITE static void sleep_in_child(void)
{
	struct timespec t = timespec_of(2 * NS_PER_MS);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	KEEP_FRAME();
}

SITE static pid_t run_child(void)
{
	pid_t child = vfork();
	if (child == 0) {
		compute_in_child();
		sleep_in_child();
		_exit(0);
	}
	if (child < 0)
		die("vfork");
	return child;
}

SITE static void reap_child(pid_t child)
{
	if (waitpid(child, NULL, 0) != child)
		die("waitpid");
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), waited = 0;
	long children = 0;
	for (; now_ns() < end; children++) {
		uint64_t before = now_ns();
		pid_t child = run_child();
		waited += now_ns() - before;
		reap_child(child);
	}
	printf("{\"program\":\"vfork\",\"children\":%ld,\"vfork_wall_ns\":%" PRIu64 "}\n", children, waited);
	return 0;
}
