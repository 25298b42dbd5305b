/*
 * walked: known chains of calls without frame pointers, for ustack(). Built -O2 -fomit-frame-pointer and stripped; its
 * functions keep their names as dynamic symbols.
 *
 *     walked MODE [N]
 *
 * calls:  main < outer < middle < leaf, N times; leaf makes the system call getppid
 * deep:   main < outer < recurse (N times) < leaf
 * signal: main < outer < interrupted < the C library < the signal's frame < handler < leaf
 * sort:   main < outer < sort < the C library < compare < leaf
 * fork:   main < outer < middle < leaf in a child of a child
 * spin:   main < outer < spin for N ms of processor time
 * late:   main < outer < load < late_a of liblate_a.so, N times; it stays loaded
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SITE __attribute__((noinline, noclone))
/* Keeps a call from becoming a jump, and the frame pointer register busy. */
#define KEEP(value) __asm__ volatile("" : "+r"(value) : : "memory", "rbp")

SITE long leaf(long n)
{
	n += syscall(SYS_getppid);
	KEEP(n);
	return n;
}

SITE long middle(long n)
{
	n = leaf(n) + 1;
	KEEP(n);
	return n;
}

SITE long recurse(long left)
{
	long n = left > 1 ? recurse(left - 1) : leaf(left);

	KEEP(n);
	return n + 1;
}

SITE void handler(int signal)
{
	long n = leaf(signal);

	KEEP(n);
}

SITE long interrupted(long n)
{
	signal(SIGUSR1, handler);
	n += raise(SIGUSR1);
	KEEP(n);
	return n;
}

SITE int compare(const void *a, const void *b)
{
	long n = leaf(0);

	KEEP(n);
	return *(const int *)a - *(const int *)b;
}

SITE long sort(long n)
{
	int numbers[] = { 3, 1, 2 };

	qsort(numbers, 3, sizeof(int), compare);
	n += numbers[0];
	KEEP(n);
	return n;
}

SITE long spin(long ms)
{
	struct timespec now;
	long n = 0;

	do {
		for (int i = 0; i < 100000; i++)
			KEEP(n);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < ms);
	KEEP(n);
	return n;
}

SITE long load(long n)
{
	void *library = dlopen("liblate_a.so", RTLD_NOW);
	void (*late)(void) = library ? (void (*)(void))dlsym(library, "late_a") : NULL;

	if (!late) {
		fprintf(stderr, "walked: %s\n", dlerror());
		exit(1);
	}
	for (; n > 0; n--)
		late();
	KEEP(n);
	return n;
}

SITE long outer(const char *mode, long n)
{
	long result = 0;

	if (!strcmp(mode, "calls"))
		for (long i = 0; i < n; i++)
			result += middle(i);
	else if (!strcmp(mode, "deep"))
		result = recurse(n);
	else if (!strcmp(mode, "signal"))
		result = interrupted(n);
	else if (!strcmp(mode, "sort"))
		result = sort(n);
	else if (!strcmp(mode, "spin"))
		result = spin(n);
	else if (!strcmp(mode, "late"))
		result = load(n);
	KEEP(result);
	return result;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "calls";
	long n = argc > 2 ? atol(argv[2]) : 1;

	if (!strcmp(mode, "fork")) {
		if (fork())
			return wait(NULL) < 0;
		if (fork())
			return wait(NULL) < 0;
		mode = "calls";
	}
	n = outer(mode, n);
	KEEP(n);
	return 0;
}
