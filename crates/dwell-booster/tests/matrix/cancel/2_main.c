//# gcc -O2 -fexceptions -o prog 2_main.c -L. -lwait -Wl,-rpath,$ORIGIN -pthread
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
void forever(volatile int *);
static volatile int ready;
static void clean(void *text) { printf("clean %s\n", (char *)text); }
static void *work(void *arg) { pthread_cleanup_push(clean, "up"); forever(&ready); pthread_cleanup_pop(0); return arg; }
static void *leave(void *arg) { pthread_cleanup_push(clean, "left"); pthread_exit(arg); pthread_cleanup_pop(0); }
int main(void) {
    pthread_t t;
    void *result;
    pthread_create(&t, NULL, work, NULL);
    while (!ready) usleep(100);
    pthread_cancel(t);
    pthread_join(t, &result);
    printf("%d\n", result == PTHREAD_CANCELED);
    pthread_create(&t, NULL, leave, &t);
    pthread_join(t, &result);
    printf("%d\n", result == &t);
}
