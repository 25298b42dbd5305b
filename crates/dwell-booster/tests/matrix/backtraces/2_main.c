//# gcc -O1 -fno-optimize-sibling-calls -rdynamic -o prog 2_main.c -L. -ldeep -Wl,-rpath,$ORIGIN
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
int deeper(int (*)(int), int);
static sigjmp_buf back;
static void show(void) {
    void *frames[32];
    int n = backtrace(frames, 32);
    for (int i = 0; i < n; i++) {
        Dl_info info;
        if (dladdr((char *)frames[i] - 1, &info) && info.dli_sname)
            printf("  %s\n", info.dli_sname);
    }
    printf("  %d frames\n", n);
}
static void crash(int s) { printf("signal %d\n", s); show(); siglongjmp(back, 1); }
int leaf(int n) { show(); return n; }
int fault(int n) { *(volatile int *)8 = n; return n; }
int main(void) {
    Dl_info info;
    printf("%d\n", deeper(leaf, 3));
    signal(SIGSEGV, crash);
    if (sigsetjmp(back, 1) == 0) deeper(fault, 2);
    printf("%s\n", dladdr((void *)deeper, &info) && info.dli_sname ? info.dli_sname : "?");
    printf("%d\n", info.dli_saddr == (void *)deeper);
}
