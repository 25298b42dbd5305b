/*
 * stopwatch.h - how long calls took that wait for locks of a library: one line `RUNTIME KIND USE NS` for each of them.
 */
#ifndef DWELL_STOPWATCH_H
#define DWELL_STOPWATCH_H

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#define SITE __attribute__((noinline))

constexpr int ROUNDS = 150;

using Clock = std::chrono::steady_clock;

class Stopwatch {
public:
	explicit Stopwatch(const char *what) : what(what) {}
	~Stopwatch() { std::printf("%s %llu\n", what, ns.load()); }

	template <class Wait> void time(Wait wait)
	{
		auto begin = Clock::now();
		wait();
		add_since(begin);
	}

	void add_since(Clock::time_point begin) { ns += std::chrono::nanoseconds(Clock::now() - begin).count(); }

private:
	const char *what;
	std::atomic<unsigned long long> ns{0};
};

inline void sleep_us(int us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

/* Takes a lock again and again, and leaves it to others in between. */
template <class Lock, class Unlock>
void take_turns(Stopwatch &watch, Lock lock, Unlock unlock, int rounds = ROUNDS, int hold_us = 1000)
{
	for (int i = 0; i < rounds; i++) {
		watch.time(lock);
		sleep_us(hold_us);
		unlock();
		sleep_us(250);
	}
}

/* Runs both functions, each in a thread of its own, and waits for them. */
template <class A, class B> void together(A a, B b)
{
	std::thread first(a), second(b);
	first.join();
	second.join();
}

#endif
