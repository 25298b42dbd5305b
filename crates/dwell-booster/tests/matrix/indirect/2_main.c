//# gcc -O2 -o prog 2_main.c -L. -lindirect -Wl,-rpath,$ORIGIN
//# gcc -O2 -fno-pic -no-pie -o fixed 2_main.c -L. -lindirect -Wl,-rpath,$ORIGIN
//# run fixed
#include <stdio.h>
#include <string.h>
int twice(int), by_table(int), (*get(void))(int);
extern int (*table[2])(int);
static int own_fast(int x) { return x * 3; }
static int (*own_resolve(void))(int) { return own_fast; }
static int own(int x) __attribute__((ifunc("own_resolve")));
int main(void) {
    char text[64];
    memcpy(text, "indirect", 9);
    printf("%d %d %d %s %zu\n", twice(4), by_table(5), own(6), text, strlen(text));
    printf("%d %d\n", get()(3), table[0](8));
}
