/* What a disabled probe costs: the same loop without a probe, with one of six arguments in registers, and
 * with the question whether it is enabled, each at many places in memory. Prints, for each loop and place,
 * nanoseconds per turn of the three: `loop place without with enabled`. `dwell bench --probes` compiles it,
 * runs it and works out the differences. */
#ifdef SYSTEMTAP
#include <sys/sdt.h>
#define PROBE(a, b, c, d, e, f) STAP_PROBE6(cost, six, a, b, c, d, e, f)
#else
#include <dwell/sdt.h>
#define PROBE(a, b, c, d, e, f) DWELL_PROBE(cost, six, a, b, c, d, e, f)
#endif
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

typedef unsigned long word;
typedef word loop(word turns);

/* What stands where the probe would be; PLAIN only keeps the loop a loop. */
#define PLAIN __asm__ __volatile__("")
#define WITH PROBE(a, b, c, d, e, f)
#ifdef SYSTEMTAP
#define ENABLED PLAIN
#else
#define ENABLED                          \
    if (DWELL_PROBE_ENABLED(cost, asked)) \
        DWELL_PROBE(cost, asked, a, b, c, d, e, f)
#endif

/* The loops: six local variables that change from turn to turn. `place` bytes of nops before the loop move it
 * through a cache line; they are executed once. */
#define FUNCTION(name, place, body, probe)                                                    \
    static ALONE word name(word turns)                                                        \
    {                                                                                         \
        word a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;                                        \
        __asm__ __volatile__(".p2align 6\n.fill " #place ", 1, 0x90" : "+r"(a), "+r"(b), "+r"(c), \
                             "+r"(d), "+r"(e), "+r"(f));                                      \
        for (word i = 0; i < turns; i++) {                                                    \
            body;                                                                             \
            probe;                                                                            \
        }                                                                                     \
        return a + b + c + d + e + f;                                                         \
    }

/* Six additions that do not wait for each other: the most that fits into a turn, so each instruction more
 * takes a place. */
#define DENSE a += i; b -= i; c ^= i; d += 7; e ^= 9; f -= 11
/* A chain in which each value waits for the one before: little else costs anything. */
#define CHAIN a = (a ^ f) * 0x9e3779b97f4a7c15; b += a; c ^= b; d += c; e ^= d; f += e
/* Calls a function, as the tutorial's loop does. */
static ALONE word work(word x)
{
    __asm__ __volatile__("" : "+r"(x));
    return x * 3 + 1;
}
#define CALL a = work(a); b += a; c ^= b; d += 7; e ^= 9; f -= i

#define THREE(kind, body, place)                     \
    FUNCTION(kind##_plain_##place, place, body, PLAIN) \
    FUNCTION(kind##_with_##place, place, body, WITH)   \
    FUNCTION(kind##_enabled_##place, place, body, ENABLED)
#define PLACES(each)                                                                            \
    each(0) each(4) each(8) each(12) each(16) each(20) each(24) each(28) each(32) each(36)      \
    each(40) each(44) each(48) each(52) each(56) each(60)
#define DEFINE(place)          \
    THREE(dense, DENSE, place) \
    THREE(chain, CHAIN, place) \
    THREE(call, CALL, place)
PLACES(DEFINE)

static const struct measured {
    const char *name;
    int place;
    loop *loops[3];
} all[] = {
#define ROW(kind, place) {#kind, place, {kind##_plain_##place, kind##_with_##place, kind##_enabled_##place}},
#define ROWS(place) ROW(dense, place) ROW(chain, place) ROW(call, place)
    PLACES(ROWS)};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static word sink;

static double once(loop *f, word turns)
{
    double start = now_ns();
    sink += f(turns);
    return (now_ns() - start) / turns;
}

/* The shortest of some runs: whatever else happens on the machine only adds. They take turns, so that a
 * processor that changes its speed does so for all. */
static void measure(const struct measured *m, word turns, int runs)
{
    double best[3] = {1e9, 1e9, 1e9};
    for (int run = 0; run < runs; run++)
        for (int k = 0; k < 3; k++) {
            double ns = once(m->loops[k], turns);
            if (ns < best[k])
                best[k] = ns;
        }
    printf("%s %d %.4f %.4f %.4f\n", m->name, m->place, best[0], best[1], best[2]);
}

int main(int argc, char **argv)
{
    word turns = argc > 1 ? strtoul(argv[1], NULL, 0) : 200000;
    int runs = argc > 2 ? atoi(argv[2]) : 15;
    for (unsigned k = 0; k < sizeof all / sizeof *all; k++)
        measure(&all[k], turns, runs);
    return 0;
}
