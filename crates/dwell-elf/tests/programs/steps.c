// A short program that passes through many kinds of code: PLT stubs bound on first use, the dynamic
// loader's resolver, libm, variadic functions, callbacks, recursion, alloca, realigned frames, vfork
// and the vDSO. With -DNO_REALIGN without the realigned frames.
#define _GNU_SOURCE
#include <alloca.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile double sink;

NOINLINE int compare(const void *a, const void *b) {
	return *(const int *)a - *(const int *)b;
}

NOINLINE int fibonacci(int n) {
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

NOINLINE double realigned(int n) {
#ifdef NO_REALIGN
	volatile char wide[128];
#else
	volatile _Alignas(64) char wide[128];
#endif
	volatile char *room = alloca(16 + (size_t)n * 24);
	wide[0] = room[0] = (char)n;
	sink += pow(n, 1.5);
	return wide[0] + room[0];
}

// Many cases make a jump table.
NOINLINE int pick(int n) {
	switch (n) {
	case 0: return getpid() & 1;
	case 1: return fibonacci(3);
	case 2: sink += 1; return 7;
	case 3: return (int)realigned(2);
	case 4: return abs(n) + (int)getppid();
	case 5: sink *= 2; return fibonacci(2);
	case 6: return (int)sqrt(sink + n);
	default: return n;
	}
}

NOINLINE int child(void) {
#ifdef __GLIBC__
	int pid = vfork();
#else
	// musl's vfork keeps its return address in rdx, and nothing tells.
	int pid = fork();
#endif
	if (pid == 0)
		_exit(0);
	return pid;
}

int main(void) {
	char text[200];
	int values[12] = { 5, 3, 9, 1, 7, 11, 2, 8, 6, 4, 10, 0 };
	qsort(values, 12, sizeof values[0], compare);
	snprintf(text, sizeof text, "%d %s %.3f", values[3], "text", sin(values[2]) + cbrt(2));
	sink += strtod(text, NULL) + (double)strlen(text) + fibonacci(4) + realigned(3);
	for (int i = 0; i < 8; i++)
		sink += pick(i);
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	sink += (double)now.tv_nsec + child();
	char *copy = strdup(text);
	memset(text, 0, sizeof text);
	free(copy);
	return 0;
}
