/* Threads that wait for locks, a queue and the workers of oneTBB. */
#include "stopwatch.h"
#include <oneapi/tbb/concurrent_queue.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/mutex.h>
#include <oneapi/tbb/parallel_for.h>

static Stopwatch mutex("TBB mutex lock"), queue("TBB concurrent_bounded_queue idle");
static tbb::mutex hot;
static tbb::concurrent_bounded_queue<int> jobs;

/* Who waits spins for more than 1 ms first. */
SITE static void want_mutex()
{
	take_turns(mutex, [] { hot.lock(); }, [] { hot.unlock(); }, ROUNDS / 10, 30000);
}

SITE static void make()
{
	for (int i = 0; i < ROUNDS; i++) {
		sleep_us(2000);
		jobs.push(i);
	}
}

SITE static void take()
{
	for (int i = 0, job; i < ROUNDS; i++)
		queue.time([&job] { jobs.pop(job); });
}

/* Most of the work is one part, which may be the main thread's or a worker's; workers sleep between the loops. */
SITE static void loops()
{
	for (int round = 0; round < ROUNDS / 10; round++) {
		tbb::parallel_for(0, 4, [](int part) { sleep_us(part == 3 ? 10000 : 1000); });
		sleep_us(10000);
	}
}

int main()
{
	tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 3);
	together(want_mutex, want_mutex);
	together(make, take);
	loops();
}
