/* Which files are opened, how often, and by which folder.
 *
 *     dwell trace -s opens.d -c COMMAND
 */
#pragma D option quiet

syscall::openat:entry
/pid == $target/
{
	@files[copyinstr(arg1)] = count();
	@folders[dirname(copyinstr(arg1))] = count();
}

END
{
	printf("FILES\n");
	printa("%@8d %s\n", @files);
	printf("FOLDERS\n");
	printa("%@8d %s\n", @folders);
}
