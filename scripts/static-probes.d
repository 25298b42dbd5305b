/* Which static probes of a program fire, and what their first argument is.
 *
 *     dwell trace -s static-probes.d -p PID PROVIDER
 */
#pragma D option quiet

$1$target:::
{
	@times[probename] = count();
	@first[probename] = quantize(arg0);
}

END
{
	printa("%-30s %@8d\n", @times);
	printa("%s, first argument%@d\n", @first);
}
