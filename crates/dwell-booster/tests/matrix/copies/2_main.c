//# gcc -O1 -fno-pic -no-pie -o prog 2_main.c -L. -ldata -Wl,-rpath,$ORIGIN
//# gcc -O1 -fpie -pie -mno-direct-extern-access -o pie 2_main.c -L. -ldata -Wl,-rpath,$ORIGIN
//# run pie
#include <stdio.h>
extern int numbers[100], zero[64];
extern int *pointers[3];
extern const char *const names[2];
extern int (*functions[1])(void);
int *address(void), *zero_address(void), compare(int (*)(void)), shared(void);
int main(void) {
    printf("%d %d %d\n", numbers[0], numbers[50], address() == numbers);
    printf("%d %d %d\n", *pointers[0], *pointers[1], pointers[2] == numbers);
    printf("%s %s %d\n", names[0], names[1], functions[0]());
    printf("%d %d\n", zero_address() == zero, zero[3]);
    numbers[1] = 1000;
    printf("%d %d\n", *pointers[0], compare(shared));
}
