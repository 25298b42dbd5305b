/*
 * exchanges.c - waits that another thread ends: one thread waits, its partner sleeps for a period
 * and wakes it. Each waiting thread has one site; so has each waking one (pace_sleep).
 */
#include "waits.h"
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>

/* A waiting thread and its waker. */
struct exchange {
	const char *kind, *function, *syscall, *reason;
	char waiter_name[16], waker_name[16];
	void (*open)(struct exchange *);
	void (*wait)(struct exchange *);
	void (*wake)(struct exchange *);
	int read_fd, write_fd, epoll_fd;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	sem_t sem;
	atomic_uint word;
	unsigned signalled, seen; /* guarded by `mutex` */
	atomic_bool done;
};

static void open_sync(struct exchange *e)
{
	pthread_mutex_init(&e->mutex, NULL);
	pthread_cond_init(&e->cond, NULL);
	sem_init(&e->sem, 0, 0);
}

static void open_pipe(struct exchange *e)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) != 0)
		die("pipe2");
	e->read_fd = fds[0];
	e->write_fd = fds[1];
}

static void open_unix(struct exchange *e)
{
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
		die("socketpair");
	e->read_fd = fds[0];
	e->write_fd = fds[1];
}

static void open_tcp(struct exchange *e)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	if (listener < 0 || bind(listener, (void *)&address, sizeof address) != 0 || listen(listener, 1) != 0 ||
	    getsockname(listener, (void *)&address, &length) != 0)
		die("tcp listener on the loopback");
	e->write_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(e->write_fd, (void *)&address, sizeof address) != 0)
		die("connect to the loopback");
	e->read_fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	setsockopt(e->write_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	close(listener);
}

static void open_eventfd(struct exchange *e)
{
	e->read_fd = e->write_fd = eventfd(0, EFD_CLOEXEC);
	if (e->read_fd < 0)
		die("eventfd");
}

static void open_epoll(struct exchange *e)
{
	open_pipe(e);
	struct epoll_event event = { .events = EPOLLIN };
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll_fd < 0 || epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, e->read_fd, &event) != 0)
		die("epoll");
}

static void take_token(struct exchange *e)
{
	char token[8];
	if (read(e->read_fd, token, sizeof token) <= 0)
		die("read of a token");
}

SITE static void wait_condvar(struct exchange *e)
{
	pthread_mutex_lock(&e->mutex);
	while (e->signalled == e->seen)
		pthread_cond_wait(&e->cond, &e->mutex);
	e->seen = e->signalled;
	pthread_mutex_unlock(&e->mutex);
	KEEP_FRAME();
}

SITE static void wake_condvar(struct exchange *e)
{
	pthread_mutex_lock(&e->mutex);
	e->signalled++;
	pthread_mutex_unlock(&e->mutex);
	pthread_cond_signal(&e->cond);
	KEEP_FRAME();
}

SITE static void wait_semaphore(struct exchange *e)
{
	while (sem_wait(&e->sem) != 0)
		;
	KEEP_FRAME();
}

SITE static void wake_semaphore(struct exchange *e)
{
	sem_post(&e->sem);
	KEEP_FRAME();
}

SITE static void wait_futex(struct exchange *e)
{
	while (atomic_load(&e->word) == 0)
		syscall(SYS_futex, &e->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	atomic_store(&e->word, 0);
}

SITE static void wake_futex(struct exchange *e)
{
	atomic_store(&e->word, 1);
	syscall(SYS_futex, &e->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	KEEP_FRAME();
}

/* The same three lines under five names: the name is what a profile must show. */
#define TOKEN_WAIT(name)                       \
	SITE static void name(struct exchange *e) \
	{                                      \
		take_token(e);                 \
		KEEP_FRAME();                  \
	}
#define TOKEN_WAKE(name)                                             \
	SITE static void name(struct exchange *e)                    \
	{                                                            \
		uint64_t token = 1;                                  \
		if (write(e->write_fd, &token, sizeof token) < 0)    \
			die(#name);                                  \
	}

TOKEN_WAIT(wait_pipe_read)
TOKEN_WAKE(wake_pipe_read)
TOKEN_WAIT(wait_unix_read)
TOKEN_WAKE(wake_unix_read)
TOKEN_WAIT(wait_eventfd_read)
TOKEN_WAKE(wake_eventfd_read)
TOKEN_WAKE(wake_tcp_recv)
TOKEN_WAKE(wake_poll)
TOKEN_WAKE(wake_epoll)
TOKEN_WAKE(wake_select)

SITE static void wait_tcp_recv(struct exchange *e)
{
	char token[8];
	if (recv(e->read_fd, token, sizeof token, 0) <= 0)
		die("recv of a token");
}

SITE static void wait_poll(struct exchange *e)
{
	struct pollfd fd = { .fd = e->read_fd, .events = POLLIN };
	while (poll(&fd, 1, -1) != 1)
		;
	take_token(e);
	KEEP_FRAME();
}

SITE static void wait_epoll(struct exchange *e)
{
	struct epoll_event event;
	while (epoll_wait(e->epoll_fd, &event, 1, -1) != 1)
		;
	take_token(e);
	KEEP_FRAME();
}

SITE static void wait_select(struct exchange *e)
{
	fd_set set;
	do {
		FD_ZERO(&set);
		FD_SET(e->read_fd, &set);
	} while (select(e->read_fd + 1, &set, NULL, NULL, NULL) != 1);
	take_token(e);
	KEEP_FRAME();
}

#define EXCHANGE(k, call, why, opener, suffix)                                                  \
	{ .kind = k, .function = "wait_" #suffix, .syscall = call, .reason = why, .open = opener, \
	  .wait = wait_##suffix, .wake = wake_##suffix }

static struct exchange exchanges[] = {
	EXCHANGE("condvar", "futex", "condition", open_sync, condvar),
	EXCHANGE("semaphore", "futex", "condition", open_sync, semaphore),
	EXCHANGE("futex", "futex", "condition", open_sync, futex),
	EXCHANGE("pipe", "read", "pipe", open_pipe, pipe_read),
	EXCHANGE("unix", "read", "socket", open_unix, unix_read),
	EXCHANGE("tcp", "recvfrom", "socket", open_tcp, tcp_recv),
	EXCHANGE("eventfd", "read", "pipe", open_eventfd, eventfd_read),
	EXCHANGE("poll", "poll", "poll", open_pipe, poll),
	EXCHANGE("epoll", "epoll_wait", "poll", open_epoll, epoll),
	EXCHANGE("select", "pselect6", "poll", open_pipe, select),
};

SITE static void run_waiter(struct worker *w)
{
	struct exchange *e = w->arg;
	int site = truth_site(&w->truth, e->function, e->syscall, e->reason, e->waker_name);
	truth_loop_begin(&w->truth);
	while (!atomic_load(&e->done)) {
		struct wait_stamp before = truth_before(&w->truth, site);
		e->wait(e);
		truth_after(&w->truth, site, before);
	}
	truth_loop_end(&w->truth);
}

SITE static void run_waker(struct worker *w)
{
	struct exchange *e = w->arg;
	uint64_t next = now_ns();
	int site = truth_site(&w->truth, "pace_sleep", "clock_nanosleep", "sleep", "");
	truth_loop_begin(&w->truth);
	while (time_left()) {
		struct wait_stamp before = truth_before(&w->truth, site);
		pace_sleep(&next);
		truth_after(&w->truth, site, before);
		e->wake(e);
	}
	truth_loop_end(&w->truth);
	/* One token more, so that a waiter that already consumed the last one sees the end. */
	atomic_store(&e->done, true);
	e->wake(e);
}

void add_exchanges(void)
{
	for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++) {
		struct exchange *e = &exchanges[i];
		if (!kind_wanted(e->kind))
			continue;
		e->open(e);
		snprintf(e->waiter_name, sizeof e->waiter_name, "%s", e->kind);
		snprintf(e->waker_name, sizeof e->waker_name, "%s-waker", e->kind);
		worker_add(e->waiter_name, run_waiter, e);
		worker_add(e->waker_name, run_waker, e);
	}
}
