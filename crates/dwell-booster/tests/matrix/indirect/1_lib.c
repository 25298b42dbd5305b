//# gcc -O2 -fPIC -shared -o libindirect.so 1_lib.c
static int fast(int x) { return x * 2; }
static int slow(int x) { return x + x + 1; }
static int (*resolve(void))(int) { __builtin_cpu_init(); return __builtin_cpu_supports("sse2") ? fast : slow; }
int twice(int x) __attribute__((ifunc("resolve")));
static int hidden(int x) __attribute__((ifunc("resolve")));
int (*table[])(int) = {twice, hidden};
int by_table(int x) { return table[0](x) + table[1](x) + hidden(x); }
int (*get(void))(int) { return twice; }
