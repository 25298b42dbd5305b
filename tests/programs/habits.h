/* What the habits share: see habits.c. */
#ifndef DWELL_HABITS_H
#define DWELL_HABITS_H

#include "truth.h"
#include <pthread.h>
#include <stdatomic.h>

struct worker {
	pthread_t thread;
	int number;
	uint64_t cpu_ns;
	uint64_t waited; /* what it waited: cycles that it found the lock taken, or ns */
	uint64_t acquiring; /* cycles until it had the lock, these among them */
	uint64_t cycles; /* of the loop */
	uint64_t units;
};

extern int sick;
extern int threads;
extern long batch;
extern atomic_bool over;
extern pthread_mutex_t mutex;
extern pthread_cond_t news;

/* Runs for so long on a processor, ns. */
void compute(uint64_t ns);

/* habits_memory.c */
void get_and_give_back(struct worker *);
void start_afresh(struct worker *);
void change_protection(struct worker *);

/* habits_kernel.c */
/* Keeps the calling thread on this processor. */
void run_on(int cpu);
void answer_requests(struct worker *);
void want_in_vain(struct worker *);
void start_programs(struct worker *);
void wake_each_other(struct worker *);
void hand_out(struct worker *);

#endif
