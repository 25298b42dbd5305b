/* The library of globals.c: variables of every type, some of which have the names of the program's. */
#include "globals.h"

#define DEFINE(type, name, value) \
	type lib_g_##name; \
	static type lib_s_##name; \
	static __thread type lib_t_##name;
EACH_TYPE(DEFINE)

node_t lib_nodes[2];
/* The program uses it directly, so it is copied there. */
long lib_copied = 1;
static int twin;
const char *lib_text = "a text of the library";

void lib_set(void)
{
#define SET(type, name, value) \
	lib_g_##name = (type)(value); \
	lib_s_##name = (type)(value); \
	lib_t_##name = (type)(value); \
	__asm__ volatile("" : : "r"(&lib_s_##name), "r"(&lib_t_##name) : "memory");
	EACH_TYPE(SET)
	twin = 33;
	__asm__ volatile("" : : "r"(&twin) : "memory");
	lib_nodes[1] = (node_t){ .next = &lib_nodes[0], .name = "second", .text = "of lib", .shade = GREEN, .ratio = 2.5 };
	lib_nodes[0].either = -12345;
	lib_copied = 4711;
}
