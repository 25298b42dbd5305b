/* Who sends signals to whom.
 *
 *     dwell trace -s who-signals.d
 */
#pragma D option quiet

BEGIN
{
	printf("%-16s %8s %8s %6s\n", "SENDER", "PID", "TO", "SIGNAL");
}

syscall::kill:entry
/arg1 != 0/
{
	printf("%-16s %8d %8d %6d\n", execname, pid, (int)arg0, (int)arg1);
}

syscall::tgkill:entry
/arg2 != 0/
{
	printf("%-16s %8d %8d %6d\n", execname, pid, (int)arg1, (int)arg2);
}
