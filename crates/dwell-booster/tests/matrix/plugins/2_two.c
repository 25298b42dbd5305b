//# sh -c "printf 'TWO_1 { global: two; local: *; };' > map"
//# gcc -O2 -fPIC -shared -o libtwo.so 2_two.c -L. -lone -Wl,-rpath,$ORIGIN -Wl,--version-script=map
int one(void);
int two(void) { return one() * 2; }
