//# gcc -O1 -o prog 2_main.c -L. -learly -lm -Wl,-rpath,$ORIGIN
/* What the C library loads or looks up by itself: names of users and hosts, character sets, itself. */
#include <dlfcn.h>
#include <grp.h>
#include <iconv.h>
#include <math.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int early_answer(void);

static void *work(void *text) {
    char *copy = strdup(text);
    free(copy);
    return (void *)(long)strlen(text);
}

static void names(void) {
    struct passwd *user = getpwnam("root");
    struct group *group = getgrgid(0);
    struct addrinfo *found = 0;
    int end = getaddrinfo("localhost", "80", 0, &found);
    printf("%s %s %d %d\n", user ? user->pw_dir : "none", group ? group->gr_name : "none", end, found != 0);
}

static void character_sets(void) {
    char in[] = "gr\xfc\xdf", out[32] = {0}, *from = in, *to = out;
    size_t left = 4, room = sizeof out;
    iconv_t set = iconv_open("UTF-8", "CP1252");
    size_t end = iconv(set, &from, &left, &to, &room);
    printf("%s %zd %d\n", out, end, iconv_close(set));
}

int main(void) {
    pthread_t thread;
    void *len;
    names();
    character_sets();
    pthread_create(&thread, 0, work, "a thread");
    pthread_join(thread, &len);
    /* The C library by its name is the one that the program uses. */
    void *libc = dlopen("libc.so.6", RTLD_LAZY);
    void *math = dlopen("libm.so.6", RTLD_LAZY);
    double (*root)(double) = (double (*)(double))dlsym(math, "sqrt");
    printf("%ld %d %d %.3f %.3f\n", (long)len, early_answer(), dlsym(libc, "getpwnam") == (void *)getpwnam,
           root(2), pow(2, 0.5));
    time_t now = 0;
    printf("%s", asctime(gmtime(&now)));
    printf("%d\n", dlsym(RTLD_DEFAULT, "no_such_symbol") == 0);
    return system("exit 5") >> 8;
}
