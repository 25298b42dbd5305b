/*
 * habits: programs with a bad habit that `dwell findings` is to name, each with a healthy twin that does the same work.
 *
 *     habits HABIT sick|healthy [--seconds S] [--threads N] [--batch B] [--timed 0]
 *
 *     --timed 0: spin-convoy does not read the clock at each acquisition
 *
 *     allocation-churn              gets, fills and gives back memory over and over (healthy: keeps it)
 *     first-touch                   each job fills the fresh memory of a process of its own (healthy: of the same process)
 *     shootdown-storm               changes the protection of pages one by one (healthy: together) while a thread computes
 *     synchronous-io                a server writes to disk before it answers (healthy: another thread does)
 *     priority-inversion            a thread that gives way has the mutex that another needs (healthy: does not give way)
 *     dynamic-loading               starts programs with thousands of symbols to look up (healthy: linked statically)
 *     wake-up-storm                 a thread is woken for each unit of work (healthy: for many)
 *     serial-thread                 one thread prepares what the others finish (healthy: each for itself)
 *     spin-convoy                   threads take pages to clear from a queue behind a spin lock, one (healthy: many) at a time
 *     lock-held-while-asleep        threads sleep with the mutex that all need (healthy: without it)
 *     lock-serialises-pool          threads compute with the mutex that all need (healthy: without it)
 *     more-threads-than-processors  four threads compute for each processor (healthy: one)
 *     polling-by-sleeping           a thread looks for work every millisecond (healthy: waits for it)
 *
 * Truth: one line of JSON.
 */
#include "habits.h"
#include <stdlib.h>
#include <x86intrin.h>

enum { PAGE = 4096, THREADS_MAX = 64, HEALTHY_BATCH = 64, SLEPT_US = 25000, THREADS_PER_CPU = 4 };

int sick;
int threads = 2;
long batch = 1;
static double seconds = 2;
static int timed = 1;
atomic_bool over;

static struct worker workers[THREADS_MAX];
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t news = PTHREAD_COND_INITIALIZER;

/* ---- spin-convoy ---- */

static _Alignas(64) atomic_int word;
static _Alignas(64) volatile uint64_t taken;

/* A processor reads its clock before it has what it was asked to load before, unless it is told to wait. */
static inline uint64_t cycles_now(void)
{
	_mm_lfence();
	return __rdtsc();
}

/* Returns the cycles that it found the lock taken: acquiring a free one, however dear, is not waiting. */
static SITE uint64_t lock_queue(void)
{
	uint64_t waited = 0;
	for (;;) {
		if (atomic_load_explicit(&word, memory_order_relaxed)) {
			uint64_t from = cycles_now();
			while (atomic_load_explicit(&word, memory_order_relaxed))
				__builtin_ia32_pause();
			waited += cycles_now() - from;
		}
		if (!atomic_exchange_explicit(&word, 1, memory_order_acquire))
			return waited;
	}
}

static SITE void unlock_queue(void) { atomic_store_explicit(&word, 0, memory_order_release); }

/* What is done with the lock held takes several times as long as the work, and both longer than to fetch what another
 * processor wrote: so threads meet at the lock, however near their processors are. Each of the two has less of it than the
 * spinning. */
enum { HELD_STEPS = 384 };

static SITE uint64_t choose_pages(uint64_t pages)
{
	for (int i = 0; i < HELD_STEPS; i++)
		pages = (pages ^ (uint64_t)i) * 1099511628211u;
	return pages;
}

static SITE uint64_t unlink_pages(uint64_t pages)
{
	for (int i = 0; i < HELD_STEPS; i++)
		pages = (pages + (uint64_t)i) * 1099511628211u;
	return pages;
}

static SITE void clear(char *page)
{
	for (int i = 0; i < PAGE; i += (int)sizeof(long))
		*(volatile long *)(page + i) = 0;
}

static void take_pages(struct worker *w)
{
	/* A longer wait is one that the thread had no processor in. */
	enum { LONGEST = 10000000 };
	char page[PAGE];
	uint64_t begun = __rdtsc();
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		uint64_t from = timed ? cycles_now() : 0;
		uint64_t waited = lock_queue();
		uint64_t acquiring = timed ? cycles_now() - from : 0;
		taken = unlink_pages(choose_pages(taken + (uint64_t)batch));
		unlock_queue();
		if (acquiring < LONGEST) {
			w->waited += waited;
			w->acquiring += acquiring;
		}
		for (long i = 0; i < batch; i++)
			clear(page);
		w->units += (uint64_t)batch;
	}
	w->cycles = __rdtsc() - begun;
}

/* ---- mutexes ---- */

static volatile uint64_t sink;

SITE void compute(uint64_t ns)
{
	uint64_t hash = 14695981039346656037u;
	for (uint64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;)
		for (int i = 0; i < 1000; i++)
			hash = (hash ^ (uint64_t)i) * 1099511628211u;
	sink = hash;
}

static SITE void lock_timed(struct worker *w)
{
	uint64_t from = now_ns();
	pthread_mutex_lock(&mutex);
	w->waited += now_ns() - from;
}

static SITE void rest(void) { usleep(SLEPT_US); }

static void sleep_with_lock(struct worker *w)
{
	while (!over) {
		lock_timed(w);
		compute(20000);
		if (sick)
			rest();
		pthread_mutex_unlock(&mutex);
		if (!sick)
			rest();
		compute(100000);
		w->units++;
	}
}

static void compute_with_lock(struct worker *w)
{
	while (!over) {
		lock_timed(w);
		compute(sick ? 900000 : 5000);
		pthread_mutex_unlock(&mutex);
		compute(sick ? 100000 : 995000);
		w->units++;
	}
}

static void compute_only(struct worker *w)
{
	while (!over) {
		compute(1000000);
		w->units++;
	}
}

static SITE void look_for_work(struct worker *w)
{
	while (!over) {
		usleep(1000);
		w->units++;
	}
}

static SITE void wait_for_work(struct worker *w)
{
	pthread_mutex_lock(&mutex);
	while (!over) {
		pthread_cond_wait(&news, &mutex);
		w->units++;
	}
	pthread_mutex_unlock(&mutex);
}

static void poll_or_wait(struct worker *w)
{
	if (sick)
		look_for_work(w);
	else
		wait_for_work(w);
}

/* ---- all ---- */

struct habit {
	const char *name;
	void (*body)(struct worker *);
};

static const struct habit HABITS[] = {
	{ "allocation-churn", get_and_give_back },
	{ "first-touch", start_afresh },
	{ "shootdown-storm", change_protection },
	{ "synchronous-io", answer_requests },
	{ "priority-inversion", want_in_vain },
	{ "dynamic-loading", start_programs },
	{ "wake-up-storm", wake_each_other },
	{ "serial-thread", hand_out },
	{ "spin-convoy", take_pages },
	{ "lock-held-while-asleep", sleep_with_lock },
	{ "lock-serialises-pool", compute_with_lock },
	{ "more-threads-than-processors", compute_only },
	{ "polling-by-sleeping", poll_or_wait },
};
static const struct habit *habit;

static void *work(void *argument)
{
	struct worker *w = argument;
	char name[16];
	snprintf(name, sizeof name, "worker-%d", w->number);
	prctl(PR_SET_NAME, name);
	habit->body(w);
	w->cpu_ns = thread_cpu_ns();
	return NULL;
}

static void usage(void)
{
	fprintf(stderr, "usage: habits HABIT sick|healthy [--seconds S] [--threads N] [--batch B] [--timed 0]\n");
	exit(2);
}

static void parse(int argc, char **argv)
{
	for (size_t i = 0; argc > 2 && i < sizeof HABITS / sizeof *HABITS; i++)
		if (!strcmp(argv[1], HABITS[i].name))
			habit = &HABITS[i];
	if (!habit)
		usage();
	sick = !strcmp(argv[2], "sick");
	if (!sick && strcmp(argv[2], "healthy"))
		usage();
	batch = sick ? 1 : HEALTHY_BATCH;
	if (habit->body == sleep_with_lock || habit->body == compute_with_lock)
		threads = 3;
	if (habit->body == compute_only)
		threads = (int)sysconf(_SC_NPROCESSORS_ONLN) * (sick ? THREADS_PER_CPU : 1);
	if (habit->body == want_in_vain || habit->body == hand_out)
		threads = 3;
	if (habit->body == answer_requests)
		threads = sick ? 2 : 3;
	if (habit->body == poll_or_wait || habit->body == get_and_give_back || habit->body == start_afresh ||
	    habit->body == start_programs)
		threads = 1;
	for (int i = 3; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seconds"))
			seconds = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--threads"))
			threads = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--batch"))
			batch = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--timed"))
			timed = atoi(argv[i + 1]);
		else
			usage();
	}
	if (threads < 1 || threads > THREADS_MAX || batch < 1)
		usage();
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	uint64_t begun = now_ns();
	for (int i = 0; i < threads; i++) {
		workers[i].number = i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("pthread_create");
	}
	usleep((useconds_t)(seconds * 1e6));
	over = true;
	pthread_mutex_lock(&mutex);
	pthread_cond_broadcast(&news);
	pthread_mutex_unlock(&mutex);
	uint64_t cpu_ns = 0, waited = 0, acquiring = 0, cycles = 0, units = 0;
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		cpu_ns += workers[i].cpu_ns;
		waited += workers[i].waited;
		acquiring += workers[i].acquiring;
		cycles += workers[i].cycles;
		units += workers[i].units;
	}
	struct rusage children;
	getrusage(RUSAGE_CHILDREN, &children);
	cpu_ns += (uint64_t)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) * NS_PER_SECOND;
	cpu_ns += (uint64_t)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) * NS_PER_US;
	printf("{\"habit\":\"%s\",\"threads\":%d,\"batch\":%ld,\"wall_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64
	       ",\"waited\":%" PRIu64 ",\"acquiring\":%" PRIu64 ",\"cycles\":%" PRIu64 ",\"units\":%" PRIu64 ",\"last_cpu_ns\":%" PRIu64 "}\n",
	       habit->name, threads, batch, now_ns() - begun, cpu_ns, waited, acquiring, cycles, units,
	       workers[threads - 1].cpu_ns);
	return 0;
}
