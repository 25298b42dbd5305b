//# gcc -O1 -fno-optimize-sibling-calls -fPIC -shared -o libdeep.so 1_lib.c
#include <stdio.h>
int deeper(int (*call)(int), int n) { printf("deeper %d\n", n); return n ? deeper(call, n - 1) + 1 : call(n) + 1; }
