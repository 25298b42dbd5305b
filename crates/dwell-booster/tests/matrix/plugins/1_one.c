//# gcc -O2 -fPIC -shared -o libone.so 1_one.c
#include <stdio.h>
static int count;
_Thread_local int per_thread = 5;
__attribute__((constructor)) static void up(void) { count++; puts("one: up"); }
int one(void) { return ++count; }
