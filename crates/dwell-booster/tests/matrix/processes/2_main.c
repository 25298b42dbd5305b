//# gcc -O2 -o prog 2_main.c -L. -lwork -Wl,-rpath,$ORIGIN -pthread
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int work(int);
extern char **environ;
static void handler(int s) { char c = '0' + work(0) % 10; write(1, &c, 1); write(1, "\n", 1); (void)s; }
int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc > 1) return printf("child of exec %s %d\n", argv[1], work(3)), 6;
    printf("%d\n", work(1));
    int status;
    pid_t pid = fork();
    if (pid == 0) { printf("forked %d\n", work(2)); _exit(work(0)); }
    waitpid(pid, &status, 0);
    printf("ended %d %d\n", WEXITSTATUS(status), work(0));
    pid = vfork();
    if (pid == 0) { execl("/proc/self/exe", argv[0], "vfork", NULL); _exit(99); }
    waitpid(pid, &status, 0);
    printf("ended %d\n", WEXITSTATUS(status));
    char *args[] = {"true", NULL};
    posix_spawn(&pid, "/bin/true", NULL, NULL, args, environ);
    waitpid(pid, &status, 0);
    printf("spawned %d\n", WEXITSTATUS(status));
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    execl("/proc/self/exe", argv[0], "exec", NULL);
}
