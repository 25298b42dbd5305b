//# g++ -O2 -fPIC -shared -o libwait.so 1_lib.cc -pthread
#include <cstdio>
#include <unistd.h>
struct Guard { ~Guard() { std::puts("unwound"); } };
extern "C" void forever(volatile int *ready) { Guard g; *ready = 1; for (;;) pause(); }
