//# gcc -O2 -fPIC -shared -ftls-model=global-dynamic -o libgd.so 1_models.c -DNAME(x)=gd_##x
//# gcc -O2 -fPIC -shared -ftls-model=local-dynamic -o libld.so 1_models.c -DNAME(x)=ld_##x
//# gcc -O2 -fPIC -shared -ftls-model=initial-exec -o libie.so 1_models.c -DNAME(x)=ie_##x
//# gcc -O2 -fPIC -shared -mtls-dialect=gnu2 -o libdesc.so 1_models.c -DNAME(x)=desc_##x
#include <stdint.h>
_Thread_local int NAME(shared) = 42;
_Thread_local __attribute__((aligned(64))) char NAME(wide)[65] = "wide";
static _Thread_local long own[3] = {1, 2, 3};
static _Thread_local int zeroed[100];
static int anchor;
static _Thread_local int *pointer = &anchor;
long NAME(sum)(int add) {
    own[1] += add;
    zeroed[99] += add;
    NAME(shared) += add;
    return own[0] + own[1] + own[2] + zeroed[99] + NAME(wide)[0] + ((uintptr_t)NAME(wide) % 64) + (pointer == &anchor);
}
