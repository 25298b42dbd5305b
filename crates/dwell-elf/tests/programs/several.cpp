// A program of two files and a library that all have the same probes. -DPART=1 and 2: the files, 3: the
// library. Each says whether somebody watches.
#include <dwell/sdt.h>
#include <cstdio>

#ifdef __clang__
#define WHOLE __attribute__((noinline))
#else
#define WHOLE __attribute__((noipa)) // no clones of it either
#endif

struct Request {
    int number;
};

// In every file that includes it; the linker keeps one.
inline WHOLE void in_a_header(const Request &request)
{
    DWELL_PROBE(several, in_a_header, request.number);
}

template <class T> WHOLE bool generic(T value)
{
    DWELL_PROBE(several, generic, value);
    return DWELL_PROBE_ENABLED(several, generic);
}

namespace {
struct Unnamed {
    WHOLE bool member(int value) const
    {
        auto lambda = [=] {
            DWELL_PROBE(several, member, value);
            return DWELL_PROBE_ENABLED(several, member);
        };
        return lambda();
    }
};
} // namespace

static void part(const char *name, int number)
{
    in_a_header(Request{number});
    DWELL_PROBE(several, never_asked, number);
    if (generic(number) || generic(long(number)))
        std::printf("%s generic\n", name);
    if (Unnamed().member(number))
        std::printf("%s member\n", name);
}

#if PART == 3
__attribute__((visibility("default"))) void library()
{
    part("library", 3);
}
#elif PART == 2
void second()
{
    part("second", 2);
}
#else
void second();
void library();
int main()
{
    part("first", 1);
    second();
    library();
}
#endif
