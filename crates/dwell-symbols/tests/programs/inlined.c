// Functions inlined into each other, folded into a loop, cut in a hot and a cold part.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int innermost(int x) { return x * x + 1; }
static inline int middle(int x) { return innermost(x) + innermost(x + 1); }

__attribute__((noinline)) int outer(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += middle(i);
        if (__builtin_expect(sum < 0, 0)) {
            fprintf(stderr, "overflow at %d\n", i);
            abort();
        }
    }
    return sum;
}

__attribute__((noinline)) static char *copy_twice(const char *text) {
    size_t length = strlen(text);
    char *twice = malloc(2 * length + 1);
    memcpy(twice, text, length);
    memcpy(twice + length, text, length + 1);
    return twice;
}

int main(int argc, char **argv) {
    char *text = copy_twice(argv[0]);
    printf("%d %s\n", outer(argc * 100), text);
    free(text);
    return 0;
}
