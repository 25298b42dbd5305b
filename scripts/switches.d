/* Which programs leave the processor, each second, the most frequent last.
 *
 *     dwell trace -s switches.d
 */
#pragma D option quiet

sdt:sched::sched_switch
{
	@[execname] = count();
}

tick-1s,
END
{
	trunc(@, 25);
	printa("%-20s %@8d\n", @);
	clear(@);
}
