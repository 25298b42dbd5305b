/*
 * forkstorm - processes that are born and die all the time, as in a parallel build.
 *
 * What it does: keeps WIDTH children alive; each computes 500 us in work_in_child(), and every fourth
 * executes /bin/true instead of just ending.
 *
 * Its true answer (one JSON line): processes born, how many of them executed another program, and the
 * processor time of all children.
 *
 * Usage: forkstorm [SECONDS=3] [WIDTH=8]
 */
#include "truth.h"
#include <sys/wait.h>

SITE static void work_in_child(void)
{
	spin_cpu_ns(500 * NS_PER_US);
	KEEP_FRAME();
}

SITE static void start_child(long number)
{
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (child > 0)
		return;
	work_in_child();
	if (number % 4 == 0)
		execl("/bin/true", "true", (char *)NULL);
	_exit(number % 4 == 0);
}

SITE static void reap_one(void)
{
	int status;
	if (wait(&status) < 0)
		die("wait");
	if (status != 0) {
		fprintf(stderr, "forkstorm: a child ended with status %d; is /bin/true there?\n", status);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 3;
	int width = argc > 2 ? atoi(argv[2]) : 8;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	long born = 0;
	int alive = 0;
	while (now_ns() < end || alive > 0) {
		if (now_ns() < end && alive < width) {
			start_child(born++);
			alive++;
		} else {
			reap_one();
			alive--;
		}
	}
	struct rusage u;
	getrusage(RUSAGE_CHILDREN, &u);
	printf("{\"program\":\"forkstorm\",\"born\":%ld,\"executed\":%ld,\"children_cpu_s\":%.6f}\n", born, (born + 3) / 4,
	       (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	return 0;
}
