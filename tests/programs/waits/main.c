/*
 * waits - logs its own waits exactly.
 *
 * What it does: runs one thread (or a waiting and a waking one) per kind of wait. Every wait is made
 * in a function of its own, named after the kind: wait_nanosleep, wait_pipe_read, wait_mutex, ...
 *
 * Its true answer: the JSON object it writes at its end (--json FILE, default standard output): for
 * every thread its wall, processor and run-queue time, and for every site the function, the system
 * call, the reason, the thread that ends the wait, the number of waits, and `blocked_ns`, the time
 * truly spent asleep (see truth.h for how that is known).
 *
 * Options:
 *   --duration SECONDS   default 3
 *   --rate N             waits per second of each paced thread, default 200
 *   --storm N            adds pairs that hand over to each other, N switches per second in all
 *   --hogs N             threads that only compute, default 1
 *   --migrate [MS]       forces every thread from one processor to another, every MS (default 5)
 *   --kinds A,B,...      only these: nanosleep sigtimedwait child yield hog condvar semaphore futex
 *                        pipe unix tcp eventfd poll epoll select mutex flock fsync coldread
 *                        directread fault storm
 *   --dir DIR            a folder on a disk, default the current one
 */
#include "waits.h"
#include <getopt.h>
#include <signal.h>

struct options options = {
	.duration_ns = 3 * NS_PER_SECOND,
	.period_ns = NS_PER_SECOND / 200,
	.hogs = 1,
	.dir = ".",
};
uint64_t deadline_ns;

static struct worker workers[WORKERS_MAX];
static int workers_used;
static pthread_barrier_t ready;

struct worker *worker_add(const char *name, worker_fn *run, void *arg)
{
	if (workers_used == WORKERS_MAX) {
		fprintf(stderr, "waits: more than %d threads; use --kinds\n", WORKERS_MAX);
		exit(1);
	}
	struct worker *w = &workers[workers_used++];
	w->name = name;
	w->run = run;
	w->arg = arg;
	return w;
}

int worker_count(void) { return workers_used; }
struct worker *worker_at(int i) { return &workers[i]; }

bool kind_wanted(const char *kind)
{
	if (!options.kinds)
		return true;
	size_t length = strlen(kind);
	for (const char *p = options.kinds; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strncmp(p, kind, length) == 0 && (p[length] == ',' || p[length] == 0))
			return true;
	return false;
}

SITE void pace_sleep(uint64_t *next_ns)
{
	uint64_t now = now_ns();
	*next_ns += options.period_ns;
	if (*next_ns <= now) /* late: skip what was missed instead of catching up in a burst */
		*next_ns = now - now % options.period_ns + options.period_ns;
	sleep_until_ns(*next_ns);
	KEEP_FRAME();
}

SITE static void *worker_main(void *arg)
{
	struct worker *w = arg;
	truth_thread_begin(&w->truth, w->name);
	atomic_store(&w->published_tid, w->truth.tid);
	pthread_barrier_wait(&ready);
	w->run(w);
	truth_thread_end(&w->truth);
	return NULL;
}

static double number(const char *text, const char *option, double least)
{
	char *end;
	double value = strtod(text, &end);
	if (*end || end == text || value < least) {
		fprintf(stderr, "waits: %s needs a number of at least %g, not \"%s\"\n", option, least, text);
		exit(2);
	}
	return value;
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "duration", required_argument, 0, 'd' }, { "rate", required_argument, 0, 'r' },
		{ "storm", required_argument, 0, 's' },	   { "hogs", required_argument, 0, 'h' },
		{ "migrate", optional_argument, 0, 'm' },  { "kinds", required_argument, 0, 'k' },
		{ "dir", required_argument, 0, 'D' },	   { "json", required_argument, 0, 'j' },
		{ 0, 0, 0, 0 },
	};
	for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		switch (c) {
		case 'd': options.duration_ns = (uint64_t)(number(optarg, "--duration", 0.001) * NS_PER_SECOND); break;
		case 'r': options.period_ns = (uint64_t)(NS_PER_SECOND / number(optarg, "--rate", 0.01)); break;
		case 's': options.storm_switches = (uint64_t)number(optarg, "--storm", 0); break;
		case 'h': options.hogs = (int)number(optarg, "--hogs", 0); break;
		case 'm': options.migrate_period_ns = (uint64_t)((optarg ? number(optarg, "--migrate", 0.01) : 5) * NS_PER_MS); break;
		case 'k': options.kinds = optarg; break;
		case 'D': options.dir = optarg; break;
		case 'j': options.json = optarg; break;
		default: exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	/* Blocked in every thread, so that sigtimedwait alone takes it. */
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);

	uint64_t start = now_ns();
	add_exchanges();
	add_holds();
	add_solo();
	add_storage();
	add_storm();
	add_migrator();
	pthread_barrier_init(&ready, NULL, (unsigned)workers_used + 1);
	for (int i = 0; i < workers_used; i++)
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0)
			die("pthread_create");
	deadline_ns = now_ns() + options.duration_ns;
	pthread_barrier_wait(&ready);
	for (int i = 0; i < workers_used; i++)
		pthread_join(workers[i].thread, NULL);

	static struct thread_truth truths[WORKERS_MAX];
	long switches = 0;
	for (int i = 0; i < workers_used; i++) {
		truths[i] = workers[i].truth;
		switches += truths[i].voluntary + truths[i].involuntary;
	}
	char more[160];
	uint64_t end = now_ns();
	snprintf(more, sizeof more, "\"start_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64 ",\"switches\":%ld,\"switches_per_s\":%.0f",
		 start, end, switches, (double)switches * 1e9 / (double)(end - start));
	FILE *out = truth_output(options.json);
	truth_print(out, "waits", more, truths, workers_used);
	if (fflush(out) != 0)
		die("cannot write the answer");
	return 0;
}
