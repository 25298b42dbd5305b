/* How long threads wait for locks and conditions, in ns, by the word they wait on.
 *
 *     dwell trace -s futex-waits.d -p PID
 */
#pragma D option quiet

/* FUTEX_WAIT, FUTEX_WAIT_BITSET, without their flags. */
syscall::futex:entry
/pid == $target && ((arg1 & 0x7f) == 0 || (arg1 & 0x7f) == 9)/
{
	self->word = arg0;
	self->began = timestamp;
}

syscall::futex:return
/self->began/
{
	@waits[self->word] = count();
	@ns[self->word] = sum(timestamp - self->began);
	self->began = 0;
}

END
{
	printf("%-18s %14s %8s\n", "WORD", "NS", "WAITS");
	printa("0x%-16x %@14d %@8d\n", @ns, @waits);
}
