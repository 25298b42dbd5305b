/* How long a function takes, in ns, by who calls it.
 *
 *     dwell trace -s func-latency.d -p PID FUNCTION
 *     dwell trace -s func-latency.d -c COMMAND FUNCTION
 */
#pragma D option quiet

pid$target::$1:entry
{
	self->began = timestamp;
	self->from = ucaller;
}

pid$target::$1:return
/self->began/
{
	@[usym(self->from)] = quantize(timestamp - self->began);
	self->began = 0;
}
