/*
 * torture: everything that patching a running program may break, on 32 threads at once, checked all
 * the time. A wrong result ends it with a message and SIGABRT.
 *
 * Every function it counts is `extern "C"` and adds one to its own entry of `calls`. Commands on
 * standard input: `p` parks all threads outside of these functions and prints the counts as a line of
 * JSON, `r` lets them run and prints {}, `q` ends the program, which prints {"ok":true}.
 *
 * A right count of the calls of a function between two parks is the difference of its two counts:
 * children of vfork count (they run in this memory), children of fork do not.
 */
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdexcept>
#include <string>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;

#define COUNTED(X) X(leaf) X(thrower) X(catcher) X(jumper) X(forked) X(before_exec) X(handler_work) \
	X(coroutine_step) X(short_lived) X(recursive) X(tiny) X(calls_first) X(loop_early) X(many_returns)
enum counted {
#define ENTRY(name) C_##name,
	COUNTED(ENTRY)
#undef ENTRY
	COUNTED_MAX
};
static const char *const names[] = {
#define ENTRY(name) #name,
	COUNTED(ENTRY)
#undef ENTRY
};
struct alignas(64) Count {
	std::atomic<uint64_t> value;
};
static Count calls[COUNTED_MAX];
#define CALLED(name) calls[C_##name].value.fetch_add(1, std::memory_order_relaxed)
#define SITE extern "C" __attribute__((noinline, noclone, noipa))

static void wrong(const char *what)
{
	fprintf(stderr, "torture: wrong: %s\n", what);
	abort();
}

/* Keeps its values below the stack pointer. */
SITE uint64_t leaf(uint64_t seed)
{
	volatile uint64_t local[12];
	for (int i = 0; i < 12; i++)
		local[i] = seed + (uint64_t)i * 7;
	CALLED(leaf);
	uint64_t sum = 0;
	for (int i = 0; i < 12; i++)
		sum += local[i];
	return sum;
}

struct Guard {
	int *count;
	~Guard() { ++*count; }
};

/* Recursion through pointers: the compiler unrolls it otherwise, into bodies that nobody calls. */
SITE int thrower(int depth, int *unwound);
SITE uint64_t recursive(uint64_t n);
static int (*volatile throw_again)(int, int *) = thrower;
static uint64_t (*volatile recur)(uint64_t) = recursive;

SITE int thrower(int depth, int *unwound)
{
	CALLED(thrower);
	Guard guard{unwound};
	if (depth == 0)
		throw std::runtime_error("torture");
	return throw_again(depth - 1, unwound) + 1;
}

SITE int catcher(int depth)
{
	CALLED(catcher);
	int unwound = 0;
	try {
		thrower(depth, &unwound);
	} catch (const std::runtime_error &error) {
		if (strcmp(error.what(), "torture") != 0)
			wrong("an exception's text");
		return unwound;
	}
	return -1;
}

SITE void jumper(jmp_buf *back, int value)
{
	CALLED(jumper);
	longjmp(*back, value);
}

SITE uint64_t forked(uint64_t n)
{
	CALLED(forked);
	return n * 3 + 1;
}

SITE void before_exec(void) { CALLED(before_exec); }

SITE uint64_t handler_work(uint64_t n)
{
	CALLED(handler_work);
	return n ^ 0x55;
}

SITE void coroutine_step(uint64_t *value)
{
	CALLED(coroutine_step);
	*value += 3;
}

SITE void *short_lived(void *value)
{
	CALLED(short_lived);
	return (char *)value + 1;
}

SITE uint64_t recursive(uint64_t n)
{
	CALLED(recursive);
	return n == 0 ? 1 : recur(n - 1) * 3 + n;
}

/* Its whole code is one locked instruction and a return. */
SITE void tiny(void) { CALLED(tiny); }

/* Its first instructions are the alignment of the stack and a call. */
SITE int calls_first(void)
{
	tiny();
	CALLED(calls_first);
	return 7;
}

/* A loop that begins at once. */
SITE uint64_t loop_early(const char *text)
{
	uint64_t sum = 0;
	for (; *text; text++)
		sum = sum * 31 + (unsigned char)*text;
	CALLED(loop_early);
	return sum;
}

SITE int many_returns(int n)
{
	CALLED(many_returns);
	switch (n) {
	case 0: return 11;
	case 1: return (int)recursive(1);
	case 2: return 5 + (int)leaf(3) % 2;
	case 3: tiny(); return 9;
	case 4: return n * n;
	case 5: return calls_first();
	default: return -n;
	}
}

/* ---- what the threads do ---- */

static std::atomic<bool> parking, ending;
static std::atomic<int> parked, alive;
static std::string library;

static void do_leaf(unsigned i)
{
	if (leaf(i) != 12ull * i + 7 * 66)
		wrong("a leaf function's red zone");
	uint64_t expected = 1;
	for (uint64_t n = 1; n <= 8; n++)
		expected = expected * 3 + n;
	if (recursive(8) != expected)
		wrong("recursion");
	static const int results[] = { 11, 4, 0, 9, 16, 7, -6 };
	int n = (int)(i % 7), result = many_returns(n);
	if (n == 2 ? result != 5 + (int)((12ull * 3 + 7 * 66) % 2) : result != results[n])
		wrong("a switch");
	if (loop_early("ab") != 97 * 31 + 98)
		wrong("an early loop");
}

static void do_exceptions(unsigned i)
{
	int depth = (int)(i % 9);
	if (catcher(depth) != depth + 1)
		wrong("destructors on unwinding");
}

static void do_jumps(unsigned i)
{
	jmp_buf back;
	int value = 1 + (int)(i % 100), got = setjmp(back);
	if (got == 0)
		jumper(&back, value);
	if (got != value)
		wrong("longjmp's value");
}

static void await_success(pid_t pid, const char *what)
{
	int status;
	while (waitpid(pid, &status, 0) < 0)
		;
	if (status != 0) {
		fprintf(stderr, "status %#x\n", status);
		wrong(what);
	}
}

static void do_fork(unsigned i)
{
	pid_t pid = fork();
	if (pid < 0)
		wrong("fork");
	if (pid == 0) {
		for (int k = 0; k < 50; k++)
			if (forked(i) != i * 3ull + 1 || catcher(3) != 4)
				_exit(1);
		_exit(0);
	}
	if (forked(i) != i * 3ull + 1)
		wrong("fork's parent");
	await_success(pid, "a forked child");
}

static void do_exec(unsigned i)
{
	static char path[] = "/bin/true";
	char *arguments[] = { path, nullptr };
	pid_t pid;
	if (i % 2) {
		pid = vfork();
		if (pid == 0) {
			before_exec();
			execve(path, arguments, environ);
			_exit(1);
		}
	} else if (posix_spawn(&pid, path, nullptr, nullptr, arguments, environ) != 0) {
		wrong("posix_spawn");
	}
	if (pid < 0)
		wrong("vfork");
	await_success(pid, "an executed child");
}

static thread_local volatile uint64_t handled;

static void handler(int, siginfo_t *, void *)
{
	uint64_t n = handled;
	if ((handler_work(n) ^ 0x55) != n)
		wrong("work in a signal handler");
	handled = n + 1;
}

/* The timer's: anywhere, also in the middle of everything above. */
static void on_timer(int, siginfo_t *, void *)
{
	volatile uint64_t local[64];
	for (int i = 0; i < 64; i++)
		local[i] = 0xdeadbeefdeadbeef;
	(void)local[7];
}

static void do_signals(unsigned)
{
	uint64_t before = handled;
	raise(SIGUSR1);
	if (handled != before + 1)
		wrong("a signal on the alternate stack");
}

static void do_libraries(unsigned i)
{
	void *handle = dlopen(library.c_str(), RTLD_NOW);
	if (!handle)
		wrong(dlerror());
	auto function = (long (*)(long))dlsym(handle, "torture_loaded");
	long n = 5 + (long)(i % 5), expected = 0;
	for (long k = 1; k <= n; k++)
		expected += k ^ n;
	if (function(n) != expected)
		wrong("a loaded function");
	dlclose(handle);
}

struct Coroutine {
	ucontext_t self, caller;
	uint64_t value;
	alignas(16) char stack[16384];
};
static thread_local Coroutine *running;

static void coroutine_body()
{
	for (;;) {
		coroutine_step(&running->value);
		swapcontext(&running->self, &running->caller);
	}
}

static void do_coroutines(unsigned)
{
	if (!running) {
		running = new Coroutine();
		getcontext(&running->self);
		running->self.uc_stack.ss_sp = running->stack;
		running->self.uc_stack.ss_size = sizeof running->stack;
		makecontext(&running->self, coroutine_body, 0);
	}
	uint64_t before = running->value;
	for (int i = 0; i < 20; i++)
		swapcontext(&running->caller, &running->self);
	if (running->value != before + 60)
		wrong("a coroutine");
}

static void do_threads(unsigned)
{
	pthread_t threads[4];
	for (uintptr_t i = 0; i < 4; i++)
		if (pthread_create(&threads[i], nullptr, short_lived, (void *)i) != 0)
			wrong("pthread_create");
	for (uintptr_t i = 0; i < 4; i++) {
		void *result;
		pthread_join(threads[i], &result);
		if (result != (void *)(i + 1))
			wrong("a short-lived thread");
	}
}

static void (*const kinds[])(unsigned) = { do_leaf, do_exceptions, do_jumps, do_fork, do_exec,
					   do_signals, do_libraries, do_coroutines, do_threads };
enum { KINDS = sizeof kinds / sizeof *kinds };

static void park()
{
	parked++;
	while (parking && !ending)
		usleep(200);
	parked--;
}

static void *worker(void *argument)
{
	unsigned id = (unsigned)(uintptr_t)argument;
	static const size_t size = 65536;
	stack_t stack = {};
	stack.ss_sp = malloc(size);
	stack.ss_size = size;
	if (sigaltstack(&stack, nullptr) != 0)
		wrong("sigaltstack");
	for (unsigned i = id; !ending; i++) {
		if (parking)
			park();
		kinds[id % KINDS](i);
	}
	delete running;
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, nullptr);
	free(stack.ss_sp);
	alive--;
	return nullptr;
}

static void print_counts()
{
	printf("{");
	for (int i = 0; i < COUNTED_MAX; i++)
		printf("%s\"%s\":%llu", i ? "," : "", names[i], (unsigned long long)calls[i].value.load());
	printf("}\n");
}

static void set_timer(long us)
{
	itimerval timer = { { 0, us }, { 0, us } };
	setitimer(ITIMER_REAL, &timer, nullptr);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 32;
	std::string self = argv[0];
	library = self.substr(0, self.rfind('/') + 1) + "libtorture_lib.so";
	setvbuf(stdout, nullptr, _IOLBF, 0);
	struct sigaction action = {};
	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	sigaction(SIGUSR1, &action, nullptr);
	action.sa_sigaction = on_timer;
	sigaction(SIGALRM, &action, nullptr);
	/* The children that execute must not be ended by an inherited timer's signal: timers are not
	 * inherited by fork, and what is pending neither. */
	pthread_t *threads = new pthread_t[count];
	alive = count;
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], nullptr, worker, (void *)(uintptr_t)i) != 0)
			wrong("pthread_create");
	set_timer(1000);
	printf("{\"ready\":true}\n");
	for (int command; (command = getchar()) != EOF && command != 'q';) {
		if (command == 'p') {
			parking = true;
			while (parked != count)
				usleep(100);
			print_counts();
		} else if (command == 'r') {
			parking = false;
			while (parked != 0)
				usleep(100);
			printf("{}\n");
		}
	}
	ending = true;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], nullptr);
	set_timer(0);
	delete[] threads;
	printf("{\"ok\":true}\n");
	return 0;
}
