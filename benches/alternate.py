#!/usr/bin/env python3
"""What dwell's eBPF programs cost a program, alternated within one run of it.

A recorder runs all the time, and its programs are attached and detached in random order, so that neither the load's start nor a
drift of the machine makes a difference: smaller effects can be seen than by starting a load anew for each comparison. What
the recorder itself does is in the turns with its programs, since without them nothing comes to it. In other turns two programs
that do nothing are attached where those of every recording are (a switch, a waking): what the kernel takes to call them.

Needs root, gdb (which has the recorder close its links, so that they can be made and taken away here), and what the load needs:
PostgreSQL with pgbench, or redis with redis-tools, or the test programs (make programs).

    benches/alternate.py pgbench|pgbench-as-installed|redis|wakeup|switch|switch-others|iolock [--dwell FILE] [--seconds 500] [--turn SECONDS]

Prints each figure's mean in the three kinds of turns, and its ratio to that without programs, with its 95 % bootstrap interval.
"""

import argparse
import ctypes
import glob
import json
import os
import pathlib
import random
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from loads import Postgres, Redis

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBC = ctypes.CDLL(None, use_errno=True)
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
BPF_PROG_LOAD, BPF_PROG_GET_FD_BY_ID, BPF_RAW_TRACEPOINT_OPEN, BPF_LINK_CREATE = 5, 13, 17, 28
BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_TRACE_RAW_TP = 17, 23
RETURN_0 = struct.pack("<BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)  # r0 = 0; exit
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
SETTLE_S = 0.03  # after a change, before a turn is counted
WARM_S = 3
TURNS = ("without programs", "with empty ones", "with dwell's")


def bpf(command, layout, *words):
    """A bpf(2) that makes a descriptor."""
    attributes = ctypes.create_string_buffer(struct.pack(f"<{layout}", *words), 128)
    made = LIBC.syscall(SYS_BPF, command, attributes, 128)
    if made < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"bpf: {os.strerror(error)}")
    return made


class Empty:
    """A program that does nothing, attached at the two tracepoints that every recording needs."""

    def __init__(self):
        code, licence = ctypes.create_string_buffer(RETURN_0), ctypes.create_string_buffer(b"GPL")
        words = BPF_PROG_TYPE_RAW_TRACEPOINT, len(RETURN_0) // 8, ctypes.addressof(code), ctypes.addressof(licence)
        self.program = bpf(BPF_PROG_LOAD, "IIQQ", *words)

    def attach(self):
        """Descriptors of its links."""
        names = [ctypes.create_string_buffer(name) for name in (b"sched_switch", b"sched_waking")]
        return [bpf(BPF_RAW_TRACEPOINT_OPEN, "QI", ctypes.addressof(name), self.program) for name in names]


class Recorder:
    """A recorder whose programs are attached from here."""

    def __init__(self, dwell, pid, folder):
        command = [dwell, "record", "-q", "-o", os.path.join(folder, "recording.dwell"), "-p", str(pid)]
        self.process = subprocess.Popen(command, **QUIET)
        self.programs = []

    def take_over(self):
        """Its programs, once it records."""
        time.sleep(2)
        links = self.links()
        self.programs = [bpf(BPF_PROG_GET_FD_BY_ID, "I", program) for program in links.values()]
        closes = [word for link in links for word in ("-ex", f"call (int)close({link})")]
        subprocess.run(["gdb", "-p", str(self.process.pid), "-batch", *closes], **QUIET)
        if not links or self.links():
            sys.exit("The recorder's programs could not be taken over.")

    def links(self):
        """Of its tracepoints: descriptor and program."""
        links = {}
        for file in glob.glob(f"/proc/{self.process.pid}/fdinfo/*"):
            try:
                text = pathlib.Path(file).read_text()
            except OSError:
                continue
            if re.search(r"^link_type:\s*(raw_tracepoint|tracing)", text, re.MULTILINE):
                links[int(os.path.basename(file))] = int(re.search(r"prog_id:\s*(\d+)", text)[1])
        return links

    def attach(self):
        """Descriptors of the links of its programs."""
        return [bpf(BPF_LINK_CREATE, "IIII", program, 0, BPF_TRACE_RAW_TP, 0) for program in self.programs]

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


class TestProgram:
    """A test program that prints its figures as a line of JSON: a process of its own for each turn."""

    turn_s = 0.4

    def __init__(self, command, members, recorded=True):
        programs = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "programs"
        self.command = [existing(programs / command[0]), *command[1:]]
        self.figures = members
        self.shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.other = None if recorded else subprocess.Popen(["sleep", "infinity"])
        self.pid = (self.other or self.shell).pid

    def window(self, seconds, *arguments):
        words = " ".join(f"'{word}'" for word in (*self.command, seconds, *arguments))
        self.shell.stdin.write(words + "\n")
        self.shell.stdin.flush()
        told = json.loads(self.shell.stdout.readline())
        return [told[member] for member in self.figures]

    def end(self):
        self.shell.stdin.close()
        self.shell.wait()
        if self.other:
            self.other.kill()
            self.other.wait()


class Iolock(TestProgram):
    """Four threads that hand over by pipe and by mutex, with so much work between that they switch 65 000 times a second."""

    def __init__(self):
        super().__init__(["iolock"], ["switches_per_s", "round_trips_per_cpu_s"])
        few, many = 1000, 10000
        of_few, of_many = (1e9 / super(Iolock, self).window(0.5, steps)[0] for steps in (few, many))
        of_step = (of_many - of_few) / (many - few)
        self.steps = max(0, int(few + (1e9 / 65000 - of_few) / of_step))

    def window(self, seconds):
        return super().window(seconds, self.steps)


LOADS = {
    "pgbench": lambda: Postgres(None),
    "pgbench-as-installed": lambda: Postgres(None, as_installed=True),
    "redis": lambda: Redis(None),
    "wakeup": lambda: TestProgram(["pingpong", "latency"], ["p50_ns", "p99_ns"]),
    "switch": lambda: TestProgram(["pingpong", "switch"], ["cpu_ns_per_switch"]),
    "switch-others": lambda: TestProgram(["pingpong", "switch"], ["cpu_ns_per_switch"], recorded=False),
    "iolock": Iolock,
}


def existing(file):
    if not file.exists():
        raise FileNotFoundError(f"{file} is missing: make build")
    return file


def interval(pairs, of):
    """95 %, by drawing pairs anew."""
    drawn = sorted(of(random.choices(pairs, k=len(pairs))) for _ in range(2000))
    return drawn[50], drawn[-51]


def ratio_of_means(pairs):
    return sum(on for on, _ in pairs) / sum(off for _, off in pairs)


def median_of_ratios(pairs):
    return statistics.median(on / off for on, off in pairs if off)


def print_ratios(pairs):
    for title, of in (("ratio of means", ratio_of_means), ("median of ratios", median_of_ratios)):
        low, high = interval(pairs, of)
        print(f"  {title} {of(pairs):.4f} [{low:.4f}, {high:.4f}]", end="")


def alternate(load, recorder, seconds, turn_s):
    """Turns of three kinds, as TURNS: lists, in which what lies beside each other was beside each other."""
    kinds = [list, Empty().attach, recorder.attach]
    turns = [], [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for kind in random.sample(range(len(kinds)), len(kinds)):
            links = kinds[kind]()
            time.sleep(SETTLE_S)
            turns[kind].append(load.window(turn_s))
            for link in links:
                os.close(link)
    return turns


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--dwell", type=pathlib.Path, default=ROOT / "target/release/dwell")
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--turn", type=float, help="seconds; 0.1 for servers, 0.4 for programs that are started anew")
    options = parser.parse_args()
    existing(options.dwell)
    load = LOADS[options.load]()
    try:
        with tempfile.TemporaryDirectory() as folder:
            recorder = Recorder(options.dwell, load.pid, folder)
            try:
                recorder.take_over()
                time.sleep(WARM_S)
                turns = alternate(load, recorder, options.seconds, options.turn or load.turn_s)
            finally:
                recorder.end()
    finally:
        load.end()
    for name, *kinds in zip(load.figures, *(zip(*windows) for windows in turns)):
        print(f"{name}, {len(kinds[0])} turns of each kind")
        for kind, values in zip(TURNS, kinds):
            print(f"  {kind:<16} {statistics.mean(values):12.1f}", end="")
            if values is not kinds[0]:
                print_ratios(list(zip(values, kinds[0])))
            print()


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("It needs root: eBPF programs are attached.")
    main()
