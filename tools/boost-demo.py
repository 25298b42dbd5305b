#!/usr/bin/env python3
"""The machine's own shell and tools, boosted by the daemon, measured, broken on purpose, and taken back.

    tools/boost-demo.py [--dwell D] [--level 3] [--shell bash] [--rounds 7] [--seconds 4] [--unixbench DIR]

Writes a configuration for each program, starts `dwell boost daemon`, runs UnixBench's kind of shell script with the
shell alone boosted and with all of them boosted, in turns with the stock ones (medians of the ratios of neighbours),
breaks the boosted wc, and takes everything back. With --unixbench (its folder, with src/ and pgms/) its own looper,
multi.sh and tst.sh run, by the shell that is measured. Needs root; changes programs of this machine while it runs, and
leaves none changed. Ends with 1 when something was not as it must be.
"""
import argparse
import hashlib
import json
import os
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOOLS = ["sort", "od", "grep", "tee", "wc", "rm"]
# sysBoost's figures, bash alone, with a patched kernel: one script at a time, eight at a time.
PUBLISHED = {1: 1.062, 8: 1.051}
GOAL_ALL = 1.25
TEST = """sort "$1" > sorted.$$
od sorted.$$ | sort -n -k 1 > dump.$$
grep the sorted.$$ | tee found.$$ | wc > count.$$
rm sorted.$$ dump.$$ found.$$ count.$$
"""
MULTI = """i=1
while [ $i -le $1 ]; do
    SHELL_PATH FOLDER/tst.sh FOLDER/text &
    i=$(($i + 1))
done
wait
"""
TEXT = "".join(f"{w} the {n} time of a wait\n" for n in range(60) for w in ["lock", "which", "program", "then", "other"])


def scripts(folder, shell, unixbench):
    """What one measurement runs, by that shell; gives a function: number at a time, seconds -> runs per minute."""
    (folder / "text").write_text(TEXT)
    if not unixbench:
        (folder / "tst.sh").write_text(TEST)
        (folder / "multi.sh").write_text(MULTI.replace("SHELL_PATH", shell).replace("FOLDER", str(folder)))

        def own(at_a_time, seconds):
            start, runs = time.monotonic(), 0
            while time.monotonic() - start < seconds:
                subprocess.run([shell, folder / "multi.sh", str(at_a_time)], check=True, cwd=folder)
                runs += 1
            return runs * 60 / (time.monotonic() - start)
        return own
    for name in ["tst.sh", "multi.sh"]:
        text = (unixbench / "pgms" / name).read_text()
        (folder / name).write_text(text.replace("/bin/sh", shell).replace("$UB_BINDIR", str(folder)))
    shutil.copy(unixbench / "testdir" / "sort.src", folder)
    subprocess.run(["cc", "-O2", "-w", "-o", folder / "looper", unixbench / "src" / "looper.c"], check=True)

    def looper(at_a_time, seconds):
        command = [folder / "looper", str(seconds), shell, folder / "multi.sh", str(at_a_time)]
        done = subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True)
        line = next(l for l in (done.stderr + done.stdout).splitlines() if l.startswith("COUNT|"))
        return int(line.split("|")[1]) * 60 / seconds
    return looper


class Machine:
    def __init__(self, dwell, config, programs, level):
        self.dwell = dwell
        self.config = config
        self.programs = programs
        self.level = level
        self.daemon = None

    def boost(self, *args, check=True):
        done = subprocess.run([self.dwell, "boost", *args], capture_output=True, text=True)
        if check and done.returncode:
            raise RuntimeError(f"dwell boost {' '.join(args)}: {done.stderr or done.stdout}")
        return done

    def status(self):
        programs = json.loads(self.boost("status", "--json").stdout)["programs"]
        return {p["name"]: p for p in programs}

    def start(self):
        self.config.mkdir(parents=True, exist_ok=True)
        for program in self.programs:
            self.file(program).write_text(
                f'# by boost-demo\nelf_path = "{program}"\nmode = "static"\nlevel = {self.level}\n')
        self.daemon = subprocess.Popen([self.dwell, "boost", "daemon"], stdout=subprocess.DEVNULL)

    def file(self, program):
        return self.config / f"{program.name}.toml"

    def on(self, programs):
        for program in programs:
            self.boost("activate", program.name)

    def off(self):
        self.boost("rollback", "--all")

    def end(self):
        try:
            self.boost("rollback", "--all", check=False)
        finally:
            if self.daemon:
                self.daemon.terminate()
                self.daemon.wait()
            self.boost("restore", check=False)
            for program in self.programs:
                for file in self.config.glob(f"{program.name}.toml*"):
                    if "# by boost-demo" in file.read_text():
                        file.unlink()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rates(run, at_a_time, seconds):
    """Runs per minute of time, and per minute of processor time: the host of a virtual machine disturbs that less."""
    def used():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime
    run(at_a_time, 1)
    before = used()
    per_minute = run(at_a_time, seconds)
    return per_minute, per_minute * seconds / (used() - before)


def compare(machine, programs, run, at_a_time, rounds, seconds):
    """Boosted over stock: the ratios of both rates to the mean of their neighbours."""
    machine.off()
    before = rates(run, at_a_time, seconds)
    ratios = []
    for _ in range(rounds):
        machine.on(programs)
        now = rates(run, at_a_time, seconds)
        machine.off()
        after = rates(run, at_a_time, seconds)
        ratios.append([2 * n / (b + a) for b, n, a in zip(before, now, after)])
        before = after
    return [sorted(kind) for kind in zip(*ratios)]


def break_it(machine, program):
    """Overwrites the entry of the boosted file; gives the seconds until the program works again."""
    machine.on([program])
    state = program.stat()
    with open(program, "r+b") as file:
        head = file.read(64)
        entry, table = struct.unpack_from("<QQ", head, 24)
        size, number = struct.unpack_from("<HH", head, 54)
        for k in range(number):
            file.seek(table + k * size)
            kind, _, offset, address, _, length = struct.unpack("<IIQQQQ", file.read(40))
            if kind == 1 and address <= entry < address + length:
                file.seek(offset + entry - address)
                file.write(b"\x0f\x0b")
                break
    os.utime(program, ns=(state.st_atime_ns, state.st_mtime_ns))
    start = time.monotonic()
    first = subprocess.run([program, "--version"], capture_output=True)
    while subprocess.run([program, "--version"], capture_output=True).returncode:
        if time.monotonic() - start > 30:
            return None
        time.sleep(0.01)
    return first.returncode, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dwell", type=Path, default=Path("target/release/dwell"))
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--shell", default="bash")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--unixbench", type=Path)
    args = parser.parse_args()
    programs = [Path(shutil.which(name)).resolve() for name in [args.shell, *TOOLS]]
    before = {p: digest(p) for p in programs}
    machine = Machine(args.dwell.resolve(), Path("/etc/dwell/boost.d"), programs, args.level)
    taken = [machine.file(p) for p in programs if machine.file(p).exists()]
    if taken:
        sys.exit(f"there is a configuration already: {taken[0]}; this would replace it")
    well = True
    with tempfile.TemporaryDirectory() as folder:
        run = scripts(Path(folder), str(programs[0]), args.unixbench)
        try:
            machine.start()
            while len(machine.status()) < len(programs) or any(
                    p["state"] not in ("boosted", "rolled-back") for p in machine.status().values()):
                time.sleep(0.2)
            for name, program in machine.status().items():
                print(f"{name:6} {program['state']}")
            for what, which in [(f"{args.shell} alone", programs[:1]), ("all programs", programs)]:
                for at_a_time, published in PUBLISHED.items():
                    got = compare(machine, which, run, at_a_time, args.rounds, args.seconds)
                    beside = f"published {published}" if len(which) == 1 else f"goal {GOAL_ALL}"
                    time_, processor = (f"x{statistics.median(r):.3f} ({r[0]:.3f} to {r[-1]:.3f})" for r in got)
                    print(f"shell{at_a_time}, {what}: {time_} of stock by time, {processor} by processor time; {beside}",
                          flush=True)
            wc = next(p for p in programs if p.name == "wc")
            broken = break_it(machine, wc)
            if broken is None or broken[0] >= 0 or broken[1] > 1:
                well = False
            print(f"wc broken on purpose: ended with {broken and broken[0]}, stock again after "
                  f"{broken and round(broken[1], 3)} s")
            while "SIG" not in " ".join(machine.status()["wc"]["why"]):
                time.sleep(0.05)
            print(machine.boost("status").stdout)
        finally:
            machine.end()
    changed = [str(p) for p in programs if digest(p) != before[p] or list(p.parent.glob(f".{p.name}.dwell*"))]
    print("every program is as it was" if not changed else f"CHANGED: {', '.join(changed)}")
    sys.exit(0 if well and not changed else 1)


if __name__ == "__main__":
    main()
