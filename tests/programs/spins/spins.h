/* The labelled corpus of waits on a processor: functions whose names begin with spin_ do nothing but
 * wait while they are running, and functions whose names begin with work_ never wait. */
#ifndef SPINS_H
#define SPINS_H
#include <stdbool.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define LABEL __attribute__((noinline, used))
#define LINE __attribute__((aligned(64)))

struct node {
	struct node *next;
	int locked;
};

/* One lock of every kind; each function uses some of it. */
struct lock {
	int word LINE;
	unsigned next LINE, serving;
	struct node *tail LINE;
	struct node first;
	void *other LINE; /* a pthread lock */
	int spare;
};

/* Held by the main thread before `wait` is called in another, and freed some time later. */
struct wait {
	const char *name;
	void (*hold)(struct lock *);
	void (*wait)(struct lock *);
	void (*free)(struct lock *);
};

/* Runs until *stop. Some run in two threads at a time. */
struct work {
	const char *name;
	void (*run)(volatile int *stop);
	int threads;
};

extern const struct wait waits[], cpp_waits[];
extern const struct work works[];

#ifdef __cplusplus
}
#endif
#endif
