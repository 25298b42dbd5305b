/* Habits with memory: see habits.c. */
#include "habits.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096, CHURNED_PAGES = 256, JOB_PAGES = 8192, CHANGED_PAGES = 512, CHANGE_NS = 1000000 };

static SITE char *get(size_t pages)
{
	char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		die("mmap");
	/* Pages of 4 KiB, whatever the machine's policy is. */
	madvise(at, pages * PAGE, MADV_NOHUGEPAGE);
	return at;
}

static SITE void give_back(char *at, size_t pages) { munmap(at, pages * PAGE); }

static SITE void fill(char *at, size_t pages)
{
	for (size_t i = 0; i < pages * PAGE; i += 64)
		*(volatile long *)(at + i) = (long)i;
}

/* ---- allocation-churn ---- */

void get_and_give_back(struct worker *w)
{
	char *kept = sick ? NULL : get(CHURNED_PAGES);
	while (!over) {
		char *buffer = sick ? get(CHURNED_PAGES) : kept;
		fill(buffer, CHURNED_PAGES);
		if (sick)
			give_back(buffer, CHURNED_PAGES);
		w->units++;
	}
}

/* ---- first-touch ---- */

/* A job in a process of its own begins with memory that nobody has touched. */
static SITE void run_job(void)
{
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		fill(get(JOB_PAGES), JOB_PAGES);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

void start_afresh(struct worker *w)
{
	char *kept = sick ? NULL : get(JOB_PAGES);
	while (!over) {
		if (sick)
			run_job();
		else
			fill(kept, JOB_PAGES);
		w->units++;
	}
}

/* ---- shootdown-storm ---- */

static SITE void protect(char *at, size_t pages, int protection)
{
	if (mprotect(at, pages * PAGE, protection))
		die("mprotect");
}

/* The first thread changes pages one by one (healthy: all at once); the other only runs in the same memory, on another processor.
 * Its other work outweighs two shootdowns also where a host takes 50 us for them. */
void change_protection(struct worker *w)
{
	run_on(w->number > 0 ? (int)sysconf(_SC_NPROCESSORS_ONLN) - 1 : 0);
	if (w->number > 0) {
		while (!over)
			compute(1000000);
		return;
	}
	char *pages = get(CHANGED_PAGES);
	size_t step = sick ? 1 : CHANGED_PAGES;
	while (!over) {
		fill(pages, CHANGED_PAGES);
		for (size_t i = 0; i < CHANGED_PAGES; i += step) {
			protect(pages + i * PAGE, step, PROT_READ);
			protect(pages + i * PAGE, step, PROT_READ | PROT_WRITE);
		}
		compute(CHANGE_NS);
		w->units++;
	}
}
