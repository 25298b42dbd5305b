/* How many bytes reads and writes move, by file descriptor.
 *
 *     dwell trace -s io-sizes.d -p PID
 */
#pragma D option quiet

syscall::read:entry,
syscall::write:entry
/pid == $target/
{
	self->fd = arg0;
	self->io = 1;
}

syscall::read:return,
syscall::write:return
/self->io && arg0 >= 0/
{
	@[probefunc, self->fd] = quantize(arg0);
}

syscall::read:return,
syscall::write:return
{
	self->io = 0;
}

END
{
	printa("%s, descriptor %d, bytes%@d\n", @);
}
