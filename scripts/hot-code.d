/* Where a process runs: 997 times a second on each processor, by function, the hottest last.
 *
 *     dwell trace -s hot-code.d -p PID
 */
#pragma D option quiet

profile-997
/pid == $target && arg1/
{
	@[ufunc(arg1)] = count();
}

END
{
	trunc(@, 25);
	printa("%-60A %@8d\n", @);
}
