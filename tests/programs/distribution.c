/*
 * distribution - call sites whose waits have known, very different lengths.
 *
 * What it does: each thread visits its sites in a random order (seeded):
 *   wait_mostly_short  99 % 100 us, 1 % 20 ms     wait_rare_long     99.9 % 60 us, 0.1 % 80 ms
 *   wait_constant      400 us                     wait_exponential   mean 1 ms
 *   wait_two_sizes     50 % 200 us, 50 % 3 ms     burn_briefly       80 us of processor time
 *   burn_at_length     1 % 10 ms of processor time, else 20 us
 *
 * Its true answer (JSON): per thread and site the number of visits, `blocked_ns` (exact; see truth.h)
 * and for the two burning sites `cpu_ns` (in "burns"). A sampling profile must estimate each of these
 * sums without bias, over many seeds.
 *
 * Usage: distribution [SEED=1] [SECONDS=3] [THREADS=2] [JSON-FILE]
 */
#include "truth.h"
#include <math.h>
#include <pthread.h>

enum { THREADS_MAX = 16, BURNS = 2 };

static double seconds = 3;

struct visitor {
	uint64_t random;
	pthread_t thread;
	uint64_t burnt_ns[BURNS], burn_visits[BURNS];
};
static struct visitor visitors[THREADS_MAX];
static struct thread_truth truths[THREADS_MAX];

/* Uniform in (0, 1): splitmix64. */
static double uniform(struct visitor *v)
{
	uint64_t x = v->random += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return ((double)((x ^ (x >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

#define US *NS_PER_US
#define MS *NS_PER_MS

static uint64_t mostly_short(struct visitor *v) { return uniform(v) < 0.99 ? 100 US : 20 MS; }
static uint64_t rare_long(struct visitor *v) { return uniform(v) < 0.999 ? 60 US : 80 MS; }
static uint64_t constant(struct visitor *v) { (void)v; return 400 US; }
static uint64_t exponential(struct visitor *v) { return (uint64_t)(-log(uniform(v)) * (1 MS)); }
static uint64_t two_sizes(struct visitor *v) { return uniform(v) < 0.5 ? 200 US : 3 MS; }
static uint64_t briefly(struct visitor *v) { (void)v; return 80 US; }
static uint64_t at_length(struct visitor *v) { return uniform(v) < 0.99 ? 20 US : 10 MS; }

/* Each its own function: the sites must differ in the stack, not only in the caller's mind. */
SITE static void wait_mostly_short(uint64_t ns) { sleep_ns(ns); KEEP_FRAME(); }
SITE static void wait_rare_long(uint64_t ns) { sleep_ns(ns); KEEP_FRAME(); }
SITE static void wait_constant(uint64_t ns) { sleep_ns(ns); KEEP_FRAME(); }
SITE static void wait_exponential(uint64_t ns) { sleep_ns(ns); KEEP_FRAME(); }
SITE static void wait_two_sizes(uint64_t ns) { sleep_ns(ns); KEEP_FRAME(); }
SITE static void burn_briefly(uint64_t ns) { spin_cpu_ns(ns); KEEP_FRAME(); }
SITE static void burn_at_length(uint64_t ns) { spin_cpu_ns(ns); KEEP_FRAME(); }

static const struct place {
	const char *function;
	uint64_t (*length)(struct visitor *);
	void (*stay)(uint64_t ns);
	double frequency; /* share of the visits */
} places[] = {
	{ "wait_mostly_short", mostly_short, wait_mostly_short, 0.25 },
	{ "wait_rare_long", rare_long, wait_rare_long, 0.25 },
	{ "wait_constant", constant, wait_constant, 0.15 },
	{ "wait_exponential", exponential, wait_exponential, 0.10 },
	{ "wait_two_sizes", two_sizes, wait_two_sizes, 0.05 },
	{ "burn_briefly", briefly, burn_briefly, 0.10 },
	{ "burn_at_length", at_length, burn_at_length, 0.10 },
};
enum { PLACES = sizeof places / sizeof *places, WAITS = PLACES - BURNS };

static int choose_place(struct visitor *v)
{
	double u = uniform(v);
	int i = 0;
	for (; i < PLACES - 1 && u >= places[i].frequency; i++)
		u -= places[i].frequency;
	return i;
}

static void visit_wait(struct visitor *v, struct thread_truth *t, int place)
{
	uint64_t ns = places[place].length(v);
	struct wait_stamp before = truth_before(t, place);
	places[place].stay(ns);
	truth_after(t, place, before);
}

static void visit_burn(struct visitor *v, int place)
{
	uint64_t ns = places[place].length(v), before = thread_cpu_ns();
	places[place].stay(ns);
	v->burnt_ns[place - WAITS] += thread_cpu_ns() - before;
	v->burn_visits[place - WAITS]++;
}

SITE static void *visit_places(void *arg)
{
	struct visitor *v = arg;
	struct thread_truth *t = &truths[v - visitors];
	char name[16];
	snprintf(name, sizeof name, "visitor-%d", (int)(v - visitors));
	truth_thread_begin(t, name);
	for (int i = 0; i < WAITS; i++)
		truth_site(t, places[i].function, "clock_nanosleep", "sleep", "");
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	truth_loop_begin(t);
	while (now_ns() < end) {
		int place = choose_place(v);
		if (place < WAITS)
			visit_wait(v, t, place);
		else
			visit_burn(v, place);
	}
	truth_loop_end(t);
	truth_thread_end(t);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	seconds = argc > 2 ? atof(argv[2]) : seconds;
	int threads = argc > 3 ? atoi(argv[3]) : 2;
	if (threads < 1 || threads > THREADS_MAX) {
		fprintf(stderr, "distribution: 1 to %d threads\n", THREADS_MAX);
		return 2;
	}
	for (int i = 0; i < threads; i++) {
		visitors[i].random = seed * 1000003 + (uint64_t)i;
		pthread_create(&visitors[i].thread, NULL, visit_places, &visitors[i]);
	}
	char more[4096];
	int used = 0;
	for (int i = 0; i < threads; i++)
		pthread_join(visitors[i].thread, NULL);
	used += snprintf(more + used, sizeof more - (size_t)used, "\"seed\":%" PRIu64 ",\"burns\":[", seed);
	for (int i = 0; i < threads; i++)
		for (int b = 0; b < BURNS; b++)
			used += snprintf(more + used, sizeof more - (size_t)used,
					 "%s{\"tid\":%d,\"function\":\"%s\",\"visits\":%" PRIu64 ",\"cpu_ns\":%" PRIu64 "}",
					 i + b ? "," : "", truths[i].tid, places[WAITS + b].function,
					 visitors[i].burn_visits[b], visitors[i].burnt_ns[b]);
	snprintf(more + used, sizeof more - (size_t)used, "]");
	FILE *out = truth_output(argc > 4 ? argv[4] : NULL);
	truth_print(out, "distribution", more, truths, threads);
	return fflush(out) != 0;
}
