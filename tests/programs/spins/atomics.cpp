/* Waits with the atomics of C++. */
#include "spins.h"
#include <atomic>

namespace {
std::atomic_flag flag = ATOMIC_FLAG_INIT;
std::atomic<bool> locked;
std::atomic<unsigned> serving;

void hold(lock *) { flag.test_and_set(); locked = true; serving = 0; }
void release(lock *) { flag.clear(); locked = false; serving = 1; }
}

extern "C" {
LABEL void spin_atomic_flag(lock *)
{
	while (flag.test_and_set(std::memory_order_acquire))
		;
}

LABEL void spin_atomic_exchange(lock *)
{
	while (locked.exchange(true, std::memory_order_acquire))
		while (locked.load(std::memory_order_relaxed))
			__builtin_ia32_pause();
}

LABEL void spin_atomic_cas(lock *)
{
	bool expected = false;
	while (!locked.compare_exchange_weak(expected, true, std::memory_order_acquire))
		expected = false;
}

LABEL void spin_atomic_load(lock *)
{
	while (serving.load(std::memory_order_acquire) != 1)
		;
}

const struct wait cpp_waits[] = {
	{"spin_atomic_flag", hold, spin_atomic_flag, release},
	{"spin_atomic_exchange", hold, spin_atomic_exchange, release},
	{"spin_atomic_cas", hold, spin_atomic_cas, release},
	{"spin_atomic_load", hold, spin_atomic_load, release},
	{},
};
}
