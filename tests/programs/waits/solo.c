/* solo.c - waits that a timer or a child ends, and threads that do not wait at all. */
#include "waits.h"
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

SITE static void wait_nanosleep(void)
{
	/* Half the period, so that the rate asked for is kept when processors are short. */
	sleep_ns(options.period_ns / 2);
	KEEP_FRAME();
}

SITE static void wait_sigtimedwait(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	struct timespec timeout = timespec_of(options.period_ns / 2);
	sigtimedwait(&set, NULL, &timeout);
	KEEP_FRAME();
}

SITE static pid_t start_child(void)
{
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_NAME, "child-of-waits");
		sleep_ns(options.period_ns);
		_exit(0);
	}
	if (child < 0)
		die("fork");
	return child;
}

SITE static void wait_child(pid_t child)
{
	int status;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	KEEP_FRAME();
}

SITE static void yield_processor(void)
{
	sched_yield();
	KEEP_FRAME();
}

SITE static void hog_processor(void)
{
	spin_cpu_ns(NS_PER_MS);
	KEEP_FRAME();
}

SITE static void run_nanosleep(struct worker *w)
{
	int site = truth_site(&w->truth, "wait_nanosleep", "clock_nanosleep", "sleep", "");
	truth_loop_begin(&w->truth);
	while (time_left()) {
		struct wait_stamp before = truth_before(&w->truth, site);
		wait_nanosleep();
		truth_after(&w->truth, site, before);
	}
	truth_loop_end(&w->truth);
}

SITE static void run_sigtimedwait(struct worker *w)
{
	int site = truth_site(&w->truth, "wait_sigtimedwait", "rt_sigtimedwait", "sleep", "");
	truth_loop_begin(&w->truth);
	while (time_left()) {
		struct wait_stamp before = truth_before(&w->truth, site);
		wait_sigtimedwait();
		truth_after(&w->truth, site, before);
	}
	truth_loop_end(&w->truth);
}

SITE static void run_child(struct worker *w)
{
	/* start_child can wait too, for the lock of the address space; so it is a site. */
	int wait = truth_site(&w->truth, "wait_child", "wait4", "child", "child-of-waits");
	int start = truth_site(&w->truth, "start_child", "clone", "other", "");
	truth_loop_begin(&w->truth);
	while (time_left()) {
		struct wait_stamp before = truth_before(&w->truth, start);
		pid_t child = start_child();
		truth_after(&w->truth, start, before);
		before = truth_before(&w->truth, wait);
		wait_child(child);
		truth_after(&w->truth, wait, before);
	}
	truth_loop_end(&w->truth);
}

/* No site: such a thread runs or is runnable, and its true blocked time is 0. What loop_blocked_ns
 * shows for it is what the clocks of this machine cannot account for. */
SITE static void run_yield(struct worker *w)
{
	truth_loop_begin(&w->truth);
	while (time_left())
		yield_processor();
	truth_loop_end(&w->truth);
}

SITE static void run_hog(struct worker *w)
{
	truth_loop_begin(&w->truth);
	while (time_left())
		hog_processor();
	truth_loop_end(&w->truth);
}

void add_solo(void)
{
	if (kind_wanted("nanosleep"))
		worker_add("nanosleep", run_nanosleep, NULL);
	if (kind_wanted("sigtimedwait"))
		worker_add("sigtimedwait", run_sigtimedwait, NULL);
	if (kind_wanted("child"))
		worker_add("child", run_child, NULL);
	if (kind_wanted("yield"))
		worker_add("yield", run_yield, NULL);
	if (kind_wanted("hog"))
		for (int i = 0; i < options.hogs; i++)
			worker_add("hog", run_hog, NULL);
}
