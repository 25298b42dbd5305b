/* How long a process asks to sleep, and from where.
 *
 *     dwell trace -s sleeps.d -p PID
 */
#pragma D option quiet

syscall::clock_nanosleep:entry
/pid == $target/
{
	this->wanted = (int64_t *)copyin(arg2, 16);
	@[uaddr(uregs[R_PC]), "ns"] = quantize(this->wanted[0] * 1000000000 + this->wanted[1]);
}
