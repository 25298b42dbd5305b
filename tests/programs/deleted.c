/*
 * deleted - a program whose file is gone, or is another one, while it runs.
 *
 * What it does: copies itself to DIR, runs the copy, and there removes the file (mode `delete`) or puts
 * another program in its place (mode `replace`: a rename of a copy of /bin/true). Then
 * work_after_deletion() alternates 5 ms of processor time and 5 ms of sleep.
 *
 * Its true answer (one JSON line): rounds, and the path. The names come from /proc/PID/exe alone, since
 * the path leads nowhere, or to a file with another build id.
 *
 * Usage: deleted [delete|replace] [SECONDS=2] [DIR=/tmp]
 */
#include "truth.h"
#include <sys/stat.h>

SITE static void compute_after_deletion(void) { spin_cpu_ns(5 * NS_PER_MS); KEEP_FRAME(); }
SITE static void sleep_after_deletion(void) { sleep_ns(5 * NS_PER_MS); KEEP_FRAME(); }

SITE static long work_after_deletion(double seconds)
{
	long rounds = 0;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	for (; now_ns() < end; rounds++) {
		compute_after_deletion();
		sleep_after_deletion();
	}
	return rounds;
}

static void copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (in < 0)
		die(from);
	if (out < 0)
		die(to);
	copy_all(in, out, to);
	close(in);
	close(out);
}

static void take_away(const char *path, bool replace)
{
	char other[4200];
	if (!replace) {
		if (unlink(path) != 0)
			die(path);
		return;
	}
	snprintf(other, sizeof other, "%s.new", path);
	copy_file("/bin/true", other);
	if (rename(other, path) != 0)
		die(path);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "delete";
	char *seconds = argc > 2 ? argv[2] : "2";
	bool replace = strcmp(mode, "replace") == 0;
	if (!replace && strcmp(mode, "delete") != 0) {
		fprintf(stderr, "deleted: unknown mode \"%s\"; use delete or replace\n", mode);
		return 2;
	}
	if (argc < 5) { /* the original */
		char path[4096];
		snprintf(path, sizeof path, "%s/deleted-%d", argc > 3 ? argv[3] : "/tmp", getpid());
		copy_file("/proc/self/exe", path);
		execl(path, "deleted", mode, seconds, path, "copy", (char *)NULL);
		die(path);
	}
	take_away(argv[3], replace);
	long rounds = work_after_deletion(atof(seconds));
	if (replace)
		unlink(argv[3]);
	printf("{\"program\":\"deleted\",\"mode\":\"%s\",\"path\":\"%s\",\"rounds\":%ld,\"cpu_ns\":%" PRIu64 "}\n", mode,
	       argv[3], rounds, thread_cpu_ns());
	return 0;
}
