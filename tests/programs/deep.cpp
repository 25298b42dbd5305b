/*
 * deep - stacks that are hard to walk: long, wide, unwound by the language, of unknown size.
 *
 * What it does, for SECONDS in the mode asked for:
 *   recursion   descend() calls itself DEPTH times (default 1000) and computes and sleeps at the bottom
 *   frames      the same with wide_frame(), whose frame holds 100 KiB (its thread's stack is sized for it)
 *   exceptions  throw_at() throws through 50 frames of rise(); catch_it() catches; half of the throws
 *               rest 1 ms in a destructor while the exception is on its way
 *   alloca      grow() takes 64 to 4 096 bytes by alloca before it calls itself, DEPTH times
 *
 * Its true answer (one JSON line): at the bottom the stack holds `frames` frames of `function`, below
 * them run_mode, the thread's start and clone3; half of the time there is processor time
 * (compute_at_bottom), half is sleep (sleep_at_bottom).
 *
 * Usage: deep MODE [SECONDS=2] [DEPTH]
 */
#include "truth.h"
#include <alloca.h>
#include <pthread.h>
#include <stdexcept>

static int depth = 1000;
static double seconds = 2;
static const char *mode;
static long visits;

SITE static void compute_at_bottom() { spin_cpu_ns(2 * NS_PER_MS); KEEP_FRAME(); }
SITE static void sleep_at_bottom() { sleep_ns(2 * NS_PER_MS); KEEP_FRAME(); }

SITE static void bottom()
{
	compute_at_bottom();
	sleep_at_bottom();
	visits++;
}

SITE static void descend(int left)
{
	if (left <= 1)
		bottom();
	else
		descend(left - 1);
	KEEP_FRAME();
}

SITE static void wide_frame(int left)
{
	volatile char ballast[100 * 1024];
	ballast[0] = (char)left;
	if (left <= 1)
		bottom();
	else
		wide_frame(left - 1);
	ballast[sizeof ballast - 1] = ballast[0];
}

SITE static void grow(int left)
{
	size_t size = 64 + (size_t)(left * 37 % 4033);
	volatile char *ballast = static_cast<char *>(alloca(size));
	ballast[0] = (char)left;
	if (left <= 1)
		bottom();
	else
		grow(left - 1);
	ballast[size - 1] = ballast[0];
}

/* Its destructor runs while the unwinder of the language is at work. */
struct Guard {
	bool slow;
	SITE ~Guard()
	{
		if (slow)
			sleep_at_bottom();
	}
};

SITE static void throw_at() { throw std::runtime_error("at the bottom"); }

SITE static void rise(int left, bool slow)
{
	Guard guard{slow && left == 1};
	if (left <= 1)
		throw_at();
	else
		rise(left - 1, slow);
	KEEP_FRAME();
}

SITE static void catch_it(bool slow)
{
	try {
		rise(depth, slow);
	} catch (const std::runtime_error &) {
		compute_at_bottom();
		visits++;
	}
}

SITE static void run_mode()
{
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	bool slow = false;
	while (now_ns() < end) {
		if (strcmp(mode, "recursion") == 0)
			descend(depth);
		else if (strcmp(mode, "frames") == 0)
			wide_frame(depth);
		else if (strcmp(mode, "alloca") == 0)
			grow(depth);
		else
			catch_it(slow = !slow);
	}
}

SITE static void *run_thread(void *)
{
	prctl(PR_SET_NAME, mode);
	run_mode();
	KEEP_FRAME();
	return nullptr;
}

int main(int argc, char **argv)
{
	static const char *const modes[][2] = {
		{"recursion", "descend"}, {"frames", "wide_frame"}, {"exceptions", "rise"}, {"alloca", "grow"}};
	const char *function = nullptr;
	mode = argc > 1 ? argv[1] : "recursion";
	for (auto &m : modes)
		if (strcmp(m[0], mode) == 0)
			function = m[1];
	if (!function) {
		fprintf(stderr, "deep: unknown mode \"%s\"; use recursion, frames, exceptions or alloca\n", mode);
		return 2;
	}
	seconds = argc > 2 ? atof(argv[2]) : seconds;
	depth = argc > 3 ? atoi(argv[3]) : strcmp(mode, "exceptions") == 0 ? 50 : depth;

	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	size_t frame = strcmp(mode, "frames") == 0 ? 101 * 1024 : 8 * 1024;
	pthread_attr_setstacksize(&attributes, (size_t)depth * frame + (1 << 20));
	pthread_t thread;
	if (pthread_create(&thread, &attributes, run_thread, nullptr) != 0)
		die("pthread_create");
	pthread_join(thread, nullptr);
	printf("{\"program\":\"deep\",\"mode\":\"%s\",\"function\":\"%s\",\"frames\":%d,\"visits\":%ld}\n", mode, function,
	       depth, visits);
	return 0;
}
