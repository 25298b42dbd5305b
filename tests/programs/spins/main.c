/* Runs every wait and every work of the corpus for as many milliseconds as the first argument says. */
#define _GNU_SOURCE
#include "spins.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void sleep_ms(long ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&time, NULL);
}

struct waiter {
	const struct wait *wait;
	struct lock lock;
};

static void *run_wait(void *argument)
{
	struct waiter *waiter = argument;
	waiter->wait->wait(&waiter->lock);
	return NULL;
}

static void all_waits(const struct wait *wait, long ms)
{
	for (; wait->name; wait++) {
		struct waiter waiter = {.wait = wait};
		pthread_t thread;
		wait->hold(&waiter.lock);
		pthread_create(&thread, NULL, run_wait, &waiter);
		sleep_ms(ms);
		wait->free(&waiter.lock);
		pthread_join(thread, NULL);
	}
}

struct worker {
	const struct work *work;
	volatile int stop;
};

static void *run_work(void *argument)
{
	struct worker *worker = argument;
	worker->work->run(&worker->stop);
	return NULL;
}

static void all_works(const struct work *work, long ms)
{
	for (; work->name; work++) {
		struct worker worker = {.work = work};
		pthread_t threads[2];
		for (int i = 0; i < work->threads; i++)
			pthread_create(&threads[i], NULL, run_work, &worker);
		sleep_ms(ms);
		worker.stop = 1;
		for (int i = 0; i < work->threads; i++)
			pthread_join(threads[i], NULL);
	}
}

int main(int count, char **arguments)
{
	long ms = count > 1 ? atol(arguments[1]) : 100;
	all_waits(waits, ms);
	all_waits(cpp_waits, ms);
	all_works(works, ms);
	return 0;
}
