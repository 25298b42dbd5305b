//# gcc -O2 -nostartfiles -o prog 2_main.c -L. -lold -Wl,-rpath,$ORIGIN
// As programs were linked before glibc 2.34: their own code calls their constructors.
#include <stdio.h>
#include <stdlib.h>
int lib(void);
typedef void (*function)(int, char **, char **);
extern function __init_array_start[], __init_array_end[];
static int main_(int argc, char **argv) { printf("main %d %d %d\n", argc, argv[0] != NULL, lib()); return 3; }
static void init(int argc, char **argv, char **envp) {
    for (function *f = __init_array_start; f < __init_array_end; f++) (*f)(argc, argv, envp);
}
static void fini(void) {}
__attribute__((constructor)) static void up(int argc, char **argv) { printf("main: up %d %d\n", argc, argv[0] != NULL); }
__attribute__((destructor)) static void down(void) { puts("main: down"); }
__asm__(".symver start_main, __libc_start_main@GLIBC_2.2.5");
int start_main(int (*)(int, char **), int, char **, function, void (*)(void), void (*)(void), void *);
void begin(long *stack, void (*rtld)(void)) {
    start_main(main_, (int)*stack, (char **)(stack + 1), init, fini, rtld, stack);
    abort();
}
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n mov %rdx, %rsi\n and $-16, %rsp\n call begin\n hlt");
