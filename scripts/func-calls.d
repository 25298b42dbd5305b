/* Which functions of a module are called, and how often.
 *
 *     dwell trace -s func-calls.d -p PID MODULE
 *     dwell trace -s func-calls.d -c COMMAND a.out
 */
#pragma D option quiet

pid$target:$1::entry
{
	@[probefunc] = count();
}

END
{
	printa("%-48s %@12d\n", @);
}
