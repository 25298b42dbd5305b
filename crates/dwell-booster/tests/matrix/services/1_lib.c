//# gcc -O1 -fPIC -shared -o libearly.so 1_lib.c
#define _GNU_SOURCE
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a constructor finds in place: arguments, environment, locale, thread-local errno. */
__attribute__((constructor)) static void early(int argc, char **argv, char **envp) {
    const char *locale = getenv("LC_ALL");
    errno = 7;
    printf("early: %d %d %d %s %s %d\n", argc, argv[argc] == 0, envp[0] != 0, locale ? locale : "none",
           setlocale(LC_ALL, ""), errno);
}

int early_answer(void) {
    return (int)strlen(program_invocation_short_name);
}
