/* Which system calls a process makes, how often, and how long they take together, the longest last.
 *
 *     dwell trace -s syscalls.d -p PID
 */
#pragma D option quiet

syscall:::entry
/pid == $target/
{
	self->began = timestamp;
}

syscall:::return
/self->began/
{
	@calls[probefunc] = count();
	@ns[probefunc] = sum(timestamp - self->began);
	self->began = 0;
}

END
{
	printf("%-20s %14s %10s\n", "CALL", "NS", "CALLS");
	printa("%-20s %@14d %@10d\n", @ns, @calls);
}
