/*
 * zeropage: gets memory, touches it and gives it back, over and over, and says what that cost by getrusage and the clock.
 * The reproducer of an investigation of what zeroing costs is `zeropage map` twice at a time: 800 000 times a page.
 *
 *     zeropage WAY [ROUNDS [PAGES]] [--processes N] [--truth FILE]
 *
 *     map       mmap PAGES pages, touch each, munmap
 *     populate  the same with MAP_POPULATE: the kernel touches them
 *     dontneed  touch PAGES pages of one mapping, give them back by MADV_DONTNEED
 *     free      the same by MADV_FREE
 *     huge      a mapping of PAGES huge pages (2 MiB) by MADV_HUGEPAGE; touch each page of 4 KiB, munmap
 *     malloc    malloc of PAGES pages, touch each, free, and malloc_trim
 *     cow       a child changes PAGES pages that it shares with its parent; as often as there are rounds
 *     file      map PAGES pages of a file that is in memory, read each, munmap
 *     collapse  map PAGES times 2 MiB, touch each page of 4 KiB, ask for huge pages, wait half a second for the kernel to make
 *               them, munmap
 *     keep      map PAGES pages and touch them, ROUNDS times; keep all for a fifth of a second, then end
 *     shoot     as dontneed, while another thread runs on another processor: it has to be told
 *
 * Every touch is in touch(), every return in give_back(). Truth: one line of JSON per process.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define HUGE (2ul << 20)
#define SITE __attribute__((noinline, noclone))

static const char *way;
static size_t pages, bytes;
static char *standing; /* the mapping of ways that keep one */
static int file = -1;
static volatile int over;

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(2);
	}
}

static int is(const char *name) { return !strcmp(way, name); }

SITE char *get(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	if (is("file"))
		return mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
	if (is("malloc"))
		return malloc(bytes);
	if (is("huge")) {
		char *all = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, flags, -1, 0);
		check(all == MAP_FAILED, "mmap");
		char *aligned = (char *)(((uintptr_t)all + HUGE - 1) & ~(HUGE - 1));
		if (aligned > all)
			munmap(all, aligned - all);
		munmap(aligned + bytes, all + HUGE - aligned);
		check(madvise(aligned, bytes, MADV_HUGEPAGE), "madvise");
		return aligned;
	}
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | (is("populate") ? MAP_POPULATE : 0), -1, 0);
}

SITE void touch(char *memory, int write)
{
	for (size_t at = 0; at < bytes; at += PAGE) {
		if (write)
			*(volatile char *)(memory + at) = 1;
		else
			(void)*(volatile char *)(memory + at);
	}
}

SITE void give_back(char *memory)
{
	if (is("dontneed") || is("shoot"))
		check(madvise(memory, bytes, MADV_DONTNEED), "madvise");
	else if (is("free"))
		check(madvise(memory, bytes, MADV_FREE), "madvise");
	else if (is("malloc")) {
		free(memory);
		malloc_trim(0);
	} else
		check(munmap(memory, bytes), "munmap");
}

static void copy_on_write(void)
{
	pid_t child = fork();
	check(child < 0, "fork");
	if (!child) {
		touch(standing, 1);
		_exit(0);
	}
	check(waitpid(child, NULL, 0) != child, "waitpid");
}

static void once(void)
{
	if (is("cow")) {
		copy_on_write();
		return;
	}
	char *memory = standing ? standing : get();
	check(memory == MAP_FAILED || !memory, "mmap");
	touch(memory, !is("file"));
	if (is("collapse")) {
		check(madvise(memory, bytes, MADV_HUGEPAGE), "madvise");
		usleep(500000);
	}
	if (!is("keep"))
		give_back(memory);
}

static void *spin(void *unused)
{
	(void)unused;
	while (!over)
		;
	return NULL;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t ns(struct timeval t) { return t.tv_sec * 1000000000ull + t.tv_usec * 1000ull; }

/* A number of /proc/vmstat that begins so, added up. */
static uint64_t vmstat(const char *begin)
{
	char line[128];
	uint64_t sum = 0, n;
	FILE *in = fopen("/proc/vmstat", "r");
	check(!in, "/proc/vmstat");
	while (fgets(line, sizeof line, in))
		if (!strncmp(line, begin, strlen(begin)) && sscanf(line, "%*s %" SCNu64, &n) == 1)
			sum += n;
	fclose(in);
	return sum;
}

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void prepare(pthread_t *other)
{
	if (is("file")) {
		char name[] = "/tmp/zeropage-XXXXXX";
		file = mkstemp(name);
		check(file < 0, name);
		unlink(name);
		char *block = calloc(1, bytes);
		check(write(file, block, bytes) != (ssize_t)bytes, "write");
		free(block);
	}
	if (is("dontneed") || is("free") || is("shoot") || is("cow"))
		standing = get();
	if (is("cow"))
		touch(standing, 1);
	if (is("shoot")) {
		pin(0);
		check(pthread_create(other, NULL, spin, NULL), "pthread_create");
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(1, &set);
		check(pthread_setaffinity_np(*other, sizeof set, &set), "two processors are needed");
	}
}

static void run(long rounds, const char *truth)
{
	struct rusage before, after, child_before, child_after;
	pthread_t other;
	prepare(&other);
	getrusage(RUSAGE_SELF, &before);
	getrusage(RUSAGE_CHILDREN, &child_before);
	uint64_t allocated = vmstat("pgalloc_"), freed = vmstat("pgfree");
	uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (long i = 0; i < rounds; i++)
		once();
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	allocated = vmstat("pgalloc_") - allocated;
	freed = vmstat("pgfree") - freed;
	getrusage(RUSAGE_SELF, &after);
	getrusage(RUSAGE_CHILDREN, &child_after);
	if (is("keep"))
		usleep(200000);
	if (is("shoot")) {
		over = 1;
		pthread_join(other, NULL);
	}
	FILE *out = truth ? fopen(truth, "a") : stdout;
	check(!out, "truth");
	fprintf(out,
		"{\"pid\":%d,\"way\":\"%s\",\"rounds\":%ld,\"pages\":%zu,\"minor\":%ld,\"major\":%ld,\"child_minor\":%ld,"
		"\"user_ns\":%" PRIu64 ",\"system_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64 ",\"wall_ns\":%" PRIu64
		",\"machine_allocated\":%" PRIu64 ",\"machine_freed\":%" PRIu64 ",\"minor_at_end\":%ld}\n",
		getpid(), way, rounds, pages, after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt,
		child_after.ru_minflt - child_before.ru_minflt, ns(after.ru_utime) - ns(before.ru_utime),
		ns(after.ru_stime) - ns(before.ru_stime), cpu, wall, allocated, freed, after.ru_minflt);
	fclose(out);
}

int main(int argc, char **argv)
{
	long numbers[2] = { 800000, 1 }, processes = 1;
	const char *truth = NULL;
	int given = 0;
	way = argc > 1 ? argv[1] : "";
	const char *ways[] = { "map", "populate", "dontneed", "free", "huge", "malloc", "cow", "file", "collapse", "keep", "shoot" };
	size_t known = 0;
	while (known < sizeof ways / sizeof *ways && !is(ways[known]))
		known++;
	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "--processes") && i + 1 < argc)
			processes = atol(argv[++i]);
		else if (!strcmp(argv[i], "--truth") && i + 1 < argc)
			truth = argv[++i];
		else if (given < 2)
			numbers[given++] = atol(argv[i]);
	}
	if (known == sizeof ways / sizeof *ways || numbers[0] < 1 || numbers[1] < 1 || processes < 1) {
		fprintf(stderr, "usage: zeropage map|populate|dontneed|free|huge|malloc|cow|file|collapse|keep|shoot [ROUNDS [PAGES]] "
				"[--processes N] [--truth FILE]\n");
		return 2;
	}
	pages = numbers[1];
	bytes = pages * (is("huge") || is("collapse") ? HUGE : PAGE);
	for (long i = 1; i < processes; i++)
		if (!fork()) {
			run(numbers[0], truth);
			return 0;
		}
	run(numbers[0], truth);
	while (wait(NULL) > 0)
		;
	return 0;
}
