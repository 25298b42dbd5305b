//# gcc -O2 -fPIC -shared -o libdata.so 1_data.c
int numbers[100] = {1, 2, 3};
static int hidden = 77;
struct { int *into; const char *text; int (*call)(void); int *self; } table;
static int answer(void) { return 42; }
__attribute__((constructor)) static void fill(void) { numbers[50] = 50; }
int *pointers[3] = {&numbers[1], &hidden, numbers};
const char *const names[] = {"one", "two"};
int *address(void) { return numbers; }
int (*functions[])(void) = {answer};
int zero[64];
int *zero_address(void) { zero[3] = 9; return zero; }
int compare(int (*f)(void)) { extern int shared(void); return f == shared; }
int shared(void) { return 4; }
