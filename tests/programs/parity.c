/*
 * parity: does the same each time a byte comes on its standard input, then writes one. What scripts see of a round
 * does not depend on when and where it runs.
 *
 *     parity
 */
#include <dwell/sdt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SITE __attribute__((noinline, noclone))
#define BARRIER __asm__ volatile("" ::: "memory")

enum color { RED, GREEN = 5, BLUE = -3 };

struct inner {
	short tag;
	unsigned char flags;
};

union either {
	int whole;
	unsigned char bytes[4];
};

struct item {
	signed char c;
	unsigned char uc;
	short s;
	unsigned short us;
	int i;
	unsigned int u;
	long l;
	unsigned long ul;
	unsigned int low : 3;
	int middle : 7;
	unsigned int high : 22;
	enum color color;
	char name[16];
	const char *text;
	struct inner in[3];
	union either either;
	struct item *next;
	_Bool yes;
};

int counter;
unsigned short table[4] = { 10, 20, 65535, 40 };
static struct item kept = { .i = 77, .name = "kept", .text = "behind it", .in = { { 1, 2 }, { 3, 4 }, { -5, 6 } } };
const char *motto = "by name";
__thread int own = 5;

SITE int narrow(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned int f)
{
	BARRIER;
	return a + b + c + d + e + (int)f;
}

SITE long wide(long a, unsigned long b, long c, long d, long e, long f, long g, long h)
{
	BARRIER;
	return a + (long)b + c + d + e + f + g * h;
}

SITE int look(struct item *item)
{
	BARRIER;
	return item->i + item->in[1].tag;
}

SITE size_t speak(const char *text, int times)
{
	BARRIER;
	return strlen(text) * (size_t)times;
}

SITE signed char as_char(int n)
{
	BARRIER;
	return (signed char)n;
}

SITE unsigned short as_ushort(int n)
{
	BARRIER;
	return (unsigned short)n;
}

SITE const char *as_text(int n)
{
	BARRIER;
	return n & 1 ? "odd" : "even";
}

SITE int recurse(int n)
{
	BARRIER;
	return n > 0 ? recurse(n - 1) + n : 0;
}

SITE int early(int n)
{
	BARRIER;
	if (n < 0)
		return -1;
	if (n == 0)
		return 0;
	BARRIER;
	return n * 2;
}

SITE void probes(int n, const char *text, struct item *item)
{
	BARRIER;
	DWELL_PROBE(parity, numbers, n, (signed char)n, (unsigned short)n, (long)n * n, n & 1, -7);
	DWELL_PROBE(parity, text, text, n);
	DWELL_PROBE(parity, none);
	if (DWELL_PROBE_ENABLED(parity, guarded)) {
		counter += 1000;
		DWELL_PROBE(parity, guarded, item, item->i, counter);
	}
}

static const long values[] = { 0, 1, -1, 2, 7, 10, 100, 127, 128, -128, 255, 256, 1000, 32767, -32768, 65535, INT_MAX,
	INT_MIN, UINT_MAX, LONG_MAX, LONG_MIN };
#define VALUES (int)(sizeof(values) / sizeof(*values))
static const char *const texts[] = { "", "a", "hello", "/usr/lib/x86_64/libc.so.6", "one,two;three  four",
	"a text that is longer than the sixty-four bytes which some would take for the longest text of all" };
#define TEXTS (int)(sizeof(texts) / sizeof(*texts))

static void fill(struct item *item, int n)
{
	long v = values[n % VALUES];
	*item = (struct item){ .c = (signed char)v, .uc = (unsigned char)v, .s = (short)v, .us = (unsigned short)v,
		.i = (int)v, .u = (unsigned)v, .l = v, .ul = (unsigned long)v, .low = (unsigned)v & 7,
		.middle = (int)(v % 64), .high = (unsigned)v & 0x3fffff, .color = n % 3 == 0 ? RED : n % 3 == 1 ? GREEN : BLUE,
		.text = texts[n % TEXTS], .next = &kept, .yes = v != 0 };
	snprintf(item->name, sizeof(item->name), "item %d", n);
	for (int k = 0; k < 3; k++)
		item->in[k] = (struct inner){ (short)(v + k), (unsigned char)(v * k) };
	item->either.whole = (int)(v * 3);
}

static long round_of_all(void)
{
	long sum = 0;
	struct item item;
	counter = 0;
	for (int n = 0; n < VALUES; n++) {
		long v = values[n];
		counter++;
		own = n;
		sum += narrow((signed char)v, (unsigned char)v, (short)v, (unsigned short)v, (int)v, (unsigned)v);
		sum += wide(v, (unsigned long)v, -7, n, 1L << n, ~v, n + 100, n + 200);
		fill(&item, n);
		sum += look(&item);
		sum += as_char((int)v) + as_ushort((int)v) + *as_text(n);
		sum += early(n - 3);
	}
	for (int n = 0; n < TEXTS; n++) {
		sum += (long)speak(texts[n], n);
		probes(n * 50 - 100, texts[n], &item);
	}
	return sum + recurse(4);
}

int main(void)
{
	volatile long sum = round_of_all();
	char byte = 'r';
	while (write(STDOUT_FILENO, &byte, 1) == 1 && read(STDIN_FILENO, &byte, 1) == 1)
		sum += round_of_all();
	return 0;
}
