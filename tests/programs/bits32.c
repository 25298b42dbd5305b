/*
 * bits32: a program of 32 bits, without a C library, that waits in five ways for 20 ms each, in turn, so often.
 * Its system calls have other numbers than those of programs of 64 bits, and their arguments are in other registers.
 */
#define NR_EXIT 1
#define NR_FORK 2
#define NR_READ 3
#define NR_WRITE 4
#define NR_WAITPID 7
#define NR_PIPE 42
#define NR_NANOSLEEP 162
#define NR_POLL 168
#define NR_FUTEX 240

enum { ROUNDS = 20, WAIT_NS = 20000000, WAIT_MS = 20 };

struct duration {
	long s, ns;
};

static const struct duration wait = { 0, WAIT_NS };

static long call(long nr, long a, long b, long c, long d)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d) : "memory");
	return result;
}

static void doze(void)
{
	call(NR_NANOSLEEP, (long)&wait, 0, 0, 0);
}

/* Another process lets a reader wait. */
static void read_late(void)
{
	int ends[2];
	char byte = 0;
	long child;

	call(NR_PIPE, (long)ends, 0, 0, 0);
	child = call(NR_FORK, 0, 0, 0, 0);
	if (child == 0) {
		doze();
		call(NR_WRITE, ends[1], (long)&byte, 1, 0);
		doze();
		call(NR_EXIT, 0, 0, 0, 0);
	}
	call(NR_READ, ends[0], (long)&byte, 1, 0);
	call(NR_WAITPID, child, 0, 0, 0);
	/* close */
	call(6, ends[0], 0, 0, 0);
	call(6, ends[1], 0, 0, 0);
}

void _start(void)
{
	int word = 0;

	for (int i = 0; i < ROUNDS; i++) {
		doze();
		call(NR_POLL, 0, 0, WAIT_MS, 0);
		call(NR_FUTEX, (long)&word, 128, 0, (long)&wait); /* FUTEX_WAIT_PRIVATE */
		read_late();
	}
	call(NR_EXIT, 0, 0, 0, 0);
	__builtin_unreachable();
}
