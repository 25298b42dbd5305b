/* waits.h - what the parts of `waits` share. See main.c for the program. */
#ifndef DWELL_WAITS_H
#define DWELL_WAITS_H

#include "../truth.h"
#include <pthread.h>
#include <stdatomic.h>

#define WORKERS_MAX 64

struct options {
	uint64_t duration_ns;
	uint64_t period_ns; /* between two waits of one paced thread */
	uint64_t storm_switches; /* target of all storm threads together, per second; 0: none */
	uint64_t migrate_period_ns; /* 0: threads stay where the kernel puts them */
	int hogs;
	const char *dir; /* a folder on a disk, for the waits for storage */
	const char *kinds; /* comma-separated, NULL: all */
	const char *json;
};

extern struct options options;
/* When every thread ends its loop, CLOCK_MONOTONIC ns; set before a thread starts. */
extern uint64_t deadline_ns;

struct worker;
typedef void worker_fn(struct worker *);

/* One thread of the program. */
struct worker {
	const char *name;
	worker_fn *run;
	void *arg;
	pthread_t thread;
	struct thread_truth truth;
	atomic_int published_tid;
};

/* Adds a thread that will run when all are known. */
struct worker *worker_add(const char *name, worker_fn *run, void *arg);
int worker_count(void);
struct worker *worker_at(int i);

/* Was this kind asked for? */
bool kind_wanted(const char *kind);

static inline bool time_left(void) { return now_ns() < deadline_ns; }

/* Sleeps to the next multiple of the period after the thread's own last one. Never inlined: it is a
 * wait site of its own in the threads that pace themselves. */
void pace_sleep(uint64_t *next_ns);

/* The groups of kinds, each in its file; each adds its workers. */
void add_exchanges(void);
void add_holds(void);
void add_solo(void);
void add_storage(void);
void add_storm(void);
void add_migrator(void);

#endif
