// C++: frames of 100 KiB, virtual calls, std::function, std::sort callbacks and a destructor that runs
// while an exception unwinds; blocks in that destructor. Prints "ready" just before it blocks.
#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <unistd.h>
#include <vector>

volatile int sink;

[[gnu::noinline]] void block() {
	if (write(1, "ready\n", 6) != 6)
		_exit(1);
	for (;;)
		pause();
}

struct Guard {
	[[gnu::noinline]] ~Guard() {
		block();
		sink = 1;
	}
};

struct Node {
	virtual int visit(int n) = 0;
	virtual ~Node() = default;
};

struct Wide final : Node {
	Node *next = nullptr;
	[[gnu::noinline]] int visit(int n) override {
		volatile char room[100 << 10];
		room[n] = char(n);
		if (n == 0)
			throw std::runtime_error("at the bottom");
		int r = next->visit(n - 1);
		return r + room[n];
	}
};

[[gnu::noinline]] int guarded(Node &node) {
	Guard guard;
	return node.visit(12) + 1;
}

[[gnu::noinline]] int sorting(const std::function<int()> &deep) {
	std::vector<int> values { 3, 1, 2 };
	std::sort(values.begin(), values.end(), [&](int a, int b) {
		sink = deep();
		return a < b;
	});
	return values[0];
}

int main() {
	Wide wide;
	wide.next = &wide;
	try {
		sink = sorting([&] { return guarded(wide); });
	} catch (const std::exception &e) {
		sink = int(strlen(e.what()));
	}
	return 0;
}
