/* How long a queue is each time something is put into it, from the functions that put and take.
 *
 *     dwell trace -s queue-length.d -p PID PUT TAKE
 */
#pragma D option quiet

long length;

pid$target::$1:entry
{
	length++;
	@["length"] = quantize(length);
	@longest = max(length);
}

pid$target::$2:entry
{
	length--;
}

END
{
	printa(@);
	printa("longest: %@d\n", @longest);
	printf("now: %d\n", length);
}
