/*
 * copied - a program whose code is not in the file that it came from.
 *
 * What it does, mode `anonymous`: puts memory without a file in the place of the pages that hold
 * work_in_copy() and what it calls, and copies their code there, as programs do that back their code by huge
 * pages. Mode `memfd`: copies itself to a file that is in memory alone, and runs that. Then work_in_copy()
 * alternates 5 ms of processor time and 5 ms of sleep. Mode `stale` maps a library, unmaps it again, and has code
 * without a file, nor call frame information, where that was: it spins there (in none of the library's functions).
 * Mode `plain` spins in code at offset 0x1010 of a file that is no ELF, as the core of a Lisp is: DIR/copied.code.
 *
 * Its true answer (one JSON line): rounds and processor time. The names and call frame information are those of the
 * file, but for `stale` and `plain`.
 *
 * Usage: copied [anonymous|memfd|stale|plain] [SECONDS=2] [DIR=/tmp]
 */
#include "truth.h"
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#define PAGE 4096ul
/* Whole pages of their own, which begin with the first function and end before the last. */
#define IN_PAGES __attribute__((section("copied_pages")))
extern char __start_copied_pages[], __stop_copied_pages[];

__attribute__((aligned(4096))) IN_PAGES SITE static void compute_in_copy(void)
{
	spin_cpu_ns(5 * NS_PER_MS);
	KEEP_FRAME();
}

IN_PAGES SITE static void sleep_in_copy(void) { sleep_ns(5 * NS_PER_MS); KEEP_FRAME(); }

IN_PAGES SITE static long work_in_copy(double seconds)
{
	long rounds = 0;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	for (; now_ns() < end; rounds++) {
		compute_in_copy();
		sleep_in_copy();
	}
	return rounds;
}

__attribute__((aligned(4096), used)) IN_PAGES SITE static void end_of_pages(void) { KEEP_FRAME(); }

static void copy_pages(void)
{
	size_t length = ((uintptr_t)__stop_copied_pages - (uintptr_t)__start_copied_pages) & ~(PAGE - 1);
	char *kept = malloc(length);
	memcpy(kept, __start_copied_pages, length);
	if (mmap(__start_copied_pages, length, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		die("mmap");
	memcpy(__start_copied_pages, kept, length);
	if (mprotect(__start_copied_pages, length, PROT_READ | PROT_EXEC) != 0)
		die("mprotect");
	free(kept);
}

static void run_in_memory(char *const *argv)
{
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), out = memfd_create("copied", MFD_CLOEXEC);
	if (in < 0 || out < 0)
		die("memfd");
	copy_all(in, out, "memfd");
	setenv("COPIED_RUNS_IN_MEMORY", "1", 1);
	fexecve(out, argv, environ);
	die("fexecve");
}

static uintptr_t code_of_library; /* its first page of code */

static int note_code(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	for (int i = 0; strstr(info->dlpi_name, "libz.so") && i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)
			code_of_library = (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) & ~(PAGE - 1);
	return 0;
}

/* sub rdi, 1; jnz -6; ret: called by its number of rounds. */
static const unsigned char code[] = {0x48, 0x83, 0xef, 0x01, 0x75, 0xfa, 0xc3};

static void spin_at(void *place, double seconds)
{
	void (*spin)(unsigned long);
	memcpy(&spin, &place, sizeof spin);
	for (uint64_t end = now_ns() + (uint64_t)(seconds * 1e9); now_ns() < end;)
		spin(10000000);
}

static void work_in_plain_file(double seconds, const char *dir)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/copied.code", dir);
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (file < 0 || ftruncate(file, 2 * PAGE) != 0 || pwrite(file, code, sizeof code, PAGE + 0x10) != sizeof code)
		die(path);
	char *place = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, PAGE);
	if (place == MAP_FAILED)
		die(path);
	spin_at(place + 0x10, seconds);
	unlink(path);
}

/* Spins for a time where a library was. */
static void work_in_stale_place(double seconds)
{
	void *library = dlopen("libz.so.1", RTLD_NOW);
	if (!library)
		die("libz.so.1");
	dl_iterate_phdr(note_code, NULL);
	dlclose(library);
	void *place = mmap((void *)code_of_library, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (!code_of_library || place == MAP_FAILED)
		die("the library's place");
	memcpy(place, code, sizeof code);
	spin_at(place, seconds);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "anonymous";
	double seconds = argc > 2 ? atof(argv[2]) : 2;
	long rounds = 0;
	if (strcmp(mode, "anonymous") == 0)
		copy_pages();
	else if (strcmp(mode, "memfd") == 0 && !getenv("COPIED_RUNS_IN_MEMORY"))
		run_in_memory(argv);
	if (strcmp(mode, "stale") == 0)
		work_in_stale_place(seconds);
	else if (strcmp(mode, "plain") == 0)
		work_in_plain_file(seconds, argc > 3 ? argv[3] : "/tmp");
	else
		rounds = work_in_copy(seconds);
	printf("{\"program\":\"copied\",\"mode\":\"%s\",\"rounds\":%ld,\"cpu_ns\":%" PRIu64 "}\n", mode, rounds,
	       thread_cpu_ns());
	return 0;
}
