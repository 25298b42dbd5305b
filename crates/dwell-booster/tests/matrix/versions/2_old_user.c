//# gcc -O2 -fPIC -shared -o libuser.so 2_old_user.c -L. -lold -Wl,-rpath,$ORIGIN
int pick(void);
int old_pick(void) { return pick(); }
