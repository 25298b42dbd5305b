/* plt_users - calls every function of plt_lib once through its own, lazily bound table: loading it
 * anew makes the dynamic loader resolve 256 names (see plt.c). */
#include "plt_calls.h"

#define DECLARE(n) unsigned long plt_call_##n(unsigned long);
PLT_CALLS(DECLARE)

unsigned long call_all(unsigned long x)
{
#define CALL(n) x = plt_call_##n(x);
	PLT_CALLS(CALL)
	return x;
}
