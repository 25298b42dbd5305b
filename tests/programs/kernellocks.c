/*
 * kernellocks: threads that meet at locks of the kernel: some map and unmap memory (the process' mmap_lock, a
 * read-write semaphore), some write to one pipe (its mutex). On `r` each does ROUNDS of that and a line is
 * printed when all have; `q` ends. (Half the rounds for the writers.)
 *
 * Usage: kernellocks ROUNDS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 4, PAGE = 4096, LENGTH = 16 * PAGE };
/* Of one write: copied while the pipe's mutex is held. */
enum { CHUNK = 16 * PAGE, WRITES_IN = 2 };

static int rounds, ends[2];

static void *maps(void *unused)
{
	for (int i = 0; i < rounds; i++) {
		char *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			abort();
		for (int at = 0; at < LENGTH; at += PAGE)
			memory[at] = 1;
		munmap(memory, LENGTH);
	}
	return unused;
}

static void *writes(void *unused)
{
	static const char bytes[CHUNK];
	for (int i = 0; i < rounds / WRITES_IN; i++)
		if (write(ends[1], bytes, sizeof bytes) != sizeof bytes)
			abort();
	return unused;
}

static void *reads(void *unused)
{
	static char bytes[CHUNK];
	for (long left = (long)THREADS * (rounds / WRITES_IN) * CHUNK; left > 0;) {
		ssize_t got = read(ends[0], bytes, sizeof bytes);
		if (got <= 0)
			abort();
		left -= got;
	}
	return unused;
}

static void run(void)
{
	pthread_t threads[2 * THREADS + 1];
	int n = 0;
	pthread_create(&threads[n++], NULL, reads, NULL);
	for (int i = 0; i < THREADS; i++) {
		pthread_create(&threads[n++], NULL, maps, NULL);
		pthread_create(&threads[n++], NULL, writes, NULL);
	}
	while (n > 0)
		pthread_join(threads[--n], NULL);
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? atoi(argv[1]) : 1000;
	if (pipe(ends) != 0)
		return 1;
	printf("{\"ready\":true}\n");
	fflush(stdout);
	for (int command; (command = getchar()) != EOF && command != 'q';) {
		run();
		printf("{\"done\":true}\n");
		fflush(stdout);
	}
	printf("{\"ok\":true}\n");
	return 0;
}
