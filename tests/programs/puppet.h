/*
 * puppet.h - a program whose threads do something all the time, count it, and stand still when told, so that
 * their counts can be read. Commands on standard input, each answered by a line of JSON: `p` parks all threads
 * and prints the counts, `r` lets them run on and prints {}, `l` does so too and locks all memory that the process has and
 * will have, `q` (or the end of the input) ends them.
 */
#ifndef DWELL_PUPPET_H
#define DWELL_PUPPET_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_THREADS = 256 };

static pthread_t threads[MOST_THREADS];
/* How many of them were started. */
static int running;
static atomic_bool parking, ending;
static atomic_int parked;

/* A wrong result ends the program. */
static void wrong(const char *what)
{
	fprintf(stderr, "%s: wrong: %s\n", program_invocation_short_name, what);
	abort();
}

/* Every thread calls this between two things that it counts, until it sees `ending`. */
static void park_if_told(void)
{
	if (!parking)
		return;
	parked++;
	while (parking && !ending)
		usleep(200);
	parked--;
}

static void start(void *(*routine)(void *), void *argument)
{
	if (running == MOST_THREADS || pthread_create(&threads[running++], NULL, routine, argument) != 0)
		wrong("pthread_create");
}

/* Obeys commands until the last, and then tells the threads to end. `print` prints the counts. */
static void obey(void (*print)(void))
{
	for (int command; (command = getchar()) != EOF && command != 'q';) {
		parking = command == 'p';
		if (command == 'l' && mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
			wrong("mlockall");
		while (parked != (parking ? running : 0))
			usleep(100);
		if (parking)
			print();
		else
			printf("{}\n");
		fflush(stdout);
	}
	ending = true;
}

#endif
