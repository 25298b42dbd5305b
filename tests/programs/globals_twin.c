/* A unit of globals.c with variables that only it sees, of the same names as another's. */
static int twin = 22;
static long only_here = 222;

void twin_set(void)
{
	static short calls = 7;
	calls++;
	twin++;
	__asm__ volatile("" : : "r"(&twin), "r"(&only_here), "r"(&calls) : "memory");
}
