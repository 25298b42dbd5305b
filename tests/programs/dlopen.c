/*
 * dlopen - code that comes and goes while the program runs.
 *
 * What it does: again and again loads liblate_a.so, calls late_a() (10 ms of processor time, 10 ms of
 * sleep), unloads it, and the same with liblate_b.so and late_b(); the second library often lands at
 * the addresses of the first.
 *
 * Its true answer (one JSON line): the calls of each, and how often both had the same address. Half of
 * the time belongs to each library, and every stack is late_X < call_late < main < _start.
 *
 * Usage: dlopen [SECONDS=2]
 */
#include "truth.h"
#include <dlfcn.h>

SITE static void *call_late(const char *library, const char *function)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		fprintf(stderr, "dlopen: %s\n", dlerror());
		exit(1);
	}
	void (*call)(void) = (void (*)(void))dlsym(handle, function);
	call();
	dlclose(handle);
	return (void *)call;
}

int main(int argc, char **argv)
{
	uint64_t end = now_ns() + (uint64_t)((argc > 1 ? atof(argv[1]) : 2) * 1e9);
	long calls = 0, same_address = 0;
	for (; now_ns() < end; calls++)
		same_address += call_late("liblate_a.so", "late_a") == call_late("liblate_b.so", "late_b");
	printf("{\"program\":\"dlopen\",\"calls_of_each\":%ld,\"same_address\":%ld}\n", calls, same_address);
	return 0;
}
