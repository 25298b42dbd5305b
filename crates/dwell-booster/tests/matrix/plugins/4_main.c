//# gcc -O2 -rdynamic -o prog 4_main.c -L. -ltwo -lone -Wl,-rpath,$ORIGIN -ldl -pthread
//# run prog {folder}/plugin.so
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int one(void), two(void);
int from_main(int x) { return x + 1; }
static void *again(void *arg) { ((int (*)(void))arg)(); return NULL; }
int main(int argc, char **argv) {
    printf("%d %d\n", one(), two());
    printf("none: %d\n", dlopen("no-such-library.so", RTLD_NOW) == NULL && strstr(dlerror(), "no-such-library") != NULL);
    void *plugin = dlopen(argv[1], RTLD_NOW);
    if (!plugin) return puts(dlerror()), 1;
    int (*call)(void) = (int (*)(void))dlsym(plugin, "plugin");
    call(); call();
    pthread_t t;
    pthread_create(&t, NULL, again, (void *)call);
    pthread_join(t, NULL);
    void *handle = dlopen("libone.so", RTLD_NOW | RTLD_NOLOAD);
    printf("%d\n", handle != NULL);
    int (*again)(void) = handle ? (int (*)(void))dlsym(handle, "one") : NULL;
    printf("%d %d\n", again == one, again ? again() : -1);
    printf("%d\n", dlvsym(dlopen("libtwo.so", RTLD_LAZY), "two", "TWO_1") != NULL);
    printf("%d %d\n", dlsym(RTLD_DEFAULT, "two") != NULL, dlopen(NULL, RTLD_NOW) != NULL);
    printf("%d %d\n", dlclose(plugin), one());
}
