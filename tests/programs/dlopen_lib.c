/* dlopen_lib - built twice, as liblate_a.so and liblate_b.so (LIBRARY_FUNCTION names the function
 * each exports); see dlopen.c. */
#include "truth.h"

#define CONCATENATE(a, b) a##b
#define HELPER_OF(name) CONCATENATE(name, _sleeps)

SITE static void HELPER_OF(LIBRARY_FUNCTION)(void)
{
	sleep_ns(10 * NS_PER_MS);
	KEEP_FRAME();
}

SITE void LIBRARY_FUNCTION(void)
{
	spin_cpu_ns(10 * NS_PER_MS);
	HELPER_OF(LIBRARY_FUNCTION)();
	KEEP_FRAME();
}
