/*
 * primitives: what mutexes.c is for mutexes, for read-write locks, spin locks, conditions, barriers and
 * semaphores. Its counts are printed like those; of a condition, waits that ended and that timed out are
 * counted, and its mutex as acquired anew by them; of a barrier, passages. A lock that only one function
 * is used on to read has that name before its address.
 */
#include "puppet.h"
#include <sched.h>
#include <semaphore.h>
#include <time.h>

struct counts {
	atomic_ulong acquired, failed, timeouts;
};

static struct shared {
	pthread_rwlock_t lock;
	struct counts counts;
	volatile unsigned long sum;
	atomic_ulong writes;
} rw = { .lock = PTHREAD_RWLOCK_INITIALIZER }, tried = { .lock = PTHREAD_RWLOCK_INITIALIZER },
  /* Where libc can: one whose writers go first. */
  writers_first;
static struct {
	pthread_spinlock_t lock;
	struct counts counts;
	unsigned long sum;
} spin;
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t condition;
	struct counts of_mutex, of_condition;
	bool full;
} box = { .mutex = PTHREAD_MUTEX_INITIALIZER, .condition = PTHREAD_COND_INITIALIZER };
static struct {
	pthread_barrier_t barrier;
	struct counts counts;
} gate;
static struct {
	sem_t semaphore;
	struct counts counts;
	atomic_ulong ups;
} sem, own;

static void add(atomic_ulong *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* True when it was acquired. */
static bool note(struct counts *counts, int result)
{
	if (result == 0)
		add(&counts->acquired);
	else if (result == EBUSY)
		add(&counts->failed);
	else if (result == ETIMEDOUT)
		add(&counts->timeouts);
	else
		wrong("a result");
	return result == 0;
}

static struct timespec in_ns(long ns)
{
	struct timespec when;
	clock_gettime(CLOCK_REALTIME, &when);
	when.tv_nsec += ns;
	if (when.tv_nsec >= 1000000000) {
		when.tv_sec++;
		when.tv_nsec -= 1000000000;
	}
	return when;
}

static void *reader(void *unused)
{
	for (unsigned i = 0; !ending; i++) {
		park_if_told();
		struct shared *shared = i % 8 < 4 ? &rw : &writers_first;
		struct timespec soon = in_ns(20000);
		int result = i % 4 == 1 ? pthread_rwlock_timedrdlock(&shared->lock, &soon)
					: pthread_rwlock_rdlock(&shared->lock);
		if (note(&shared->counts, result)) {
			unsigned long before = shared->sum;
			if (i % 64 == 6)
				usleep(20);
			if (shared->sum != before)
				wrong("something was written while it was read");
			pthread_rwlock_unlock(&shared->lock);
		}
		if (note(&tried.counts, pthread_rwlock_tryrdlock(&tried.lock)))
			pthread_rwlock_unlock(&tried.lock);
	}
	return unused;
}

static void *writer(void *unused)
{
	for (unsigned i = 0; !ending; i++) {
		park_if_told();
		struct shared *shared = i % 8 < 4 ? &rw : &writers_first;
		struct timespec soon = in_ns(20000);
		int result = i % 4 == 0	  ? pthread_rwlock_trywrlock(&shared->lock)
			     : i % 4 == 1 ? pthread_rwlock_timedwrlock(&shared->lock, &soon)
					  : pthread_rwlock_wrlock(&shared->lock);
		if (!note(&shared->counts, result))
			continue;
		shared->sum++;
		add(&shared->writes);
		/* Each of the two in turn. */
		if (i % 36 == 2)
			usleep(50);
		pthread_rwlock_unlock(&shared->lock);
		if (!note(&tried.counts, pthread_rwlock_trywrlock(&tried.lock)))
			continue;
		tried.sum++;
		add(&tried.writes);
		if (i % 64 == 3)
			sched_yield();
		pthread_rwlock_unlock(&tried.lock);
	}
	return unused;
}

static void *spinner(void *unused)
{
	for (unsigned i = 0; !ending; i++) {
		park_if_told();
		int result = i % 2 == 0 ? pthread_spin_lock(&spin.lock) : pthread_spin_trylock(&spin.lock);
		if (!note(&spin.counts, result))
			continue;
		spin.sum++;
		/* Held past a switch now and then, so that tries fail. */
		if (i % 512 == 0)
			sched_yield();
		pthread_spin_unlock(&spin.lock);
	}
	return unused;
}

/* Waits until the box is as wanted, and turns it over. */
static void *trader(void *wanted)
{
	while (!ending) {
		park_if_told();
		if (pthread_mutex_lock(&box.mutex) != 0)
			wrong("pthread_mutex_lock");
		add(&box.of_mutex.acquired);
		while (box.full != (wanted != NULL) && !parking && !ending) {
			struct timespec soon = in_ns(100000);
			int result = pthread_cond_timedwait(&box.condition, &box.mutex, &soon);
			note(&box.of_condition, result);
			/* However it ended, the mutex is ours again. */
			add(&box.of_mutex.acquired);
		}
		box.full = wanted == NULL;
		pthread_cond_signal(&box.condition);
		pthread_mutex_unlock(&box.mutex);
		if (wanted)
			usleep(20);
	}
	return NULL;
}

/* Two threads that pass the gate in step: the first decides when both park. */
static atomic_int gate_state;

static void *passer(void *is_first)
{
	while (!ending) {
		if (is_first)
			gate_state = ending ? 2 : parking;
		int result = pthread_barrier_wait(&gate.barrier);
		if (result != 0 && result != PTHREAD_BARRIER_SERIAL_THREAD)
			wrong("pthread_barrier_wait");
		add(&gate.counts.acquired);
		int state = gate_state;
		result = pthread_barrier_wait(&gate.barrier);
		if (result != 0 && result != PTHREAD_BARRIER_SERIAL_THREAD)
			wrong("pthread_barrier_wait");
		add(&gate.counts.acquired);
		if (state == 2)
			break;
		if (state == 1)
			park_if_told();
	}
	return NULL;
}

static void *taker(void *unused)
{
	for (unsigned i = 0; !ending; i++) {
		park_if_told();
		int result;
		if (i % 2 == 0) {
			result = sem_trywait(&sem.semaphore) == 0 ? 0 : EBUSY;
		} else {
			/* The maker may be parked: not for good. */
			struct timespec soon = in_ns(50000);
			result = sem_timedwait(&sem.semaphore, &soon);
			if (result != 0)
				continue;
		}
		note(&sem.counts, result);
	}
	return unused;
}

/* Who is to be cancelled ends where it waits for a semaphore, though that is not down, and takes nothing. */
static void *cancelled(void *unused)
{
	pthread_cancel(pthread_self());
	sem_wait(&own.semaphore);
	wrong("sem_wait of a thread that was cancelled");
	return unused;
}

static void try_cancelled(void)
{
	pthread_t thread;
	void *result;

	if (pthread_create(&thread, NULL, cancelled, NULL) != 0 || pthread_join(thread, &result) != 0)
		wrong("a thread to be cancelled");
	if (result != PTHREAD_CANCELED)
		wrong("the result of a thread that was cancelled");
}

static void *maker(void *unused)
{
	for (unsigned long round = 0; !ending; round++) {
		park_if_told();
		add(&sem.ups);
		sem_post(&sem.semaphore);
		/* One that nobody else takes from: it never waits for good. */
		sem_post(&own.semaphore);
		if (round % 64 == 0)
			try_cancelled();
		if (sem_wait(&own.semaphore) != 0)
			wrong("sem_wait");
		add(&own.counts.acquired);
		usleep(30);
	}
	return unused;
}

static void print_one(const char *by, const void *address, struct counts *counts, const char *end)
{
	printf("\"%s%#lx\":[%lu,0,%lu,%lu]%s", by, (unsigned long)address, counts->acquired, counts->failed,
	       counts->timeouts, end);
}

static void print(void)
{
	printf("{");
	print_one("", &rw.lock, &rw.counts, ",");
	print_one("", &writers_first.lock, &writers_first.counts, ",");
	print_one("pthread_rwlock_tryrdlock ", &tried.lock, &tried.counts, ",");
	print_one("", (void *)&spin.lock, &spin.counts, ",");
	print_one("", &box.mutex, &box.of_mutex, ",");
	print_one("", &box.condition, &box.of_condition, ",");
	print_one("", &gate.barrier, &gate.counts, ",");
	print_one("", &own.semaphore, &own.counts, ",");
	print_one("", &sem.semaphore, &sem.counts, "}\n");
}

static void init_writers_first(void)
{
	pthread_rwlockattr_t attributes;
	pthread_rwlockattr_init(&attributes);
#ifdef __GLIBC__
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
	if (pthread_rwlock_init(&writers_first.lock, &attributes) != 0)
		wrong("pthread_rwlock_init");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	init_writers_first();
	pthread_spin_init(&spin.lock, PTHREAD_PROCESS_PRIVATE);
	pthread_barrier_init(&gate.barrier, NULL, 2);
	sem_init(&sem.semaphore, 0, 1);
	sem_init(&own.semaphore, 0, 0);
	start(reader, NULL);
	start(reader, NULL);
	start(writer, NULL);
	start(writer, NULL);
	start(spinner, NULL);
	start(spinner, NULL);
	start(trader, NULL);
	start(trader, &box);
	start(passer, &gate);
	start(passer, NULL);
	start(taker, NULL);
	start(maker, NULL);
	printf("{\"ready\":true}\n");
	obey(print);
	/* Who waits at the gate is let through by the other, who sees the end first. */
	for (int i = 0; i < running; i++)
		if (threads[i] != threads[8] && threads[i] != threads[9])
			pthread_join(threads[i], NULL);
	if (rw.sum != rw.writes || writers_first.sum != writers_first.writes || tried.sum != tried.writes)
		wrong("a sum under a read-write lock");
	if (spin.sum != spin.counts.acquired)
		wrong("a sum under a spin lock");
	int left;
	sem_getvalue(&sem.semaphore, &left);
	if (sem.ups + 1 != sem.counts.acquired + (unsigned long)left)
		wrong("the value of a semaphore");
	printf("{\"ok\":true}\n");
	_exit(0);
}
