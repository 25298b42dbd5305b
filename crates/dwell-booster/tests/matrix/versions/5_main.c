//# gcc -O2 -o prog 5_main.c -L. -lv -luser -lweak -lstrong -lsymbolic -Wl,-rpath,$ORIGIN
//# gcc -O2 -o reversed 5_main.c -L. -Wl,--no-as-needed -lsymbolic -lstrong -lweak -luser -lv -Wl,-rpath,$ORIGIN
//# run reversed
#include <stdio.h>
int pick(void), old(void), old_pick(void), chosen(void), choice(void), choice_user(void), symbolic_user(void);
int guarded(void);
__attribute__((weak)) int absent(int);
int main(void) {
    printf("%d %d %d\n", pick(), old(), old_pick());
    printf("%d %d %d %d %d\n", chosen(), choice(), choice_user(), symbolic_user(), guarded());
    printf("%d\n", absent ? absent(1) : -1);
}
