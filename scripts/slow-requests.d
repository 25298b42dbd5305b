/* What a function did only when it took long: the calls of each invocation are kept aside, and printed if it took
 * more than so many microseconds.
 *
 *     dwell trace -s slow-requests.d -p PID FUNCTION MICROSECONDS
 */
#pragma D option quiet
#pragma D option nspec=64

pid$target::$1:entry
{
	self->spec = speculation();
	self->began = timestamp;
}

pid$target::$1:entry
/self->spec/
{
	speculate(self->spec);
	printf("%s(%d) by thread %d\n", probefunc, arg0, tid);
}

syscall:::entry
/self->spec/
{
	speculate(self->spec);
	printf("  after %d us: %s\n", (timestamp - self->began) / 1000, probefunc);
}

pid$target::$1:return
/self->spec && timestamp - self->began >= $2 * 1000/
{
	@["committed"] = count();
}

pid$target::$1:return
/self->spec && timestamp - self->began >= $2 * 1000/
{
	commit(self->spec);
	self->spec = 0;
}

pid$target::$1:return
/self->spec/
{
	@["discarded"] = count();
}

pid$target::$1:return
/self->spec/
{
	discard(self->spec);
	self->spec = 0;
}
