//# gcc -O2 -fPIC -shared -o libold.so 1_lib.c
#include <stdio.h>
__attribute__((constructor)) static void up(void) { puts("lib: up"); }
__attribute__((destructor)) static void down(void) { puts("lib: down"); }
int lib(void) { return 8; }
