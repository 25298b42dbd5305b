/* Which code touches memory for the first time: page faults of a process, by the place that faulted.
 *
 *     dwell trace -s page-faults.d -p PID
 */
#pragma D option quiet

sdt:exceptions::page_fault_user
/pid == $target/
{
	@[uaddr(uregs[R_PC])] = count();
}

END
{
	trunc(@, 20);
	printa("%-60A %@8d\n", @);
}
