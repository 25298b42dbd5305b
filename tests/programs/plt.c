/*
 * plt - calls into a shared library through lazily bound linkage stubs.
 *
 * What it does: `hot`: call_through_plt() calls 256 tiny functions of libplt.so again and again, so
 * that a good part of all samples falls on the stubs themselves (the second half of a stub has one
 * word more on the stack than the first). `resolve`: resolve_again() loads libplt_users.so, which
 * binds those 256 names on its first calls, and unloads it: time in _dl_runtime_resolve.
 *
 * Its true answer (one JSON line): the number of calls. Every stack reaches main and _start, whether
 * it was taken in a stub, in the resolver or behind it; main is directly above call_through_plt.
 *
 * Usage: plt [hot|resolve] [SECONDS=2]
 */
#include "plt_calls.h"
#include "truth.h"
#include <dlfcn.h>

#define DECLARE(n) unsigned long plt_call_##n(unsigned long);
PLT_CALLS(DECLARE)

SITE static unsigned long call_through_plt(unsigned long x)
{
	for (int i = 0; i < 1000; i++) {
#define CALL(n) x = plt_call_##n(x);
		PLT_CALLS(CALL)
	}
	return x;
}

SITE static unsigned long resolve_again(unsigned long x)
{
	void *library = dlopen("libplt_users.so", RTLD_LAZY | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "plt: %s\n", dlerror());
		exit(1);
	}
	unsigned long (*call_all)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(library, "call_all");
	x = call_all(x);
	dlclose(library);
	return x;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "hot";
	bool resolve = strcmp(mode, "resolve") == 0;
	double seconds = argc > 2 ? atof(argv[2]) : 2;
	if (!resolve && strcmp(mode, "hot") != 0) {
		fprintf(stderr, "plt: unknown mode \"%s\"; use hot or resolve\n", mode);
		return 2;
	}
	unsigned long calls = 0;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	while (now_ns() < end)
		calls = resolve ? resolve_again(calls) : call_through_plt(calls);
	printf("{\"program\":\"plt\",\"mode\":\"%s\",\"calls\":%lu}\n", mode, calls);
	return 0;
}
