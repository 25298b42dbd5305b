/* System calls that fail: the call, the error's number, how often.
 *
 *     dwell trace -s syscall-errors.d
 *     dwell trace -s syscall-errors.d -c COMMAND
 */
#pragma D option quiet

syscall:::return
/errno != 0/
{
	@[execname, probefunc, errno] = count();
}

END
{
	printf("%-16s %-20s %6s %8s\n", "PROGRAM", "CALL", "ERROR", "TIMES");
	printa("%-16s %-20s %6d %@8d\n", @);
}
