// globals_cxx: the kinds of variables that only C++ has, with known values; all_set is called when they have them.
#include <cstdio>
#include <string>
#include <vector>

namespace outer {
int plain = 1;
namespace inner {
long deep = -2;
struct Base {
	int of_base = 3;
	virtual ~Base() = default;
};
class Derived : public Base {
public:
	static int count;
	inline static short later = -4;
	int own = 5;
	Base *base() { return this; }
};
int Derived::count = 6;
Derived derived;
Derived &reference = derived;
} // namespace inner
enum class Color : unsigned char { red = 7, green = 200 };
Color color = Color::green;
template <class T> struct Box {
	T value;
	static T shared;
};
template <class T> T Box<T>::shared = T(8);
Box<int> of_int = { 9 };
Box<Box<long>> nested = { { 10 } };
} // namespace outer
namespace {
int hidden = 11;
}
static bool truth = true;
std::string short_text = "short";
std::vector<int> numbers = { 12, 13, 14 };
thread_local int mine = 15;
struct Node {
	Node *next;
	int value;
};
static Node last = { nullptr, 17 };
Node head = { &last, 16 };
static wchar_t wide = L'w';

struct Shape {
	int sides;
	[[gnu::noinline]] int area(int factor) const
	{
		__asm__ volatile("" : : "r"(factor), "r"(this) : "memory");
		return sides * factor;
	}
};
[[gnu::noinline]] int over(int n)
{
	__asm__ volatile("" : : "r"(n) : "memory");
	return n;
}
[[gnu::noinline]] int over(const Node *n)
{
	__asm__ volatile("" : : "r"(n) : "memory");
	return n->value;
}
[[gnu::noinline]] void all_set(const outer::inner::Derived *derived, outer::Box<int> &box)
{
	__asm__ volatile("" : : "r"(derived), "r"(&box), "r"(&hidden), "r"(&truth), "r"(&wide), "r"(&outer::inner::Derived::later) : "memory");
}

int main()
{
	Shape shape = { 4 };
	mine = 18;
	outer::Box<int>::shared += 1;
	all_set(&outer::inner::derived, outer::of_int);
	std::printf("%d\n", shape.area(5) + over(6) + over(&head) + mine);
	return 0;
}
