//# gcc -O2 -o prog 2_main.c -L. -lgd -lld -lie -ldesc -Wl,-rpath,$ORIGIN -pthread
//# gcc -O2 -no-pie -o fixed 2_main.c -L. -lgd -lld -lie -ldesc -Wl,-rpath,$ORIGIN -pthread
//# run fixed
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#define MODEL(m) long m##_sum(int); extern _Thread_local int m##_shared; extern _Thread_local char m##_wide[65];
MODEL(gd) MODEL(ld) MODEL(ie) MODEL(desc)
static _Thread_local int own = 7;
static _Thread_local __attribute__((aligned(32))) int more[9];
#define SHOW(m) printf(#m " %ld %d %s\n", m##_sum(i), m##_shared, m##_wide)
static void *work(void *arg) {
    for (int i = (int)(intptr_t)arg, end = i + 3; i < end; i++) {
        SHOW(gd); SHOW(ld); SHOW(ie); SHOW(desc);
        own += i; more[8]++;
        printf("own %d %d %d\n", own, more[8], (int)((uintptr_t)more % 32));
    }
    return NULL;
}
int main(void) {
    work((void *)1);
    for (long n = 2; n < 5; n++) {
        pthread_t t;
        pthread_create(&t, NULL, work, (void *)n);
        pthread_join(t, NULL);
    }
    work((void *)9);
}
