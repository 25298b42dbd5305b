//# gcc -O2 -fPIC -shared -o libstrong.so 4_strong.c
//# gcc -O2 -fPIC -shared -Wl,-Bsymbolic -o libsymbolic.so 4_strong.c -Dchoice_user=symbolic_user
int choice(void) { return 2; }
int guarded(void) { return 6; }
int choice_user(void) { return choice(); }
