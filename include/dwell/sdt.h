/* Static probes for C and C++ programs. One header: no library, no link step, nothing to initialise.
 *
 *     #include <dwell/sdt.h>
 *
 *     DWELL_PROBE(shop, order, order->id, order->customer);
 *
 *     if (DWELL_PROBE_ENABLED(shop, stock))
 *         DWELL_PROBE(shop, stock, count_all_items());
 *
 * DWELL_PROBE(provider, name, arguments...) marks a place. It takes up to 12 arguments: integers of
 * every size, bool, enumerations, bit-fields, float, double and pointers (arrays and functions are passed
 * as pointers). Each is evaluated once, probe enabled or not.
 *
 * DWELL_PROBE_ENABLED(provider, name) is true while somebody watches a probe of this name in this
 * program or library. It guards arguments that are expensive to compute.
 *
 * `provider` and `name` are plain identifiers; macros of the same name do not disturb them. `__` in a
 * probe's name is `-` in D: `order__done` is `order-done`. The same probe may stand in many places, in
 * inline functions, templates, several files.
 *
 * C99 and later, C++11 and later, gcc and clang, Linux on x86-64; elsewhere the probes vanish.
 *
 * What is in the program
 * ----------------------
 * At the site:
 *
 *     nop                        where the note points
 *     nopw 0x0(%rax)             5 bytes: 66 0f 1f 40 00
 *
 * The one-byte nop is for the kernel's uprobes (perf, bpftrace, gdb's breakpoints): the kernel emulates it
 * without ever leaving the trap. The five bytes after it are one instruction, so that a jump can be written
 * over them while no thread can be in their middle, and they are apart from the nop, so that a tracer inside
 * the process and one in the kernel do not overwrite each other. It is on purpose not the usual five-byte
 * nop (0f 1f 44 00 00): kernels before the repair of 2026 that find a uprobe on that one turn it into a
 * call, which overwrites the red zone of leaf functions, and libraries that attach probes look for it.
 *
 * In sections that are not loaded: a note in the format of sys/sdt.h (.note.stapsdt), which tells where
 * the arguments are, and a note of our own (.note.dwell) with one letter per argument: i signed, u unsigned,
 * p pointer, f float. The first format could mark floats too, but bpftrace and gdb refuse a whole
 * probe that does; to them a float is an unsigned integer with its bits.
 *
 * Arguments are constants or in registers, never in memory: a tool can always read them, also in a
 * stripped program and when a page is not there. So pass what is at hand; `p->field` is a load, as it is in
 * the call of a function. What pointers point to has been written when the probe is reached, as before the
 * call of a function.
 *
 * The semaphore of a probe (unsigned short PROVIDER_NAME_semaphore in .probes) exists only where
 * DWELL_PROBE_ENABLED is used for it.
 */
#ifndef DWELL_SDT_H
#define DWELL_SDT_H

#pragma GCC system_header /* Statement expressions and the like are no concern of the including file. */

#if defined __x86_64__ && defined __LP64__ && defined __ELF__ && (defined __GNUC__ || defined __clang__)

/* #provider and #name, not their expansions: they must be stringized here and nowhere deeper. */
#define DWELL_PROBE(provider, name, ...)                                                              \
    do {                                                                                              \
        DWELL_SDT_CHOOSE(0, ##__VA_ARGS__, DWELL_SDT_12, DWELL_SDT_11, DWELL_SDT_10, DWELL_SDT_9,     \
                         DWELL_SDT_8, DWELL_SDT_7, DWELL_SDT_6, DWELL_SDT_5, DWELL_SDT_4,             \
                         DWELL_SDT_3, DWELL_SDT_2, DWELL_SDT_1, DWELL_SDT_0, 0)                       \
        (#provider, #name, ##__VA_ARGS__)                                                             \
    } while (0)

#define DWELL_PROBE_ENABLED(provider, name)                                                           \
    __extension__({                                                                                   \
        unsigned int dwell_sdt_watchers;                                                              \
        DWELL_SDT_ASM(DWELL_SDT_SEMAPHORE(#provider "_" #name "_semaphore")                           \
                      "movzwl " #provider "_" #name "_semaphore(%%rip), %0"                           \
                      : "=r"(dwell_sdt_watchers));                                                    \
        __builtin_expect(dwell_sdt_watchers != 0, 0) != 0;                                            \
    })

/* `inline`: to the inliner it is one instruction, however many lines it has. */
#if defined __clang__ || __GNUC__ >= 9
#define DWELL_SDT_ASM(...) __asm__ __inline__ __volatile__(__VA_ARGS__)
#else
#define DWELL_SDT_ASM(...) __asm__ __volatile__(__VA_ARGS__)
#endif

/* ---- One argument ---- */

#ifdef __cplusplus
namespace dwell_sdt {
template <class T> T plain(T); /* Declared only: the type of a value, arrays and bit-fields included. */
const void *plain(decltype(nullptr));
template <class T, bool is_enumeration> struct integer { typedef T type; };
template <class T> struct integer<T, true> { typedef __underlying_type(T) type; };
template <class T, bool is_integer> struct is_signed { enum { value = 0 }; };
template <class T> struct is_signed<T, true> {
    typedef typename integer<T, __is_enum(T)>::type type;
    enum { value = type(-1) < type(1) };
};
} /* namespace dwell_sdt */
#define DWELL_SDT_TYPE(x) decltype(dwell_sdt::plain(x))
#define DWELL_SDT_CLASS(v) __builtin_classify_type(decltype(v)())
#define DWELL_SDT_SIGNED(v) (dwell_sdt::is_signed<decltype(v), DWELL_SDT_IS_INTEGER(v)>::value)
#define DWELL_SDT_ASSERT static_assert
#else
/* After a comma an array is a pointer, and a bit-field has a type. */
#define DWELL_SDT_TYPE(x) __typeof__(((void)0, (x)))
#define DWELL_SDT_CLASS(v) __builtin_classify_type(v)
#define DWELL_SDT_INTEGER(v) __typeof__(__builtin_choose_expr(DWELL_SDT_IS_INTEGER(v), v, 0u))
#define DWELL_SDT_SIGNED(v) ((DWELL_SDT_INTEGER(v))-1 < (DWELL_SDT_INTEGER(v))1)
#define DWELL_SDT_ASSERT __extension__ _Static_assert
#endif

/* 1 to 4: integers, characters, enumerations and booleans. */
#define DWELL_SDT_IS_INTEGER(v) (DWELL_SDT_CLASS(v) >= 1 && DWELL_SDT_CLASS(v) <= 4)
#define DWELL_SDT_IS_POINTER(v) (DWELL_SDT_CLASS(v) == 5)
#define DWELL_SDT_IS_FLOAT(v) (DWELL_SDT_CLASS(v) == 8)
#define DWELL_SDT_LETTER(v)                                                                           \
    (DWELL_SDT_IS_FLOAT(v) ? 'f' : DWELL_SDT_IS_POINTER(v) ? 'p' : DWELL_SDT_SIGNED(v) ? 'i' : 'u')

/* Evaluates the k-th argument. */
#define DWELL_SDT_LET(k, x)                                                                           \
    DWELL_SDT_TYPE(x) dwell_sdt_##k = (x);                                                            \
    DWELL_SDT_ASSERT(sizeof(dwell_sdt_##k) <= 8                                                       \
                         && (DWELL_SDT_IS_INTEGER(dwell_sdt_##k) || DWELL_SDT_IS_POINTER(dwell_sdt_##k) \
                             || DWELL_SDT_IS_FLOAT(dwell_sdt_##k)),                                   \
                     "a probe's arguments are integers, pointers, float or double");
/* Has the compiler write what the argument points to, and not a byte of it later. */
#define DWELL_SDT_SETTLE(k)                                                                           \
    if (DWELL_SDT_IS_POINTER(dwell_sdt_##k))                                                          \
        __asm__ __volatile__("" : : "r"(dwell_sdt_##k) : "memory");
/* Size in bytes, sign and letter in one operand, since there may be only 30. */
#define DWELL_SDT_OPERAND(k)                                                                          \
    [type##k] "n"(sizeof(dwell_sdt_##k) | (DWELL_SDT_SIGNED(dwell_sdt_##k) ? 16 : 0)                  \
                  | DWELL_SDT_LETTER(dwell_sdt_##k) << 8),                                            \
        [value##k] "nr"(dwell_sdt_##k)
/* `-4@%eax`: minus when signed, the size, the place. */
#define DWELL_SDT_PLACE(k)                                                                            \
    ".if %c[type" #k "] & 16\n.ascii \"-\"\n.endif\n"                                                 \
    ".byte '0' + (%c[type" #k "] & 15)\n"                                                             \
    ".ascii \"@%q[value" #k "]\"\n"
#define DWELL_SDT_KIND(k) ".byte %c[type" #k "] >> 8\n"
#define DWELL_SDT_SPACE ".ascii \" \"\n"

/* ---- The site and its notes ---- */

#define DWELL_SDT_SITE(provider, name, places, kinds)                                                 \
    "990: nop\n"                                                                                      \
    ".byte 0x66, 0x0f, 0x1f, 0x40, 0x00\n"                                                            \
    ".weak " provider "_" name "_semaphore\n"                                                         \
    ".hidden " provider "_" name "_semaphore\n"                                                       \
    DWELL_SDT_NOTE(".note.stapsdt", "stapsdt", "3",                                                   \
                   ".8byte " provider "_" name "_semaphore\n"                                         \
                   ".asciz \"" provider "\"\n"                                                        \
                   ".asciz \"" name "\"\n" places ".byte 0\n")                                        \
    DWELL_SDT_NOTE(".note.dwell", "dwell", "1", kinds ".byte 0\n")                                    \
    DWELL_SDT_BASE
/* "?": in the section group of the code around it, so that the linker drops both or none. */
#define DWELL_SDT_NOTE(section, owner, type, rest)                                                    \
    ".pushsection " section ",\"?\",\"note\"\n"                                                       \
    ".balign 4\n"                                                                                     \
    ".4byte 992f-991f, 994f-993f, " type "\n"                                                         \
    "991: .asciz \"" owner "\"\n"                                                                     \
    "992: .balign 4\n"                                                                                \
    "993: .8byte 990b\n"                                                                              \
    ".8byte _.stapsdt.base\n" rest                                                                    \
    "994: .balign 4\n"                                                                                \
    ".popsection\n"
/* Where this section was when the notes were written tells how far prelinking has moved the file. */
#define DWELL_SDT_BASE                                                                                \
    ".ifndef _.stapsdt.base\n"                                                                        \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                           \
    ".weak _.stapsdt.base\n"                                                                          \
    ".hidden _.stapsdt.base\n"                                                                        \
    "_.stapsdt.base: .space 1\n"                                                                      \
    ".size _.stapsdt.base, 1\n"                                                                       \
    ".popsection\n"                                                                                   \
    ".endif\n"
/* One per program or library, whoever asks for it first. */
#define DWELL_SDT_SEMAPHORE(symbol)                                                                   \
    ".ifndef " symbol "\n"                                                                            \
    ".pushsection .probes,\"awG\",\"progbits\"," symbol ",comdat\n"                                   \
    ".balign 2\n"                                                                                     \
    ".weak " symbol "\n"                                                                              \
    ".hidden " symbol "\n"                                                                            \
    ".type " symbol ", %%object\n"                                                                    \
    ".size " symbol ", 2\n"                                                                           \
    symbol ": .space 2\n"                                                                             \
    ".popsection\n"                                                                                   \
    ".endif\n"

/* ---- By number of arguments ---- */

#define DWELL_SDT_CHOOSE(none, a, b, c, d, e, f, g, h, i, j, k, l, chosen, ...) chosen
#define DWELL_SDT_EMIT(p, n, lets, settles, places, kinds, ...)                                       \
    lets settles DWELL_SDT_ASM(DWELL_SDT_SITE(p, n, places, kinds) : : __VA_ARGS__);                  \
    settles

#define DWELL_SDT_0(p, n) DWELL_SDT_ASM(DWELL_SDT_SITE(p, n, "", "") : :);
#define DWELL_SDT_1(p, n, a)                                                                          \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_1(a), DWELL_SDT_SETTLES_1,                                    \
                   DWELL_SDT_PLACES_1, DWELL_SDT_KINDS_1, DWELL_SDT_OPERANDS_1)
#define DWELL_SDT_2(p, n, a, b)                                                                       \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_2(a, b), DWELL_SDT_SETTLES_2,                                 \
                   DWELL_SDT_PLACES_2, DWELL_SDT_KINDS_2, DWELL_SDT_OPERANDS_2)
#define DWELL_SDT_3(p, n, a, b, c)                                                                    \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_3(a, b, c), DWELL_SDT_SETTLES_3,                              \
                   DWELL_SDT_PLACES_3, DWELL_SDT_KINDS_3, DWELL_SDT_OPERANDS_3)
#define DWELL_SDT_4(p, n, a, b, c, d)                                                                 \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_4(a, b, c, d), DWELL_SDT_SETTLES_4,                           \
                   DWELL_SDT_PLACES_4, DWELL_SDT_KINDS_4, DWELL_SDT_OPERANDS_4)
#define DWELL_SDT_5(p, n, a, b, c, d, e)                                                              \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_5(a, b, c, d, e), DWELL_SDT_SETTLES_5,                        \
                   DWELL_SDT_PLACES_5, DWELL_SDT_KINDS_5, DWELL_SDT_OPERANDS_5)
#define DWELL_SDT_6(p, n, a, b, c, d, e, f)                                                           \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_6(a, b, c, d, e, f), DWELL_SDT_SETTLES_6,                     \
                   DWELL_SDT_PLACES_6, DWELL_SDT_KINDS_6, DWELL_SDT_OPERANDS_6)
#define DWELL_SDT_7(p, n, a, b, c, d, e, f, g)                                                        \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_7(a, b, c, d, e, f, g), DWELL_SDT_SETTLES_7,                  \
                   DWELL_SDT_PLACES_7, DWELL_SDT_KINDS_7, DWELL_SDT_OPERANDS_7)
#define DWELL_SDT_8(p, n, a, b, c, d, e, f, g, h)                                                     \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_8(a, b, c, d, e, f, g, h), DWELL_SDT_SETTLES_8,               \
                   DWELL_SDT_PLACES_8, DWELL_SDT_KINDS_8, DWELL_SDT_OPERANDS_8)
#define DWELL_SDT_9(p, n, a, b, c, d, e, f, g, h, i)                                                  \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_9(a, b, c, d, e, f, g, h, i), DWELL_SDT_SETTLES_9,            \
                   DWELL_SDT_PLACES_9, DWELL_SDT_KINDS_9, DWELL_SDT_OPERANDS_9)
#define DWELL_SDT_10(p, n, a, b, c, d, e, f, g, h, i, j)                                              \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_10(a, b, c, d, e, f, g, h, i, j), DWELL_SDT_SETTLES_10,       \
                   DWELL_SDT_PLACES_10, DWELL_SDT_KINDS_10, DWELL_SDT_OPERANDS_10)
#define DWELL_SDT_11(p, n, a, b, c, d, e, f, g, h, i, j, k)                                           \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_11(a, b, c, d, e, f, g, h, i, j, k), DWELL_SDT_SETTLES_11,    \
                   DWELL_SDT_PLACES_11, DWELL_SDT_KINDS_11, DWELL_SDT_OPERANDS_11)
#define DWELL_SDT_12(p, n, a, b, c, d, e, f, g, h, i, j, k, l)                                        \
    DWELL_SDT_EMIT(p, n, DWELL_SDT_LETS_12(a, b, c, d, e, f, g, h, i, j, k, l), DWELL_SDT_SETTLES_12, \
                   DWELL_SDT_PLACES_12, DWELL_SDT_KINDS_12, DWELL_SDT_OPERANDS_12)

#define DWELL_SDT_LETS_1(a) DWELL_SDT_LET(1, a)
#define DWELL_SDT_LETS_2(a, b) DWELL_SDT_LETS_1(a) DWELL_SDT_LET(2, b)
#define DWELL_SDT_LETS_3(a, b, c) DWELL_SDT_LETS_2(a, b) DWELL_SDT_LET(3, c)
#define DWELL_SDT_LETS_4(a, b, c, d) DWELL_SDT_LETS_3(a, b, c) DWELL_SDT_LET(4, d)
#define DWELL_SDT_LETS_5(a, b, c, d, e) DWELL_SDT_LETS_4(a, b, c, d) DWELL_SDT_LET(5, e)
#define DWELL_SDT_LETS_6(a, b, c, d, e, f) DWELL_SDT_LETS_5(a, b, c, d, e) DWELL_SDT_LET(6, f)
#define DWELL_SDT_LETS_7(a, b, c, d, e, f, g) DWELL_SDT_LETS_6(a, b, c, d, e, f) DWELL_SDT_LET(7, g)
#define DWELL_SDT_LETS_8(a, b, c, d, e, f, g, h)                                                      \
    DWELL_SDT_LETS_7(a, b, c, d, e, f, g) DWELL_SDT_LET(8, h)
#define DWELL_SDT_LETS_9(a, b, c, d, e, f, g, h, i)                                                   \
    DWELL_SDT_LETS_8(a, b, c, d, e, f, g, h) DWELL_SDT_LET(9, i)
#define DWELL_SDT_LETS_10(a, b, c, d, e, f, g, h, i, j)                                               \
    DWELL_SDT_LETS_9(a, b, c, d, e, f, g, h, i) DWELL_SDT_LET(10, j)
#define DWELL_SDT_LETS_11(a, b, c, d, e, f, g, h, i, j, k)                                            \
    DWELL_SDT_LETS_10(a, b, c, d, e, f, g, h, i, j) DWELL_SDT_LET(11, k)
#define DWELL_SDT_LETS_12(a, b, c, d, e, f, g, h, i, j, k, l)                                         \
    DWELL_SDT_LETS_11(a, b, c, d, e, f, g, h, i, j, k) DWELL_SDT_LET(12, l)
#define DWELL_SDT_SETTLES_1 DWELL_SDT_SETTLE(1)
#define DWELL_SDT_SETTLES_2 DWELL_SDT_SETTLES_1 DWELL_SDT_SETTLE(2)
#define DWELL_SDT_SETTLES_3 DWELL_SDT_SETTLES_2 DWELL_SDT_SETTLE(3)
#define DWELL_SDT_SETTLES_4 DWELL_SDT_SETTLES_3 DWELL_SDT_SETTLE(4)
#define DWELL_SDT_SETTLES_5 DWELL_SDT_SETTLES_4 DWELL_SDT_SETTLE(5)
#define DWELL_SDT_SETTLES_6 DWELL_SDT_SETTLES_5 DWELL_SDT_SETTLE(6)
#define DWELL_SDT_SETTLES_7 DWELL_SDT_SETTLES_6 DWELL_SDT_SETTLE(7)
#define DWELL_SDT_SETTLES_8 DWELL_SDT_SETTLES_7 DWELL_SDT_SETTLE(8)
#define DWELL_SDT_SETTLES_9 DWELL_SDT_SETTLES_8 DWELL_SDT_SETTLE(9)
#define DWELL_SDT_SETTLES_10 DWELL_SDT_SETTLES_9 DWELL_SDT_SETTLE(10)
#define DWELL_SDT_SETTLES_11 DWELL_SDT_SETTLES_10 DWELL_SDT_SETTLE(11)
#define DWELL_SDT_SETTLES_12 DWELL_SDT_SETTLES_11 DWELL_SDT_SETTLE(12)
#define DWELL_SDT_PLACES_1 DWELL_SDT_PLACE(1)
#define DWELL_SDT_PLACES_2 DWELL_SDT_PLACES_1 DWELL_SDT_SPACE DWELL_SDT_PLACE(2)
#define DWELL_SDT_PLACES_3 DWELL_SDT_PLACES_2 DWELL_SDT_SPACE DWELL_SDT_PLACE(3)
#define DWELL_SDT_PLACES_4 DWELL_SDT_PLACES_3 DWELL_SDT_SPACE DWELL_SDT_PLACE(4)
#define DWELL_SDT_PLACES_5 DWELL_SDT_PLACES_4 DWELL_SDT_SPACE DWELL_SDT_PLACE(5)
#define DWELL_SDT_PLACES_6 DWELL_SDT_PLACES_5 DWELL_SDT_SPACE DWELL_SDT_PLACE(6)
#define DWELL_SDT_PLACES_7 DWELL_SDT_PLACES_6 DWELL_SDT_SPACE DWELL_SDT_PLACE(7)
#define DWELL_SDT_PLACES_8 DWELL_SDT_PLACES_7 DWELL_SDT_SPACE DWELL_SDT_PLACE(8)
#define DWELL_SDT_PLACES_9 DWELL_SDT_PLACES_8 DWELL_SDT_SPACE DWELL_SDT_PLACE(9)
#define DWELL_SDT_PLACES_10 DWELL_SDT_PLACES_9 DWELL_SDT_SPACE DWELL_SDT_PLACE(10)
#define DWELL_SDT_PLACES_11 DWELL_SDT_PLACES_10 DWELL_SDT_SPACE DWELL_SDT_PLACE(11)
#define DWELL_SDT_PLACES_12 DWELL_SDT_PLACES_11 DWELL_SDT_SPACE DWELL_SDT_PLACE(12)
#define DWELL_SDT_KINDS_1 DWELL_SDT_KIND(1)
#define DWELL_SDT_KINDS_2 DWELL_SDT_KINDS_1 DWELL_SDT_KIND(2)
#define DWELL_SDT_KINDS_3 DWELL_SDT_KINDS_2 DWELL_SDT_KIND(3)
#define DWELL_SDT_KINDS_4 DWELL_SDT_KINDS_3 DWELL_SDT_KIND(4)
#define DWELL_SDT_KINDS_5 DWELL_SDT_KINDS_4 DWELL_SDT_KIND(5)
#define DWELL_SDT_KINDS_6 DWELL_SDT_KINDS_5 DWELL_SDT_KIND(6)
#define DWELL_SDT_KINDS_7 DWELL_SDT_KINDS_6 DWELL_SDT_KIND(7)
#define DWELL_SDT_KINDS_8 DWELL_SDT_KINDS_7 DWELL_SDT_KIND(8)
#define DWELL_SDT_KINDS_9 DWELL_SDT_KINDS_8 DWELL_SDT_KIND(9)
#define DWELL_SDT_KINDS_10 DWELL_SDT_KINDS_9 DWELL_SDT_KIND(10)
#define DWELL_SDT_KINDS_11 DWELL_SDT_KINDS_10 DWELL_SDT_KIND(11)
#define DWELL_SDT_KINDS_12 DWELL_SDT_KINDS_11 DWELL_SDT_KIND(12)
#define DWELL_SDT_OPERANDS_1 DWELL_SDT_OPERAND(1)
#define DWELL_SDT_OPERANDS_2 DWELL_SDT_OPERANDS_1, DWELL_SDT_OPERAND(2)
#define DWELL_SDT_OPERANDS_3 DWELL_SDT_OPERANDS_2, DWELL_SDT_OPERAND(3)
#define DWELL_SDT_OPERANDS_4 DWELL_SDT_OPERANDS_3, DWELL_SDT_OPERAND(4)
#define DWELL_SDT_OPERANDS_5 DWELL_SDT_OPERANDS_4, DWELL_SDT_OPERAND(5)
#define DWELL_SDT_OPERANDS_6 DWELL_SDT_OPERANDS_5, DWELL_SDT_OPERAND(6)
#define DWELL_SDT_OPERANDS_7 DWELL_SDT_OPERANDS_6, DWELL_SDT_OPERAND(7)
#define DWELL_SDT_OPERANDS_8 DWELL_SDT_OPERANDS_7, DWELL_SDT_OPERAND(8)
#define DWELL_SDT_OPERANDS_9 DWELL_SDT_OPERANDS_8, DWELL_SDT_OPERAND(9)
#define DWELL_SDT_OPERANDS_10 DWELL_SDT_OPERANDS_9, DWELL_SDT_OPERAND(10)
#define DWELL_SDT_OPERANDS_11 DWELL_SDT_OPERANDS_10, DWELL_SDT_OPERAND(11)
#define DWELL_SDT_OPERANDS_12 DWELL_SDT_OPERANDS_11, DWELL_SDT_OPERAND(12)

#else /* another processor, object format or compiler */

#define DWELL_PROBE(provider, name, ...) \
    do {                                 \
    } while (0)
#define DWELL_PROBE_ENABLED(provider, name) 0

#endif
#endif /* DWELL_SDT_H */
