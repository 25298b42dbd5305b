//# g++ -O2 -fPIC -shared -o libsecond.so 2_second.cc -L. -lfirst -Wl,-rpath,$ORIGIN
#include <cstdio>
extern "C" int first();
struct Noisy { const char *name; Noisy(const char *n) : name(n) { std::printf("second: %s %d\n", n, first()); }
    ~Noisy() { std::printf("second: ~%s\n", name); } };
static Noisy a("a"), b("b");
extern "C" int second() { static Noisy local("local"); return 2; }
