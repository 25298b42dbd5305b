/*
 * mixed - a small service as one meets it, for a first look at a profile.
 *
 * What it does, for about 5 s: `indexer` holds the catalogue lock while it sorts; `lookup` wants the
 * same lock; `reporter` sleeps between short computations; `journal` writes and syncs a file;
 * `loader` reads a cold file through a mapping; `consumer` waits for what `indexer` sends it through
 * a pipe; `solver` only computes.
 *
 * Its true answer: a table of where each thread's time went, from its own clocks (see truth.h), or
 * JSON with --json FILE.
 *
 * Usage: mixed [--seconds N] [--dir DIR] [--json FILE]
 */
#include "truth.h"
#include <pthread.h>
#include <sys/mman.h>

enum { ITEMS = 60000, PAGE = 4096, FILE_PAGES = 2048 };

static pthread_mutex_t catalogue_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t catalogue[ITEMS];
static int news[2];
static uint64_t deadline;
static const char *dir = ".";

static bool time_left(void) { return now_ns() < deadline; }

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

SITE static void sort_catalogue(uint32_t seed)
{
	for (int i = 0; i < ITEMS; i++)
		catalogue[i] = seed = seed * 1664525u + 1013904223u;
	qsort(catalogue, ITEMS, sizeof *catalogue, by_value);
	KEEP_FRAME();
}

SITE static void fetch_update(void)
{
	sleep_ns(12 * NS_PER_MS);
	KEEP_FRAME();
}

SITE static void rebuild_index(uint32_t seed)
{
	pthread_mutex_lock(&catalogue_lock);
	sort_catalogue(seed);
	pthread_mutex_unlock(&catalogue_lock);
	if (write(news[1], &seed, sizeof seed) < 0)
		die("news");
}

SITE static void run_indexer(struct thread_truth *t)
{
	int fetch = truth_site(t, "fetch_update", "clock_nanosleep", "sleep", "");
	int lock = truth_site(t, "rebuild_index", "futex", "lock", "lookup");
	for (uint32_t seed = 1; time_left(); seed++) {
		struct wait_stamp before = truth_before(t, fetch);
		fetch_update();
		truth_after(t, fetch, before);
		before = truth_before(t, lock);
		rebuild_index(seed);
		truth_after(t, lock, before);
	}
	close(news[1]);
}

SITE static uint64_t look_up(void)
{
	uint64_t sum = 0;
	pthread_mutex_lock(&catalogue_lock);
	for (int i = 0; i < ITEMS; i += 64)
		sum += catalogue[i];
	pthread_mutex_unlock(&catalogue_lock);
	return sum;
}

SITE static void run_lookup(struct thread_truth *t)
{
	int lock = truth_site(t, "look_up", "futex", "lock", "indexer");
	int rest = truth_site(t, "run_lookup", "clock_nanosleep", "sleep", "");
	volatile uint64_t sink = 0;
	while (time_left()) {
		struct wait_stamp before = truth_before(t, lock);
		sink += look_up();
		truth_after(t, lock, before);
		before = truth_before(t, rest);
		sleep_ns(2 * NS_PER_MS);
		truth_after(t, rest, before);
	}
}

SITE static void summarize(void)
{
	spin_cpu_ns(3 * NS_PER_MS);
	KEEP_FRAME();
}

SITE static void run_reporter(struct thread_truth *t)
{
	int rest = truth_site(t, "run_reporter", "clock_nanosleep", "sleep", "");
	while (time_left()) {
		struct wait_stamp before = truth_before(t, rest);
		sleep_ns(40 * NS_PER_MS);
		truth_after(t, rest, before);
		summarize();
	}
}

static int scratch_file(void)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/mixed-%d-%d.data", dir, getpid(), own_tid());
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		die(path);
	unlink(path);
	return fd;
}

SITE static void append_journal(int fd)
{
	static char entry[PAGE];
	if (write(fd, entry, sizeof entry) < 0)
		die("journal");
	fsync(fd);
	KEEP_FRAME();
}

/* The file has no name any more: with the last close its blocks are given back, which can take tens of ms. */
SITE static void close_journal(int fd)
{
	close(fd);
	KEEP_FRAME();
}

SITE static void run_journal(struct thread_truth *t)
{
	int sync = truth_site(t, "append_journal", "fsync", "io", "");
	int end = truth_site(t, "close_journal", "close", "io", "");
	int fd = scratch_file();
	t->site0_is_remainder = true;
	while (time_left()) {
		struct wait_stamp before = truth_before(t, sync);
		append_journal(fd);
		truth_after(t, sync, before);
	}
	struct wait_stamp before = truth_before(t, end);
	close_journal(fd);
	truth_after(t, end, before);
}

SITE static uint64_t touch_pages(const char *map)
{
	uint64_t sum = 0;
	for (long i = 0; i < FILE_PAGES; i++)
		sum += (uint8_t)map[i * 607 % FILE_PAGES * PAGE];
	return sum;
}

SITE static void forget_pages(char *map, int fd)
{
	madvise(map, (size_t)FILE_PAGES * PAGE, MADV_DONTNEED);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	KEEP_FRAME();
}

static char *map_cold_file(int fd)
{
	static char page[PAGE];
	for (int i = 0; i < FILE_PAGES; i++)
		if (pwrite(fd, page, PAGE, (off_t)i * PAGE) != PAGE)
			die("cold file");
	fsync(fd);
	char *map = mmap(NULL, (size_t)FILE_PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("mmap");
	madvise(map, (size_t)FILE_PAGES * PAGE, MADV_RANDOM);
	return map;
}

SITE static void run_loader(struct thread_truth *t)
{
	int fault = truth_site(t, "touch_pages", "", "fault", "");
	int forget = truth_site(t, "forget_pages", "fadvise64", "io", "");
	int prepare = truth_site(t, "map_cold_file", "fsync", "io", "");
	int fd = scratch_file();
	struct wait_stamp before = truth_before(t, prepare);
	char *map = map_cold_file(fd);
	truth_after(t, prepare, before);
	volatile uint64_t sink = 0;
	while (time_left()) {
		before = truth_before(t, forget);
		forget_pages(map, fd);
		truth_after(t, forget, before);
		before = truth_before(t, fault);
		sink += touch_pages(map);
		truth_after(t, fault, before);
	}
	close(fd);
}

SITE static bool await_news(void)
{
	uint32_t seed;
	return read(news[0], &seed, sizeof seed) > 0;
}

SITE static void run_consumer(struct thread_truth *t)
{
	int wait = truth_site(t, "await_news", "read", "pipe", "indexer");
	bool more = true;
	while (more) {
		struct wait_stamp before = truth_before(t, wait);
		more = await_news();
		truth_after(t, wait, before);
	}
}

SITE static void solve_equations(void)
{
	spin_cpu_ns(5 * NS_PER_MS);
	KEEP_FRAME();
}

SITE static void run_solver(struct thread_truth *t)
{
	(void)t;
	while (time_left())
		solve_equations();
}

static struct role {
	const char *name;
	void (*run)(struct thread_truth *);
	pthread_t thread;
} roles[] = {
	{ "indexer", run_indexer, 0 },	 { "lookup", run_lookup, 0 },	{ "reporter", run_reporter, 0 },
	{ "journal", run_journal, 0 },	 { "loader", run_loader, 0 },	{ "consumer", run_consumer, 0 },
	{ "solver", run_solver, 0 },
};
enum { ROLES = sizeof roles / sizeof *roles };
static struct thread_truth truths[ROLES];

SITE static void *play(void *arg)
{
	struct role *r = arg;
	struct thread_truth *t = &truths[r - roles];
	truth_thread_begin(t, r->name);
	truth_loop_begin(t);
	r->run(t);
	truth_loop_end(t);
	truth_thread_end(t);
	return NULL;
}

static double blocked_share(const struct thread_truth *t, const char *reason)
{
	int64_t sum = 0;
	for (int i = 0; i < t->sites_used; i++)
		if (strcmp(t->sites[i].reason, reason) == 0)
			sum += truth_site_blocked_ns(t, i);
	return 100.0 * (double)sum / (double)(t->end_ns - t->start_ns);
}

static void print_shares(void)
{
	printf("What a profile of this run should show, in %% of each thread's life:\n");
	printf("%-10s %8s %8s %6s %6s %6s %6s %6s %6s\n", "thread", "running", "runnable", "lock", "sleep", "io",
	       "pipe", "fault", "other");
	for (int i = 0; i < ROLES; i++) {
		const struct thread_truth *t = &truths[i];
		double life = (double)(t->end_ns - t->start_ns);
		printf("%-10s %8.1f %8.1f %6.1f %6.1f %6.1f %6.1f %6.1f %6.1f\n", t->name,
		       100.0 * (double)t->cpu_ns / life, 100.0 * (double)t->run_delay_ns / life,
		       blocked_share(t, "lock"), blocked_share(t, "sleep"), blocked_share(t, "io"),
		       blocked_share(t, "pipe"), blocked_share(t, "fault"), blocked_share(t, "other"));
	}
}

int main(int argc, char **argv)
{
	double seconds = 5;
	const char *json = NULL;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--seconds") == 0)
			seconds = atof(argv[i + 1]);
		else if (strcmp(argv[i], "--dir") == 0)
			dir = argv[i + 1];
		else if (strcmp(argv[i], "--json") == 0)
			json = argv[i + 1];
	}
	if (pipe(news) != 0)
		die("pipe");
	deadline = now_ns() + (uint64_t)(seconds * 1e9);
	for (int i = 0; i < ROLES; i++)
		pthread_create(&roles[i].thread, NULL, play, &roles[i]);
	for (int i = 0; i < ROLES; i++)
		pthread_join(roles[i].thread, NULL);
	if (json) {
		FILE *out = truth_output(json);
		truth_print(out, "mixed", "", truths, ROLES);
		fflush(out);
	} else {
		print_shares();
	}
	return 0;
}
