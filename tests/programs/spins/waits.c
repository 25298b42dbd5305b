/* Waits, as lock implementations have them. */
#define _GNU_SOURCE
#include "spins.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define load(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define swap(p, v) __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL)

static inline void relax(void) { __builtin_ia32_pause(); }

static bool cas(int *word, int old, int new)
{
	return __atomic_compare_exchange_n(word, &old, new, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void hold_word(struct lock *l) { store(&l->word, 1); }
static void free_word(struct lock *l) { store(&l->word, 0); }

LABEL void spin_tas(struct lock *l)
{
	while (swap(&l->word, 1))
		;
}

LABEL void spin_tas_pause(struct lock *l)
{
	while (swap(&l->word, 1))
		relax();
}

LABEL void spin_tas_bit(struct lock *l)
{
	while (__atomic_fetch_or(&l->word, 1, __ATOMIC_ACQUIRE) & 1)
		;
}

LABEL void spin_ttas(struct lock *l)
{
	while (swap(&l->word, 1))
		while (load(&l->word))
			;
}

LABEL void spin_ttas_read_first(struct lock *l)
{
	for (;;) {
		while (load(&l->word))
			relax();
		if (!swap(&l->word, 1))
			return;
	}
}

LABEL void spin_ttas_backoff(struct lock *l)
{
	unsigned backoff = 1;
	while (load(&l->word) || swap(&l->word, 1)) {
		for (unsigned i = 0; i < backoff; i++)
			relax();
		if (backoff < 1024)
			backoff *= 2;
	}
}

LABEL void spin_cas(struct lock *l)
{
	while (!cas(&l->word, 0, 1))
		;
}

LABEL void spin_cas_pause(struct lock *l)
{
	while (!cas(&l->word, 0, 1))
		relax();
}

LABEL void spin_cas_yield(struct lock *l)
{
	unsigned tries = 0;
	while (load(&l->word) || !cas(&l->word, 0, 1)) {
		if (++tries % 64)
			relax();
		else
			sched_yield();
	}
}

/* Counts how often it tried, as adaptive locks do. */
LABEL void spin_limited(struct lock *l)
{
	for (;;) {
		for (int tries = 0; tries < 2000; tries++) {
			if (!load(&l->word) && cas(&l->word, 0, 1))
				return;
			relax();
		}
		sched_yield();
	}
}

static void hold_ticket(struct lock *l) { __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED); }
static void free_ticket(struct lock *l) { store(&l->serving, l->serving + 1); }

LABEL void spin_ticket(struct lock *l)
{
	unsigned mine = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);
	while (load(&l->serving) != mine)
		;
}

LABEL void spin_ticket_pause(struct lock *l)
{
	unsigned mine = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);
	while (load(&l->serving) != mine)
		relax();
}

LABEL void spin_ticket_proportional(struct lock *l)
{
	unsigned mine = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED), now;
	while ((now = load(&l->serving)) != mine)
		for (unsigned i = (mine - now) * 50; i > 0; i--)
			relax();
}

static void hold_queue(struct lock *l)
{
	l->first = (struct node){0};
	store(&l->tail, &l->first);
}

static void free_queue(struct lock *l)
{
	struct node *next;
	while (!(next = load(&l->first.next)))
		sched_yield();
	store(&next->locked, 0);
}

LABEL void spin_mcs(struct lock *l)
{
	struct node own = {.locked = 1};
	struct node *before = swap(&l->tail, &own);
	store(&before->next, &own);
	while (load(&own.locked))
		;
}

LABEL void spin_mcs_pause(struct lock *l)
{
	struct node own = {.locked = 1};
	struct node *before = swap(&l->tail, &own);
	store(&before->next, &own);
	while (load(&own.locked))
		relax();
}

static void hold_clh(struct lock *l)
{
	l->first.locked = 1;
	store(&l->tail, &l->first);
}

static void free_clh(struct lock *l) { store(&l->first.locked, 0); }

LABEL void spin_clh(struct lock *l)
{
	struct node own = {.locked = 1};
	struct node *before = swap(&l->tail, &own);
	while (load(&before->locked))
		relax();
}

/* Reaches the word through a pointer that is read anew every time. */
LABEL void spin_pointer(struct lock *l)
{
	while (load(&load(&l->tail)->locked))
		;
}

/* A flag as people write it. */
LABEL void spin_flag(struct lock *l)
{
	volatile int *flag = &l->word;
	while (*flag)
		;
}

LABEL void spin_flag_counted(struct lock *l)
{
	volatile int *flag = &l->word;
	int spins = 0;
	while (*flag) {
		spins++;
		relax();
	}
	l->spare = spins;
}

/* A barrier that turns its sense. What it will be was noted before: who comes late must not wait for the
 * next turn. */
LABEL void spin_barrier(struct lock *l)
{
	int sense = l->spare;
	while (load(&l->word) != sense)
		relax();
}

static void hold_writer(struct lock *l) { store(&l->word, -1); }

LABEL void spin_reader(struct lock *l)
{
	for (;;) {
		int readers = load(&l->word);
		if (readers < 0)
			relax();
		else if (cas(&l->word, readers, readers + 1))
			return;
	}
}

static void hold_reader(struct lock *l) { store(&l->word, 1); }

LABEL void spin_writer(struct lock *l)
{
	do {
		while (load(&l->word))
			relax();
	} while (!cas(&l->word, 0, -1));
}

LABEL void spin_sequence(struct lock *l)
{
	int sequence;
	while ((sequence = load(&l->word)) & 1)
		relax();
	l->spare = sequence;
}

static void hold_spinlock(struct lock *l)
{
	pthread_spinlock_t *lock = malloc(sizeof *lock);
	pthread_spin_init(lock, 0);
	pthread_spin_lock(lock);
	l->other = (void *)lock;
}

static void free_spinlock(struct lock *l) { pthread_spin_unlock((pthread_spinlock_t *)l->other); }

LABEL void spin_pthread(struct lock *l) { pthread_spin_lock((pthread_spinlock_t *)l->other); }

#define WAIT(name, kind) {#name, hold_##kind, name, free_##kind}
#define free_writer free_word
#define free_reader free_word
const struct wait waits[] = {
	WAIT(spin_tas, word),
	WAIT(spin_tas_pause, word),
	WAIT(spin_tas_bit, word),
	WAIT(spin_ttas, word),
	WAIT(spin_ttas_read_first, word),
	WAIT(spin_ttas_backoff, word),
	WAIT(spin_cas, word),
	WAIT(spin_cas_pause, word),
	WAIT(spin_cas_yield, word),
	WAIT(spin_limited, word),
	WAIT(spin_ticket, ticket),
	WAIT(spin_ticket_pause, ticket),
	WAIT(spin_ticket_proportional, ticket),
	WAIT(spin_mcs, queue),
	WAIT(spin_mcs_pause, queue),
	WAIT(spin_clh, clh),
	WAIT(spin_pointer, clh),
	WAIT(spin_flag, word),
	WAIT(spin_flag_counted, word),
	WAIT(spin_barrier, word),
	WAIT(spin_reader, writer),
	WAIT(spin_writer, reader),
	WAIT(spin_sequence, word),
	WAIT(spin_pthread, spinlock),
	{0},
};
