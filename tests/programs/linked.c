/*
 * linked: ends at once, but names thousands of functions of a library, which the dynamic linker has to find before.
 * linked-static is the same in one file.
 */
#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define HUNDRED(X, n) TEN(X, n##0) TEN(X, n##1) TEN(X, n##2) TEN(X, n##3) TEN(X, n##4) \
	TEN(X, n##5) TEN(X, n##6) TEN(X, n##7) TEN(X, n##8) TEN(X, n##9)
#define THOUSAND(X, n) HUNDRED(X, n##0) HUNDRED(X, n##1) HUNDRED(X, n##2) HUNDRED(X, n##3) HUNDRED(X, n##4) \
	HUNDRED(X, n##5) HUNDRED(X, n##6) HUNDRED(X, n##7) HUNDRED(X, n##8) HUNDRED(X, n##9)
#define ALL(X) THOUSAND(X, 1) THOUSAND(X, 2) THOUSAND(X, 3) THOUSAND(X, 4) \
	THOUSAND(X, 5) THOUSAND(X, 6) THOUSAND(X, 7) THOUSAND(X, 8)

#ifdef LIBRARY
#define DEFINE(n) int linked_function_##n(void) { return n; }
ALL(DEFINE)
#endif

#ifdef PROGRAM
#define DECLARE(n) int linked_function_##n(void);
#define NAME(n) linked_function_##n,
ALL(DECLARE)
int (*const functions[])(void) = { ALL(NAME) };

int main(void) { return functions[0]() == 0; }
#endif
