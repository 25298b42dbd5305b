/*
 * reasons - waits of many kinds, one thread (or child process) each.
 *
 * What it does: every thread waits once, for about 200 ms, in the system call that its name tells. Some are child
 * processes that are stopped for a moment while they wait.
 *
 * Its true answer (JSON): for each its tid, the reason that a profile must give for the wait, the system
 * call (* for any), and how long it waited at least, in ms.
 *
 * Usage: reasons [JSON-FILE]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 200 };
static const struct timespec wait_time = { 0, WAIT_MS * 1000000L };

/* Whatever cannot be set up here fails loudly: a kind that is left out would hold without proof. */
static long must(const char *what, long result)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
	return result;
}

static struct timespec deadline(clockid_t clock, const struct timespec *wait)
{
	struct timespec t;
	clock_gettime(clock, &t);
	t.tv_nsec += wait->tv_nsec;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static void pause_here(void) { nanosleep(&wait_time, NULL); }

/* Runs in a child process after a while. */
static pid_t later(void (*act)(int), int what)
{
	pid_t child = must("fork", fork());
	if (child)
		return child;
	pause_here();
	if (act)
		act(what);
	_exit(0);
}

static int temporary(void)
{
	char name[] = "/tmp/reasons-XXXXXX";
	int fd = must("mkstemp", mkstemp(name));
	unlink(name);
	return fd;
}

static void wait_futex_waitv(void)
{
	static uint32_t word;
	struct futex_waitv waiter = { .uaddr = (uintptr_t)&word, .flags = FUTEX_32 };
	struct timespec until = deadline(CLOCK_MONOTONIC, &wait_time);
	syscall(SYS_futex_waitv, &waiter, 1, 0, &until, CLOCK_MONOTONIC);
}

/* The child alone holds the lock: its descriptor is of another opening. */
static void wait_for_lock(bool with_flock)
{
	int fd = temporary(), ready[2];
	char path[64], byte;
	must("pipe", pipe(ready));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	struct flock whole = { .l_type = F_WRLCK };
	pid_t child = must("fork", fork());
	if (!child) {
		int own = must("open", open(path, O_RDWR));
		close(fd);
		must("lock", with_flock ? flock(own, LOCK_EX) : fcntl(own, F_SETLK, &whole));
		must("write", write(ready[1], "", 1));
		pause_here();
		_exit(0);
	}
	must("read", read(ready[0], &byte, 1));
	must("wait for lock", with_flock ? flock(fd, LOCK_EX) : fcntl(fd, F_SETLKW, &whole));
}

static void wait_flock(void) { wait_for_lock(true); }
static void wait_fcntl(void) { wait_for_lock(false); }

static void wait_semtimedop(void)
{
	int set = must("semget", semget(IPC_PRIVATE, 1, 0600));
	struct sembuf take = { .sem_op = -1 };
	semtimedop(set, &take, 1, &wait_time);
	semctl(set, 0, IPC_RMID);
}

static void remove_queue(int queue) { msgctl(queue, IPC_RMID, NULL); }

static void wait_msgrcv(void)
{
	struct { long type; char text[8]; } message;
	int queue = must("msgget", msgget(IPC_PRIVATE, 0600));
	later(remove_queue, queue);
	msgrcv(queue, &message, sizeof message.text, 0, 0);
}

static void wait_mq_timedreceive(void)
{
	char name[32], text[64];
	struct mq_attr sizes = { .mq_maxmsg = 1, .mq_msgsize = sizeof text };
	snprintf(name, sizeof name, "/reasons-%d", getpid());
	mqd_t queue = must("mq_open", mq_open(name, O_RDWR | O_CREAT, 0600, &sizes));
	mq_unlink(name);
	struct timespec until = deadline(CLOCK_REALTIME, &wait_time);
	mq_timedreceive(queue, text, sizeof text, NULL, &until);
}

static void wait_epoll_pwait2(void)
{
	struct epoll_event event;
	int fd = must("epoll_create1", epoll_create1(0));
	syscall(SYS_epoll_pwait2, fd, &event, 1, &wait_time, NULL, 0);
}

static void wait_poll_of_pidfd(void)
{
	struct pollfd child = { .events = POLLIN };
	child.fd = must("pidfd_open", syscall(SYS_pidfd_open, later(NULL, 0), 0));
	poll(&child, 1, -1);
}

static void set_timeout(int fd, int which)
{
	struct timeval time = { 0, WAIT_MS * 1000 };
	must("setsockopt", setsockopt(fd, SOL_SOCKET, which, &time, sizeof time));
}

static void wait_recvmmsg(void)
{
	int pair[2];
	char byte;
	struct iovec part = { &byte, 1 };
	struct mmsghdr message = { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } };
	must("socketpair", socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	set_timeout(pair[0], SO_RCVTIMEO);
	recvmmsg(pair[0], &message, 1, 0, NULL);
}

static void wait_accept4(void)
{
	struct sockaddr any = { .sa_family = AF_UNIX };
	int fd = must("socket", socket(AF_UNIX, SOCK_STREAM, 0));
	must("bind", bind(fd, &any, sizeof any.sa_family));
	must("listen", listen(fd, 1));
	set_timeout(fd, SO_RCVTIMEO);
	accept4(fd, NULL, NULL, 0);
}

static void wait_sendfile(void)
{
	int pair[2], file = temporary();
	must("ftruncate", ftruncate(file, 16 << 20));
	must("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	set_timeout(pair[0], SO_SNDTIMEO);
	sendfile(pair[0], file, NULL, 16 << 20);
}

static void wait_splice(void)
{
	int ends[2], into = must("open", open("/dev/null", O_WRONLY));
	must("pipe2", pipe2(ends, O_CLOEXEC));
	later(NULL, 0);
	close(ends[1]); /* the child has the other one, until it ends */
	splice(ends[0], NULL, into, NULL, 1, 0);
}

static void wait_waitid(void)
{
	siginfo_t info;
	must("waitid", waitid(P_PID, (id_t)later(NULL, 0), &info, WEXITED));
}

static void wait_vfork(void)
{
	pid_t child = vfork();
	if (!child) {
		syscall(SYS_nanosleep, &wait_time, NULL);
		_exit(0);
	}
}

static void wait_io_uring_enter(void)
{
	struct io_uring_params parameters = { 0 };
	struct __kernel_timespec time = { 0, WAIT_MS * 1000000L };
	struct io_uring_getevents_arg more = { .ts = (uintptr_t)&time };
	int ring = must("io_uring_setup", syscall(SYS_io_uring_setup, 1, &parameters));
	syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &more, sizeof more);
}

static void wait_rt_sigtimedwait(void)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	sigtimedwait(&signals, NULL, &wait_time);
}

static struct { int fd; char *page; } missing;

static void *fill_page(void *unused)
{
	struct uffd_msg message;
	must("read", read(missing.fd, &message, sizeof message));
	pause_here();
	struct uffdio_zeropage zero = { .range = { (uintptr_t)missing.page, 4096 } };
	must("UFFDIO_ZEROPAGE", ioctl(missing.fd, UFFDIO_ZEROPAGE, &zero));
	return unused;
}

static void wait_userfault(void)
{
	pthread_t filler;
	struct uffdio_api api = { .api = UFFD_API };
	missing.fd = must("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC));
	missing.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register area = { .range = { (uintptr_t)missing.page, 4096 }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	must("UFFDIO_API", ioctl(missing.fd, UFFDIO_API, &api));
	must("UFFDIO_REGISTER", ioctl(missing.fd, UFFDIO_REGISTER, &area));
	pthread_create(&filler, NULL, fill_page, NULL);
	*(volatile char *)missing.page = 1;
	pthread_join(filler, NULL);
}

/* The child stops itself; its waker lets it go on after a while. */
static void stop_here(bool traced)
{
	if (traced)
		must("ptrace", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	raise(SIGSTOP);
}

/* These go on by restart_syscall once a signal that has no handler is over. */
static const struct timespec long_time = { 0, (WAIT_MS + 100) * 1000000L };

static void wait_futex_bitset(void)
{
	static uint32_t word;
	struct timespec until = deadline(CLOCK_MONOTONIC, &long_time);
	syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void wait_poll_of_nothing(void) { poll(NULL, 0, WAIT_MS + 100); }

static void wait_poll_of_pipe(void)
{
	int ends[2];
	must("pipe", pipe(ends));
	struct pollfd both[2] = { { .fd = ends[0], .events = POLLIN }, { .fd = ends[0], .events = POLLIN } };
	poll(both, 2, WAIT_MS + 100);
}

static void wait_nanosleep(void) { syscall(SYS_nanosleep, &long_time, NULL); }

static void wait_clock_nanosleep(void) { clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL); }

struct kind {
	const char *name, *reason, *syscall;
	void (*wait)(void);
};

static const struct kind restarted[] = {
	{ "futex again", "lock", "futex", wait_futex_bitset },
	{ "poll again", "poll", "poll", wait_poll_of_pipe },
	{ "poll nothing", "poll", "poll", wait_poll_of_nothing },
	{ "sleep again", "sleep", "nanosleep", wait_nanosleep },
	{ "clock again", "sleep", "clock_nanosleep", wait_clock_nanosleep },
};
enum { RESTARTED = sizeof restarted / sizeof *restarted };

/* Child processes that wait, and are stopped for a moment while they do. */
static void interrupt_waits(pid_t *waiting)
{
	for (int i = 0; i < RESTARTED; i++) {
		waiting[i] = must("fork", fork());
		if (!waiting[i]) {
			restarted[i].wait();
			_exit(0);
		}
	}
	usleep(50000);
	for (int i = 0; i < RESTARTED; i++) {
		must("kill", kill(waiting[i], SIGSTOP));
		must("waitpid", waitpid(waiting[i], NULL, WUNTRACED));
		must("kill", kill(waiting[i], SIGCONT));
	}
}

static const struct kind kinds[] = {
	{ "futex_waitv", "lock", "futex_waitv", wait_futex_waitv },
	{ "flock", "lock", "flock", wait_flock },
	{ "fcntl", "lock", "fcntl", wait_fcntl },
	{ "semtimedop", "lock", "semtimedop", wait_semtimedop },
	{ "msgrcv", "pipe", "msgrcv", wait_msgrcv },
	{ "mq_receive", "pipe", "mq_timedreceive", wait_mq_timedreceive },
	{ "epoll_pwait2", "poll", "epoll_pwait2", wait_epoll_pwait2 },
	{ "pidfd", "poll", "poll", wait_poll_of_pidfd },
	{ "recvmmsg", "socket", "recvmmsg", wait_recvmmsg },
	{ "accept4", "socket", "accept4", wait_accept4 },
	{ "sendfile", "socket", "sendfile", wait_sendfile },
	{ "splice", "pipe", "splice", wait_splice },
	{ "waitid", "child", "waitid", wait_waitid },
	{ "vfork", "child", "vfork", wait_vfork },
	{ "io_uring", "io", "io_uring_enter", wait_io_uring_enter },
	{ "sigtimedwait", "sleep", "rt_sigtimedwait", wait_rt_sigtimedwait },
	{ "userfault", "fault", "", wait_userfault },
};
enum { KINDS = sizeof kinds / sizeof *kinds };
static struct { pid_t tid; } truths[KINDS];


static void *wait_once(void *arg)
{
	const struct kind *kind = arg;
	prctl(PR_SET_NAME, kind->name);
	truths[kind - kinds].tid = gettid();
	kind->wait();
	return NULL;
}

static void print(FILE *out, pid_t tid, const char *name, const char *reason, const char *call, bool first)
{
	fprintf(out, "%s{\"tid\":%d,\"name\":\"%s\",\"reason\":\"%s\",\"syscall\":\"%s\",\"ms\":%d}", first ? "" : ",",
		tid, name, reason, call, WAIT_MS);
}

int main(int argc, char **argv)
{
	FILE *out = argc > 1 ? fopen(argv[1], "w") : stdout;
	pthread_t threads[KINDS];
	pid_t stopped[2], waiting[RESTARTED];
	if (!out)
		must("fopen", -1);
	for (int traced = 0; traced < 2; traced++) {
		stopped[traced] = must("fork", fork());
		if (!stopped[traced]) {
			stop_here(traced);
			_exit(0);
		}
		must("waitpid", waitpid(stopped[traced], NULL, WUNTRACED));
	}
	interrupt_waits(waiting);
	for (int i = 0; i < KINDS; i++)
		pthread_create(&threads[i], NULL, wait_once, (void *)&kinds[i]);
	pause_here();
	must("kill", kill(stopped[0], SIGCONT));
	must("ptrace", ptrace(PTRACE_CONT, stopped[1], NULL, NULL));
	for (int i = 0; i < KINDS; i++)
		pthread_join(threads[i], NULL);
	fprintf(out, "{\"waits\":[");
	for (int i = 0; i < KINDS; i++)
		print(out, truths[i].tid, kinds[i].name, kinds[i].reason, kinds[i].syscall, i == 0);
	for (int traced = 0; traced < 2; traced++)
		print(out, stopped[traced], traced ? "traced" : "stopped", "stopped", "*", false);
	for (int i = 0; i < RESTARTED; i++) {
		must("waitpid", waitpid(waiting[i], NULL, 0));
		print(out, waiting[i], restarted[i].name, restarted[i].reason, restarted[i].syscall, false);
	}
	fprintf(out, "]}\n");
	return fclose(out) != 0;
}
