/* migrate.c - a thread that forces all others from one processor to another. */
#include "waits.h"
#include <sched.h>

SITE static void migrate_thread(pid_t tid, int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(tid, sizeof set, &set); /* a thread that has just ended is no error */
	KEEP_FRAME();
}

SITE static void sleep_between_migrations(void)
{
	sleep_ns(options.migrate_period_ns);
	KEEP_FRAME();
}

/* The first two processors this process may use; false when there is only one. */
static bool two_processors(int cpus[2])
{
	cpu_set_t allowed;
	int found = 0;
	sched_getaffinity(getpid(), sizeof allowed, &allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			cpus[found++] = cpu;
	return found == 2;
}

SITE static void run_migrator(struct worker *w)
{
	struct thread_truth *t = &w->truth;
	int *cpus = w->arg;
	int move = truth_site(t, "migrate_thread", "sched_setaffinity", "other", "");
	int rest = truth_site(t, "sleep_between_migrations", "clock_nanosleep", "sleep", "");
	truth_loop_begin(t);
	for (unsigned round = 0; time_left(); round++) {
		struct wait_stamp before = truth_before(t, rest);
		sleep_between_migrations();
		truth_after(t, rest, before);
		for (int i = 0; i < worker_count(); i++) {
			struct worker *other = worker_at(i);
			if (other == w)
				continue;
			before = truth_before(t, move);
			migrate_thread(atomic_load(&other->published_tid), cpus[(round + (unsigned)i) & 1]);
			truth_after(t, move, before);
		}
	}
	truth_loop_end(t);
}

void add_migrator(void)
{
	static int cpus[2];
	if (!options.migrate_period_ns)
		return;
	if (!two_processors(cpus)) {
		fprintf(stderr, "waits: --migrate is left out: there is one processor\n");
		return;
	}
	worker_add("migrator", run_migrator, cpus);
}
