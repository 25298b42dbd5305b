/* The library that torture.cpp loads and unloads all the time. */
__attribute__((noinline)) long torture_loaded(long n)
{
	long sum = 0;
	for (long i = 1; i <= n; i++)
		sum += i ^ n;
	return sum;
}
