// Blocks at the end of a stack of a known shape, named by the first argument. Prints "ready" just
// before it blocks.
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile int sink;

NOINLINE void block(void) {
	write(1, "ready\n", 6);
	for (;;)
		pause();
}

// recursion: 1000 frames of `recurse`.
NOINLINE int recurse(int n) {
	if (n == 0)
		block();
	int r = recurse(n - 1);
	sink += r;
	return r + n;
}

// big: 20 frames of 100 KiB.
NOINLINE int big(int n) {
	volatile char room[100 << 10];
	room[n] = (char)n;
	if (n == 0)
		block();
	int r = big(n - 1);
	return r + room[n];
}

// alloca: frames of a size that only the frame pointer knows.
NOINLINE int dynamic(int n) {
	volatile char *room = alloca(16 + (size_t)n * 37);
	memset((char *)room, n, 16 + (size_t)n * 37);
	if (n == 0)
		block();
	int r = dynamic(n - 1);
	return r + room[n];
}

// realign: over-aligned locals and alloca together make gcc address its frame by a DRAP register.
NOINLINE int realign(int n) {
	volatile _Alignas(64) char wide[128];
	volatile char *room = alloca(16 + (size_t)n * 24);
	wide[0] = room[0] = (char)n;
	if (n == 0)
		block();
	int r = realign(n - 1);
	return r + wide[0] + room[0];
}

// qsort: a callback from libc.
NOINLINE int compare(const void *a, const void *b) {
	static int calls;
	if (++calls == 40)
		block();
	return *(const int *)a - *(const int *)b;
}

NOINLINE void sort(void) {
	int values[64];
	for (int i = 0; i < 64; i++)
		values[i] = (i * 37) % 64;
	qsort(values, 64, sizeof values[0], compare);
	sink = values[3];
}

// signal, altstack: a handler, on the same stack or another.
NOINLINE void handler(int signal) {
	sink = signal;
	block();
}

NOINLINE void on_signal(int flags) {
	static char room[64 << 10];
	stack_t other = { .ss_sp = room, .ss_size = sizeof room };
	sigaltstack(&other, NULL);
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	sink = 1;
}

// fault: a handler for a signal that interrupts an instruction in the middle of a function.
NOINLINE int wild(volatile int *p) {
	int r = *p;
	sink = r;
	return r + 1;
}

NOINLINE void on_fault(void) {
	struct sigaction action = { .sa_handler = handler };
	sigaction(SIGSEGV, &action, NULL);
	sink = wild((int *)16);
}

// threads: three threads that wait for ever, and the first one that joins them.
NOINLINE void *thread(void *arg) {
	recurse((int)(intptr_t)arg);
	return arg;
}

static void *quiet_thread(void *arg) {
	pause();
	return arg;
}

NOINLINE void threads(void) {
	pthread_t t[3];
	pthread_create(&t[0], NULL, quiet_thread, NULL);
	pthread_create(&t[1], NULL, quiet_thread, NULL);
	usleep(20000);
	pthread_create(&t[2], NULL, thread, (void *)(intptr_t)10);
	pthread_join(t[0], NULL);
	sink = 2;
}

int main(int argc, char **argv) {
	const char *shape = argc > 1 ? argv[1] : "";
	if (!strcmp(shape, "recursion"))
		sink = recurse(1000);
	else if (!strcmp(shape, "big"))
		sink = big(20);
	else if (!strcmp(shape, "alloca"))
		sink = dynamic(20);
	else if (!strcmp(shape, "realign"))
		sink = realign(20);
	else if (!strcmp(shape, "qsort"))
		sort();
	else if (!strcmp(shape, "signal"))
		on_signal(0);
	else if (!strcmp(shape, "altstack"))
		on_signal(SA_ONSTACK);
	else if (!strcmp(shape, "fault"))
		on_fault();
	else if (!strcmp(shape, "threads"))
		threads();
	else
		return 2;
	return sink;
}
