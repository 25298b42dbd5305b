//# gcc -O2 -fPIC -shared -o libthird.so 3_third.c -L. -lsecond -Wl,-rpath,$ORIGIN
#include <stdio.h>
int second(void);
__attribute__((constructor(101))) static void up(void) { printf("third: up %d\n", second()); }
__attribute__((destructor(101))) static void down(void) { puts("third: down"); }
int third(void) { return 3; }
