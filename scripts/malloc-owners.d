/* Who allocated what is still there: bytes and blocks by the code that called malloc, the largest last.
 *
 *     dwell trace -s malloc-owners.d -p PID
 *     dwell trace -x dynvarsize=64m -s malloc-owners.d -c COMMAND
 */
#pragma D option quiet
#pragma D option dynvarsize=16m

pid$target:libc:malloc:entry
{
	self->size = arg0;
	self->from = ucaller;
}

pid$target:libc:malloc:return
/self->from && arg1/
{
	size[arg1] = self->size;
	owner[arg1] = self->from;
	@bytes[uaddr(self->from)] = sum(self->size);
	@blocks[uaddr(self->from)] = sum(1);
	self->from = 0;
}

pid$target:libc:free:entry
/owner[arg0]/
{
	@bytes[uaddr(owner[arg0])] = sum(-size[arg0]);
	@blocks[uaddr(owner[arg0])] = sum(-1);
	size[arg0] = 0;
	owner[arg0] = 0;
}

END
{
	printf("%-50s %12s %10s\n", "OWNER", "BYTES", "BLOCKS");
	printa("%-50A %@12d %@10d\n", @bytes, @blocks);
}
