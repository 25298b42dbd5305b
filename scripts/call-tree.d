/* Entries and returns of a program's functions, drawn as a tree.
 *
 *     dwell trace -F -s call-tree.d -p PID
 */
pid$target:a.out::entry
{
	trace(arg0);
}

pid$target:a.out::return
{
	trace(arg1);
}
