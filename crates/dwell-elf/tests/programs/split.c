/* Functions of which gcc puts what is seldom executed elsewhere: NAME.cold. Another one is only jumped to. */
#include <stdio.h>

__attribute__((cold, noinline)) static int complain(int how)
{
	return fprintf(stderr, "%d\n", how);
}

__attribute__((noinline)) static int other(int a, char **rest)
{
	if (a == 77)
		a += complain(9) * a;
	return a * 3 + (rest != NULL);
}

__attribute__((noinline)) int work(int a, char **rest)
{
	for (int i = 0; i < a; i++) {
		if (rest[i][0] == '0')
			a += complain(1) * i;
		if (rest[i][1] == '1')
			a -= complain(2);
		if (rest[i][2] == '2')
			a ^= complain(3) + a;
	}
	return other(a, rest);
}

int main(int argc, char **argv)
{
	return work(argc, argv) & 1;
}
