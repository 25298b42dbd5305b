/* Files that take long to open: more than so many microseconds.
 *
 *     dwell trace -s slow-opens.d MICROSECONDS
 *     dwell trace -s slow-opens.d -c COMMAND 0
 */
#pragma D option quiet

syscall::openat:entry
{
	self->path = arg1;
	self->began = timestamp;
}

syscall::openat:return
/self->began && timestamp - self->began >= $1 * 1000/
{
	printf("%8d us %-16s %s%s\n", (timestamp - self->began) / 1000, execname,
	    copyinstr(self->path), arg0 < 0 ? " (failed)" : "");
}

syscall::openat:return
{
	self->began = 0;
	self->path = 0;
}
