//# gcc -O2 -o prog 4_main.c -L. -lthird -lfirst -Wl,-rpath,$ORIGIN
//# run prog last
#include <stdio.h>
#include <stdlib.h>
int third(void);
static void before(int argc, char **argv, char **envp) { printf("preinit %d %s %d\n", argc, argv[argc - 1], envp != NULL); }
__attribute__((section(".preinit_array"), used)) static void (*pre)(int, char **, char **) = before;
static void handler(int status, void *text) { printf("on_exit %d %s\n", status, (char *)text); }
__attribute__((constructor)) static void up(void) { puts("main: up"); }
__attribute__((destructor)) static void down(void) { puts("main: down"); }
int main(void) { on_exit(handler, "bye"); printf("main %d\n", third()); exit(5); }
