/* How large the blocks are that a program allocates.
 *
 *     dwell trace -s malloc-sizes.d -p PID
 */
#pragma D option quiet

pid$target:libc:malloc:entry
{
	@["malloc, bytes"] = quantize(arg0);
}

pid$target:libc:calloc:entry
{
	@["calloc, bytes"] = quantize(arg0 * arg1);
}

pid$target:libc:realloc:entry
{
	@["realloc, bytes"] = quantize(arg1);
}
