//# gcc -O2 -fPIC -shared -o plugin.so 3_plugin.c -L. -lone -ltwo -Wl,-rpath,$ORIGIN
#include <stdio.h>
int one(void), two(void), from_main(int);
extern _Thread_local int per_thread;
static _Thread_local int own = 3;
__attribute__((constructor)) static void up(void) { puts("plugin: up"); }
__attribute__((destructor)) static void down(void) { puts("plugin: down"); }
int plugin(void) { printf("%d %d %d %d %d\n", one(), two(), from_main(4), per_thread++, own++); return 0; }
