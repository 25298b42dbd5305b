/*
 * signals - stacks that lead through a signal handler.
 *
 * What it does: a thread computes in interrupted_compute() and is sent SIGUSR1 every millisecond. In
 * mode
 *   normal   on_signal() runs on the thread's own stack,
 *   altstack on one of its own (sigaltstack),
 *   nested   on_signal() raises SIGUSR2, whose handler on_nested_signal() runs on top of it,
 *   asleep   the signal arrives in sleep_interrupted() instead, inside a system call.
 * Every handler computes 200 us in compute_in_handler() and sleeps 200 us in sleep_in_handler().
 *
 * Its true answer (one JSON line): the number of handlers run, and their processor and sleep time.
 * Every stack with compute_in_handler or sleep_in_handler also holds on_signal, the function that
 * was interrupted, run_target, and the thread's start.
 *
 * Usage: signals [normal|altstack|nested|asleep] [SECONDS=2]
 */
#include "truth.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static bool use_altstack, nested, asleep;
static atomic_long handled, handler_cpu_ns, handler_sleep_ns;
static atomic_bool stop;
static atomic_int target_ready;
static volatile uint64_t sink;

SITE static void compute_in_handler(void)
{
	uint64_t before = thread_cpu_ns();
	spin_cpu_ns(200 * NS_PER_US);
	atomic_fetch_add(&handler_cpu_ns, (long)(thread_cpu_ns() - before));
}

SITE static void sleep_in_handler(void)
{
	uint64_t before = now_ns();
	struct timespec t = timespec_of(200 * NS_PER_US);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	atomic_fetch_add(&handler_sleep_ns, (long)(now_ns() - before));
}

SITE static void on_nested_signal(int signal)
{
	(void)signal;
	compute_in_handler();
	sleep_in_handler();
	atomic_fetch_add(&handled, 1);
}

SITE static void on_signal(int signal)
{
	int saved = errno;
	(void)signal;
	if (nested)
		raise(SIGUSR2);
	compute_in_handler();
	sleep_in_handler();
	atomic_fetch_add(&handled, 1);
	errno = saved;
}

SITE static void interrupted_compute(void)
{
	uint64_t x = sink;
	while (!atomic_load(&stop))
		for (int i = 0; i < 100000; i++)
			x = x * 6364136223846793005ull + 1442695040888963407ull;
	sink = x;
}

SITE static void sleep_interrupted(void)
{
	while (!atomic_load(&stop)) {
		struct timespec t = timespec_of(50 * NS_PER_MS);
		nanosleep(&t, NULL); /* EINTR is the point */
	}
	KEEP_FRAME();
}

SITE static void *run_target(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "target");
	if (use_altstack) {
		stack_t stack = { .ss_sp = malloc(256 * 1024), .ss_size = 256 * 1024 };
		if (!stack.ss_sp || sigaltstack(&stack, NULL) != 0)
			die("sigaltstack");
	}
	atomic_store(&target_ready, 1);
	/* Their loops are their own, so that no signal finds the thread between two calls. */
	if (asleep)
		sleep_interrupted();
	else
		interrupted_compute();
	KEEP_FRAME();
	return NULL;
}

static void install(int signal, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = use_altstack ? SA_ONSTACK : 0 };
	sigemptyset(&action.sa_mask);
	if (sigaction(signal, &action, NULL) != 0)
		die("sigaction");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "normal";
	double seconds = argc > 2 ? atof(argv[2]) : 2;
	use_altstack = strcmp(mode, "altstack") == 0;
	nested = strcmp(mode, "nested") == 0;
	asleep = strcmp(mode, "asleep") == 0;
	if (!use_altstack && !nested && !asleep && strcmp(mode, "normal") != 0) {
		fprintf(stderr, "signals: unknown mode \"%s\"; use normal, altstack, nested or asleep\n", mode);
		return 2;
	}
	install(SIGUSR1, on_signal);
	install(SIGUSR2, on_nested_signal);
	pthread_t target;
	pthread_create(&target, NULL, run_target, NULL);
	while (!atomic_load(&target_ready))
		sleep_ns(NS_PER_MS);
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	while (now_ns() < end) {
		sleep_ns(NS_PER_MS);
		pthread_kill(target, SIGUSR1);
	}
	atomic_store(&stop, true);
	pthread_join(target, NULL);
	printf("{\"program\":\"signals\",\"mode\":\"%s\",\"handled\":%ld,\"handler_cpu_ns\":%ld,\"handler_sleep_wall_ns\":%ld}\n",
	       mode, atomic_load(&handled), atomic_load(&handler_cpu_ns), atomic_load(&handler_sleep_ns));
	return 0;
}
