/*
 * jit - code that no file knows of, with frame pointers and a perf map.
 *
 * What it does: writes two functions into anonymous executable memory, jitted_outer and jitted_inner,
 * names them in /tmp/perf-PID.map, and calls jitted_outer. It calls jitted_inner, which counts down
 * a while and then calls back into C: from_jit() computes and sleeps 1 ms each.
 *
 * Its true answer (one JSON line): rounds. Every stack of from_jit is from_jit < jitted_inner <
 * jitted_outer < call_jitted < main < _start; some processor time is in jitted_inner itself.
 *
 * Usage: jit [SECONDS=2]          (x86-64 only)
 */
#include "truth.h"
#include <sys/mman.h>

SITE static void compute_from_jit(void) { spin_cpu_ns(NS_PER_MS); KEEP_FRAME(); }
SITE static void sleep_from_jit(void) { sleep_ns(NS_PER_MS); KEEP_FRAME(); }

SITE static void from_jit(void)
{
	compute_from_jit();
	sleep_from_jit();
}

/* A buffer that machine code is appended to. */
struct code {
	uint8_t *start;
	size_t used;
};

static void emit(struct code *c, const char *bytes, size_t count)
{
	memcpy(c->start + c->used, bytes, count);
	c->used += count;
}
#define EMIT(c, bytes) emit(c, bytes, sizeof bytes - 1)

static void emit_address(struct code *c, const void *address)
{
	emit(c, (const char *)&address, sizeof address);
}

/* Starts a function on a 16-byte boundary and pushes its frame pointer. */
static uint8_t *begin_function(struct code *c)
{
	c->used = (c->used + 15) & ~(size_t)15;
	uint8_t *start = c->start + c->used;
	EMIT(c, "\x55");         /* push %rbp */
	EMIT(c, "\x48\x89\xe5"); /* mov %rsp, %rbp */
	return start;
}

static void call_and_return(struct code *c, const void *callee)
{
	EMIT(c, "\x48\xb8"); /* movabs callee, %rax */
	emit_address(c, callee);
	EMIT(c, "\xff\xd0"); /* call *%rax */
	EMIT(c, "\x5d\xc3"); /* pop %rbp; ret */
}

static uint8_t *write_inner(struct code *c)
{
	uint8_t *start = begin_function(c);
	EMIT(c, "\xb9\x00\x00\x10\x00"); /* mov $0x100000, %ecx */
	EMIT(c, "\xff\xc9");             /* dec %ecx */
	EMIT(c, "\x75\xfc");             /* jnz to the dec */
	call_and_return(c, (const void *)from_jit);
	return start;
}

static uint8_t *write_outer(struct code *c, const uint8_t *inner)
{
	uint8_t *start = begin_function(c);
	call_and_return(c, inner);
	return start;
}

static void write_perf_map(const struct code *c, const uint8_t *inner, const uint8_t *outer)
{
	char path[64];
	snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	if (!map)
		die(path);
	fprintf(map, "%lx %lx jitted_inner\n", (unsigned long)inner, (unsigned long)(outer - inner));
	fprintf(map, "%lx %lx jitted_outer\n", (unsigned long)outer, (unsigned long)(c->start + c->used - outer));
	fclose(map);
}

SITE static void call_jitted(void (*outer)(void))
{
	outer();
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	struct code code = { mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 0 };
	if (code.start == MAP_FAILED)
		die("mmap");
	uint8_t *inner = write_inner(&code), *outer = write_outer(&code, inner);
	if (mprotect(code.start, 4096, PROT_READ | PROT_EXEC) != 0)
		die("mprotect");
	write_perf_map(&code, inner, outer);
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	long rounds = 0;
	for (; now_ns() < end; rounds++)
		call_jitted((void (*)(void))(uintptr_t)outer);
	printf("{\"program\":\"jit\",\"rounds\":%ld,\"cpu_ns\":%" PRIu64 "}\n", rounds, thread_cpu_ns());
	return 0;
}
