/* Probes with arguments of every shape, in C and in C++. Before each probe a line says what its arguments
 * are: the probe's name, then each value in hexadecimal, sign-extended where its type is signed.
 * With -DSYSTEMTAP the probes are those of sys/sdt.h, else those of dwell/sdt.h. */
#ifdef SYSTEMTAP
#define SDT_USE_VARIADIC
#ifdef VECTORS
#define STAP_SDT_ARG_CONSTRAINT norx
#endif
#include <sys/sdt.h>
#define PROBE(...) STAP_PROBEV(shapes, __VA_ARGS__)
#define PROBE_WITHOUT_ARGUMENTS(name) STAP_PROBE(shapes, name)
#else
#include <dwell/sdt.h>
#define PROBE(name, ...) DWELL_PROBE(shapes, name, __VA_ARGS__)
#define PROBE_WITHOUT_ARGUMENTS(name) DWELL_PROBE(shapes, name)
#endif
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))
#ifdef __clang__
#undef NOINLINE
#define NOINLINE __attribute__((noinline))
#endif

/* Says the truth about the next probe. */
static NOINLINE void say(const char *name, int count, ...)
{
    va_list values;
    va_start(values, count);
    printf("%s", name);
    for (int i = 0; i < count; i++)
        printf(" %lx", va_arg(values, unsigned long));
    printf("\n");
    va_end(values);
}
#define V(x) ((unsigned long)(x))

static unsigned long bits_of_double(double d)
{
    unsigned long bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static unsigned long bits_of_float(float f)
{
    unsigned int bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

enum colour { RED, GREEN = 7 };
enum sign { MINUS = -3, PLUS = 3 };
struct record {
    signed char tiny;
    unsigned short small;
    int medium;
    long large;
};

static int counter = 41;
static long table[8] = {1, -2, 3, -4, 5, -6, 7, -8};
static struct record fixed = {-1, 65000, -70000, -5000000000};
static __thread int own = 17;

static NOINLINE void none(void)
{
    say("none", 0);
    PROBE_WITHOUT_ARGUMENTS(none);
}

static NOINLINE void integers(signed char c, unsigned char uc, short s, unsigned short us, int i,
                              unsigned u, long l, unsigned long ul)
{
    say("integers", 8, V(c), V(uc), V(s), V(us), V(i), V(u), V(l), V(ul));
    PROBE(integers, c, uc, s, us, i, u, l, ul);
}

static NOINLINE void six(long a, long b, long c, long d, long e, long f)
{
    say("six", 6, V(a), V(b), V(c), V(d), V(e), V(f));
    PROBE(six, a, b, c, d, e, f);
}

static NOINLINE void constants(void)
{
    say("constants", 6, V(5), V(-5), V(200), V(1L << 40), V('a'), V(-1L));
    PROBE(constants, 5, -5, (unsigned char)200, 1L << 40, (char)'a', -1L);
}

static NOINLINE void twelve(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l)
{
    say("twelve", 12, V(a), V(b), V(c), V(d), V(e), V(f), V(g), V(h), V(i), V(j), V(k), V(l));
    PROBE(twelve, a, b, c, d, e, f, g, h, i, j, k, l);
}

static NOINLINE void memory(const struct record *r, const long *longs, const int *ints,
                            const unsigned char *bytes, long at)
{
    say("memory", 7, V(r->tiny), V(r->small), V(r->medium), V(r->large), V(longs[at]), V(ints[at + 1]),
        V(bytes[at]));
    PROBE(memory, r->tiny, r->small, r->medium, r->large, longs[at], ints[at + 1], bytes[at]);
}

static NOINLINE void statics(long at)
{
    counter++;
    say("statics", 4, V(counter), V(fixed.large), V(table[3]), V(table[at]));
    PROBE(statics, counter, fixed.large, table[3], table[at]);
}

static NOINLINE void thread_local_variable(void)
{
    own++;
    say("thread_local_variable", 2, V(own), V(3));
    PROBE(thread_local_variable, own, 3);
}

static NOINLINE void floats(double d, float f, int i)
{
    say("floats", 4, bits_of_double(d), bits_of_float(f), V(i), bits_of_double(2.5));
    PROBE(floats, d, f, i, 2.5);
}

static NOINLINE void pointers(const char *text, const void *any, int (*function)(const char *))
{
    char local[16];
    local[0] = text[0];
    local[1] = 0;
    say("pointers", 4, V(text), V(any), V(function), V(local));
    PROBE(pointers, text, any, function, &local[0]);
}

static NOINLINE void enumerations(enum colour colour, enum sign sign, int yes)
{
    say("enumerations", 3, V(colour), V(sign), V(yes != 0));
#ifdef __cplusplus
    PROBE(enumerations, (unsigned)colour, (int)sign, yes != 0);
#else
    PROBE(enumerations, colour, sign, (_Bool)(yes != 0));
#endif
}

/* The same probe many times, in code the compiler unrolls. */
static NOINLINE void loop(int from)
{
    for (int i = 0; i < 4; i++) {
        say("loop", 2, V(i), V(from + i));
        PROBE(loop, i, from + i);
    }
}

/* The compiler may keep these below the stack pointer, in the red zone. */
static NOINLINE long leaf(long a, long b)
{
    volatile long kept = a * b;
    PROBE(leaf, kept, a + b);
    return kept;
}

#ifndef SYSTEMTAP
struct packed {
    unsigned three : 3;
    signed twelve : 12;
    unsigned long forty : 40;
    unsigned one : 1;
};

static NOINLINE void bit_fields(const struct packed *p)
{
    say("bit_fields", 4, V(p->three), V(p->twelve), V(p->forty), V(p->one));
    PROBE(bit_fields, p->three, p->twelve, p->forty, p->one);
}

/* An array that only the probe looks at must have been written when it is reached. */
static NOINLINE void settled(char first)
{
    char word[8];
    word[0] = first;
    word[1] = 'k';
    word[2] = 0;
    PROBE(settled, (const void *)word);
}

/* Macros named like the probe, an argument evaluated once. */
#define shapes nothing
#define macro_name nothing
static NOINLINE void names(int i)
{
    say("macro_" "name", 1, V(i));
    DWELL_PROBE(shapes, macro_name, i++);
    say("double__underscore", 1, V(i));
    PROBE(double__underscore, i);
}
#endif

#ifdef __cplusplus
enum class scoped : short { LOW = -2, HIGH = 2 };

template <class T> NOINLINE void templated(T value, unsigned long truth)
{
    say("templated", 1, truth);
    PROBE(templated, value);
}

static void in_cplusplus()
{
    templated((signed char)-4, V(-4L));
    templated((unsigned short)40000, 40000);
    templated(true, 1);
    templated("text", V("text"));
    templated(-9L, V(-9L));
#ifndef SYSTEMTAP
    templated(scoped::LOW, V(-2L));
    templated(nullptr, 0);
    templated(GREEN, 7);
    templated(MINUS, V(-3L));
#endif
}
#endif

int main(void)
{
    static const int ints[] = {9, -8, 7, -6};
    static const unsigned char bytes[] = {1, 2, 250, 4};
    static const struct record r = {-7, 60000, -100000, 1L << 50};
    volatile int k = 0;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    none();
    integers(-100 + k, 200 + k, -30000 + k, 60000 + k, -2000000000 + k, 4000000000u + k, -(1L << 60) + k,
             (~0UL << 60) + k);
    six(k, k - 1, k + 2, k - 3, k + 4, (1L << 33) + k);
    constants();
    twelve(k, k - 1, k - 2, k - 3, k - 4, k - 5, k + 6, k + 7, k + 8, k + 9, k + 10, k + 11);
    memory(&r, table, ints, bytes, k + 2);
    statics(k + 5);
    thread_local_variable();
    floats(k + 0.5, k - 0.25f, k + 3);
    pointers("words", &counter, puts);
    enumerations(k ? RED : GREEN, k ? PLUS : MINUS, k + 2);
    loop(k + 100);
    say("leaf", 2, V((k + 6) * 7L), V(k + 13));
    leaf(k + 6, k + 7);
#ifndef SYSTEMTAP
    static const struct packed packed = {5, -1000, 1UL << 39, 1};
    bit_fields(&packed);
    settled('o' + k);
    names(k + 1);
#endif
#ifdef __cplusplus
    in_cplusplus();
#endif
    return 0;
}
