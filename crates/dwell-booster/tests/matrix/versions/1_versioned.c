//# sh -c "printf 'V1 { global: pick; old; local: *; }; V2 { global: pick; } V1;' > map"
//# gcc -O2 -fPIC -shared -o libv.so 1_versioned.c -Wl,--version-script=map
//# sh -c "printf 'V1 { global: pick; };' > oldmap && echo 'int pick(void) { return 0; } int old(void) { return 0; }' > old.c"
//# gcc -fPIC -shared -o libold.so -Wl,-soname,libv.so -Wl,--version-script=oldmap old.c
__asm__(".symver pick_1, pick@V1");
__asm__(".symver pick_2, pick@@V2");
int pick_1(void) { return 1; }
int pick_2(void) { return 2; }
int old(void) { return pick_1() * 10; }
