/* A team of LLVM's OpenMP whose threads wait for the last to come, and for the next team. */
#include "stopwatch.h"

extern "C" {
int omp_get_thread_num();
void kmp_set_blocktime(int ms);
}

static Stopwatch barrier("OpenMP barrier lock"), idle("OpenMP idle thread idle");
/* When this thread had last done its part in a team. */
static thread_local Clock::time_point left;

SITE static void come_late_in_turn(int thread)
{
	auto wait = [] {
#pragma omp barrier
	};
	for (int i = 0; i < ROUNDS; i++) {
		if (i % 3 == thread) {
			sleep_us(2000);
			wait();
		} else {
			barrier.time(wait);
		}
	}
}

SITE static void come_and_go(int thread)
{
	if (thread != 0)
		idle.add_since(left);
	sleep_us(1000);
	left = Clock::now();
}

int main()
{
	/* Whoever has nothing to do sleeps at once. */
	kmp_set_blocktime(0);
#pragma omp parallel num_threads(3)
	{
		come_late_in_turn(omp_get_thread_num());
		left = Clock::now();
	}
	for (int i = 0; i < ROUNDS / 10; i++) {
		sleep_us(10000);
#pragma omp parallel num_threads(3)
		come_and_go(omp_get_thread_num());
	}
}
