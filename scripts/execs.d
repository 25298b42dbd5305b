/* Programs that are started anywhere on the machine.
 *
 *     dwell trace -s execs.d
 */
#pragma D option quiet

syscall::execve:entry
{
	printf("%Y %8d %-16s %s\n", walltimestamp, pid, execname, copyinstr(arg0));
}
