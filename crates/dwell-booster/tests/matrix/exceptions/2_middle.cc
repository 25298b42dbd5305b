//# g++ -O2 -fPIC -shared -o libmiddle.so 2_middle.cc -L. -lthrower -Wl,-rpath,$ORIGIN
#include <cstdio>
#include <stdexcept>
void check(int n);
struct Guard { int n; ~Guard() { std::printf("left %d\n", n); } };
int through(int n) {
    Guard guard{n};
    try { check(n); }
    catch (const std::logic_error &) { return -1; }
    return n;
}
int again(int n) {
    try { return through(n); }
    catch (...) { std::printf("again %d\n", n); throw; }
}
