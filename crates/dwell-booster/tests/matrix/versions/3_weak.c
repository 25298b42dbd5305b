//# gcc -O2 -fPIC -shared -o libweak.so 3_weak.c
__attribute__((weak)) int choice(void) { return 1; }
__attribute__((weak)) int nobody(void);
__attribute__((visibility("protected"))) int guarded(void) { return 5; }
int data = 3;
int chosen(void) { return choice() * 100 + (nobody ? 50 : 0) + guarded(); }
