//# gcc -O2 -fPIC -shared -o libfirst.so 1_first.c -Wl,-init=begin,-fini=end
#include <stdio.h>
#include <stdlib.h>
static void late(void) { puts("first: atexit"); }
__attribute__((constructor(150))) static void early(int argc, char **argv, char **envp) {
    printf("first: early %d %s %d\n", argc, argv[argc - 1], envp[0] != NULL && getenv("LC_ALL") != NULL);
    atexit(late);
}
__attribute__((constructor)) static void plain(void) { puts("first: constructor"); }
__attribute__((destructor)) static void gone(void) { puts("first: destructor"); }
void begin(void) { puts("first: init"); }
void end(void) { puts("first: fini"); }
int first(void) { return 1; }
