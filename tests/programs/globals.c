/*
 * globals: variables of every kind with known values, and a function that is called when they have them.
 *
 *     globals [CALLS]
 */
#include <stdio.h>
#include <stdlib.h>
#include "globals.h"

#define DEFINE(type, name, value) \
	type g_##name; \
	static type s_##name; \
	type a_##name[3]; \
	type m_##name[2][3]; \
	type *p_##name = &g_##name; \
	type **pp_##name = &p_##name; \
	const type k_##name = (type)(value); \
	volatile type v_##name; \
	__thread type t_##name; \
	static __thread type ts_##name = (type)(value);
EACH_TYPE(DEFINE)

struct bits bits = { 1, 5, -9, 0xabcdef0123, 1, BLUE, -65535 };
struct packed packed = { 'q', -77, 0x2abcdef1, 99, -123456789012 };
union number number = { .whole = 0x12345678 };
node_t second = { .name = "the second", .text = "text", .number.whole = 0xfedcba98, .shade = BLUE, .point = { 1, -2, { -3 } }, .ratio = -0.125 };
node_t first = { .next = &second, .name = "the first", .text = "eleven char", .shade = GREEN, .point = { 10, 20, { 30 } }, .either = -1, .ratio = 3.0 };
node_t nodes[3];
node_t *by_pointer = &first;
node_t *pointers[2] = { &second, &first };
enum shade shade = BLUE;
enum wide wide = HIGH;
float single = 1.5f;
double twice = -2.25;
char text[] = "characters in an array";
char full[4] = { 'f', 'u', 'l', 'l' };
const char *string = "characters behind a pointer";
const char *strings[3] = { "none", "one", "several" };
char lines[2][8] = { "first", "second" };
void *nothing;
static int twin = 11;
__thread node_t thread_node;
__thread char thread_text[16];

extern long lib_copied;
void lib_set(void);
void twin_set(void);

static int add_one(int n)
{
	return n + 1;
}
action_t action = add_one;

__attribute__((noinline, noclone)) int all_set(int call, const node_t *node, double ratio, enum shade of, const char *name)
{
	__asm__ volatile("" : : "r"(call), "r"(node), "x"(ratio), "r"(of), "r"(name) : "memory");
	return call * 2 + of;
}

struct pair {
	long a, b;
};
struct large {
	long a, b, c;
};

__attribute__((noinline, noclone)) unsigned char mixed(float a, char b, struct pair c, short d, struct large e, long f, int g, int h, int i, double j, short k)
{
	__asm__ volatile("" : : "x"(a), "r"(b), "r"(c.a), "r"(d), "r"(e.a), "r"(f), "r"(g), "r"(h), "r"(i), "x"(j), "r"(k) : "memory");
	return (unsigned char)(200 + b);
}

__attribute__((noinline, noclone)) struct large hidden(int a, int b)
{
	__asm__ volatile("" : : "r"(a), "r"(b) : "memory");
	return (struct large){ a, b, a };
}

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1;
#define SET(type, name, value) \
	g_##name = (type)(value); \
	s_##name = (type)(value); \
	v_##name = (type)(value); \
	t_##name = (type)(value); \
	for (int i = 0; i < 3; i++) { \
		a_##name[i] = (type)((value) + i); \
		m_##name[0][i] = (type)((value) - i); \
		m_##name[1][i] = (type)((value) / (i + 2)); \
	} \
	__asm__ volatile("" : : "r"(&s_##name), "r"(&ts_##name) : "memory");
	EACH_TYPE(SET)
	for (int i = 0; i < 3; i++)
		nodes[i] = (node_t){ .next = &nodes[(i + 1) % 3], .name = strings[i], .text = { (char)('a' + i) }, .number.whole = 1u << i, .point.x = i };
	thread_node = first;
	snprintf(thread_text, sizeof thread_text, "of a thread");
	twin_set();
	lib_set();
	lib_copied++;
	__asm__ volatile("" : : "r"(&twin), "r"(&thread_node), "r"(thread_text) : "memory");
	long sum = 0;
	for (long call = 0; call < calls; call++) {
		sum += all_set((int)call, &first, 0.5, BLUE, "a name");
		sum += mixed(1.0f, -3, (struct pair){ 1, 2 }, -4, (struct large){ 5, 6, 7 }, -8, 9, -10, 11, 12.0, -13);
		sum += hidden((int)call, 42).b;
	}
	printf("%ld\n", sum);
	return 0;
}
