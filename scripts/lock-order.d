/* In which order mutexes are taken: each line is a lock that was taken while another was held. Two lines that are each
 * other's reverse can be a deadlock.
 *
 *     dwell trace -s lock-order.d -p PID
 */
#pragma D option quiet

self uint64_t held;
self uint64_t outer;

pid$target:libc:pthread_mutex_lock:entry
/self->held && self->held != arg0/
{
	@[self->held, arg0] = count();
}

pid$target:libc:pthread_mutex_lock:entry
{
	self->outer = self->held;
	self->held = arg0;
}

pid$target:libc:pthread_mutex_unlock:entry
/self->held == arg0/
{
	self->held = self->outer;
	self->outer = 0;
}

END
{
	printf("%-18s %-18s %8s\n", "HELD", "TAKEN", "TIMES");
	printa("0x%-16x 0x%-16x %@8d\n", @);
}
