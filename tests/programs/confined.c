/*
 * confined: calls a function, forbids itself all system calls but the few it needs, and calls it as often again. Then
 * another thread takes a mutex as often, and after it this one does.
 * `confined ROUNDS prctl|syscall`: by which function of the C library it does so. Says how often it called.
 */
#include <pthread.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ALLOW(number) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static unsigned long calls, taken;
static volatile int turn;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void doze(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

__attribute__((noinline, noclone)) void work(void)
{
	calls++;
	doze();
}

static void take(long rounds)
{
	for (long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&mutex);
		taken++;
		pthread_mutex_unlock(&mutex);
		doze();
	}
}

static void *other(void *rounds)
{
	while (turn == 0)
		doze();
	take((long)rounds);
	turn = 2;
	for (;;) /* its end would be more system calls */
		doze();
	return NULL;
}

static int confine(const char *way)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_write),
		ALLOW(SYS_futex),
		ALLOW(SYS_restart_syscall),
		ALLOW(SYS_clock_nanosleep),
		ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return 1;
	if (strcmp(way, "prctl") == 0)
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	long rounds = atol(argv[1]);
	static char buffer[4096];
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	printf("before "); /* so that the stream asks for nothing later */
	pthread_t thread;
	if (pthread_create(&thread, NULL, other, (void *)rounds) != 0)
		return 4;
	for (long i = 0; i < rounds; i++)
		work();
	printf("%lu\n", calls);
	if (confine(argv[2]) != 0)
		return 3;
	for (long i = 0; i < rounds; i++)
		work();
	turn = 1;
	while (turn == 1)
		doze();
	take(rounds);
	printf("in all %lu\n", calls);
	fflush(stdout);
	_exit(0);
}
