/* plt_calls.h - the 256 functions `plt` calls through its procedure linkage table: plt_call_0x00 ... */
#define PLT_ROW(DO, h) DO(h##0) DO(h##1) DO(h##2) DO(h##3) DO(h##4) DO(h##5) DO(h##6) DO(h##7) \
	DO(h##8) DO(h##9) DO(h##a) DO(h##b) DO(h##c) DO(h##d) DO(h##e) DO(h##f)
#define PLT_CALLS(DO) PLT_ROW(DO, 0) PLT_ROW(DO, 1) PLT_ROW(DO, 2) PLT_ROW(DO, 3) PLT_ROW(DO, 4) \
	PLT_ROW(DO, 5) PLT_ROW(DO, 6) PLT_ROW(DO, 7) PLT_ROW(DO, 8) PLT_ROW(DO, 9) PLT_ROW(DO, a) \
	PLT_ROW(DO, b) PLT_ROW(DO, c) PLT_ROW(DO, d) PLT_ROW(DO, e) PLT_ROW(DO, f)
