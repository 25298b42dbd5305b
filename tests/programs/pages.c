/*
 * pages: told to begin by a line, it takes away the page of a variable of its own, or another's that it knows, and calls
 * hit() before, meanwhile and afterwards, with the variable's address and that of one that stays. Says how often it was
 * called, and how often the variable was there: "hit CALLS READABLE".
 *
 *     pages mprotect|syscall|munmap|fixed|mremap|guard|truncate|dlclose|none [ROUNDS]
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define SITE __attribute__((noinline, noclone))
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

struct alone {
	int value;
	char text[PAGE - sizeof(int)];
};
static struct alone alone __attribute__((aligned(PAGE)));
static int beside = 5;

/* Long enough for a jump. */
SITE long hit(const int *where, const int *stays)
{
	__asm__ volatile("" ::: "memory");
	return (long)where * 3 + (long)stays;
}

static void check(int failed)
{
	if (failed) {
		perror("pages");
		exit(2);
	}
}

static void fill(void)
{
	alone.value = 7;
	strcpy(alone.text, "a text");
}

/* Away and back; whether this way is known here. */
static int taken(const char *how)
{
	const int both = PROT_READ | PROT_WRITE, fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	if (!strcmp(how, "mprotect")) {
		check(mprotect(&alone, PAGE, PROT_NONE));
		hit(&alone.value, &beside);
		check(mprotect(&alone, PAGE, both));
	} else if (!strcmp(how, "syscall")) {
		check(syscall(SYS_mprotect, &alone, PAGE, PROT_NONE));
		hit(&alone.value, &beside);
		check(syscall(SYS_mprotect, &alone, PAGE, both));
	} else if (!strcmp(how, "munmap")) {
		check(munmap(&alone, PAGE));
		hit(&alone.value, &beside);
		check(mmap(&alone, PAGE, both, fixed, -1, 0) == MAP_FAILED);
	} else if (!strcmp(how, "fixed")) {
		check(mmap(&alone, PAGE, PROT_NONE, fixed, -1, 0) == MAP_FAILED);
		hit(&alone.value, &beside);
		check(mmap(&alone, PAGE, both, fixed, -1, 0) == MAP_FAILED);
	} else if (!strcmp(how, "mremap")) {
		void *place = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		check(mremap(&alone, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED);
		hit(&alone.value, &beside);
		check(mmap(&alone, PAGE, both, fixed, -1, 0) == MAP_FAILED);
	} else if (!strcmp(how, "guard")) {
		if (madvise(&alone, PAGE, MADV_GUARD_INSTALL))
			return 0;
		hit(&alone.value, &beside);
		check(madvise(&alone, PAGE, MADV_GUARD_INSTALL + 1));
	} else if (!strcmp(how, "truncate")) {
		int file = memfd_create("pages", 0);
		check(ftruncate(file, PAGE));
		int *there = mmap(NULL, PAGE, both, MAP_SHARED, file, 0);
		*there = 7;
		check(ftruncate(file, 0));
		hit(there, &beside);
		close(file);
	} else if (!strcmp(how, "dlclose")) {
		void *library = dlopen("libm.so.6", RTLD_NOW);
		int *there = library ? dlsym(library, "signgam") : NULL;
		check(!there || dlclose(library));
		hit(there, &beside);
	} else {
		hit(&alone.value, &beside);
		return 2;
	}
	return 1;
}

int main(int argc, char **argv)
{
	long rounds = argc > 2 ? atol(argv[2]) : 1, calls = 0, readable = 0;
	if (argc < 2 || getchar() != '\n')
		return 2;
	for (long round = 0; round < rounds; round++) {
		fill();
		hit(&alone.value, &beside);
		int how = taken(argv[1]);
		fill();
		hit(&alone.value, &beside);
		calls += 2 + (how > 0);
		readable += 2 + (how == 2);
	}
	printf("hit %ld %ld\n", calls, readable);
	return 0;
}
