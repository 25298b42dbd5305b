//# gcc -O2 -fPIC -shared -o libwork.so 1_lib.c -pthread
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static int state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void prepare(void) { pthread_mutex_lock(&lock); state += 10; }
static void done(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void up(void) { pthread_atfork(prepare, done, done); }
int work(int n) { pthread_mutex_lock(&lock); state += n; pthread_mutex_unlock(&lock); return state; }
