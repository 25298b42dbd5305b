/* How long mutexes are held, in ns, by the code that takes them.
 *
 *     dwell trace -s lock-hold.d -p PID
 */
#pragma D option quiet

pid$target:libc:pthread_mutex_lock:entry
{
	self->from[arg0] = ucaller;
	self->lock = arg0;
}

pid$target:libc:pthread_mutex_lock:return
/self->lock/
{
	self->taken[self->lock] = timestamp;
	self->lock = 0;
}

pid$target:libc:pthread_mutex_unlock:entry
/self->taken[arg0]/
{
	@[uaddr(self->from[arg0])] = quantize(timestamp - self->taken[arg0]);
	self->taken[arg0] = 0;
	self->from[arg0] = 0;
}
