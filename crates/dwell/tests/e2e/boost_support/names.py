# Run by gdb on a program that stands at its end: what does it name?
#
# The variable ADDRESSES is a file of lines "path of the mapped file, address from its first byte", NAMES one of names.
# Prints "at LINE DISTANCE NAME" for each address that has a name, and "is NAME ADDRESS" for each name that has an address.
import os
import gdb


def starts():
    """Where each mapped file begins."""
    found = {}
    with open(f"/proc/{gdb.selected_inferior().pid}/maps") as maps:
        for line in maps:
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[5].startswith("/"):
                begin = int(fields[0].split("-")[0], 16) - int(fields[2], 16)
                found.setdefault(os.path.realpath(fields[5].strip()), begin)
    return found


start = starts()
for number, line in enumerate(open(os.environ["ADDRESSES"])):
    path, address = line.split("\t")
    said = gdb.execute(f"info symbol {start[os.path.realpath(path)] + int(address):#x}", to_string=True).strip()
    if not said.startswith("No symbol"):
        name, _, distance = said.split(" in section")[0].partition(" + ")
        print("at", number, distance or 0, name)
for name in open(os.environ["NAMES"]).read().split("\n"):
    try:
        print("is", name, int(gdb.parse_and_eval(f"(unsigned long)&'{name}'")))
    except gdb.error:
        pass
