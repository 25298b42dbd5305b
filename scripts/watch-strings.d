/* Which strings a function is called with, as its first argument, cut to a length.
 *
 *     dwell trace -s watch-strings.d -p PID FUNCTION LENGTH
 */
#pragma D option quiet

pid$target::$1:entry
{
	@[substr(copyinstr(arg0), 0, $2)] = count();
}

ERROR
{
	@failures["could not be read"] = count();
}
