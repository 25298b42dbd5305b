/* plt_lib - the functions behind `plt` (see plt.c): each adds one, in as little code as possible, so
 * that the linkage stubs in front of them are a large part of the time. */
#include "plt_calls.h"

#define DEFINE(n) unsigned long plt_call_##n(unsigned long x) { return x + 1; }
PLT_CALLS(DEFINE)
