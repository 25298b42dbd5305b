#!/usr/bin/env python3
"""What dwell's eBPF programs cost a program, alternated within one run of it.

A recorder runs all the time, and its programs are attached and detached in random order, so that neither the load's start nor a
drift of the machine makes a difference: smaller effects can be seen than by starting a load anew for each comparison. What
the recorder itself does is in the turns with its programs, since without them nothing comes to it.

Needs root, gdb (which has the recorder close its links, so that they can be made and taken away here), and what the load needs:
PostgreSQL with pgbench, or redis with redis-tools, or the test programs (make programs).

    benches/alternate.py pgbench|redis|wakeup|switch|switch-others|iolock [--dwell FILE] [--seconds 500] [--turn 0.4]

Prints each figure's mean with the programs and without, and their ratio with its 95 % bootstrap interval.
"""

import argparse
import bisect
import ctypes
import glob
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBC = ctypes.CDLL(None, use_errno=True)
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
BPF_PROG_GET_FD_BY_ID, BPF_LINK_CREATE = 13, 28
BPF_TRACE_RAW_TP = 23
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
SETTLE_S = 0.05  # after a change, before a turn is counted
WARM_S = 3


def bpf(command, *words):
    """A bpf(2) that makes a descriptor."""
    attributes = ctypes.create_string_buffer(struct.pack(f"<{len(words)}I", *words), 64)
    made = LIBC.syscall(SYS_BPF, command, attributes, 64)
    if made < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"bpf: {os.strerror(error)}")
    return made


class Recorder:
    """A recorder whose programs are attached from here."""

    def __init__(self, dwell, pid, folder):
        command = [dwell, "record", "-q", "-o", folder / "recording.dwell", "-p", str(pid)]
        self.process = subprocess.Popen(command, **QUIET)
        self.attached = []
        time.sleep(2)
        links = self.links()
        self.programs = [bpf(BPF_PROG_GET_FD_BY_ID, program) for program in links.values()]
        closes = [word for link in links for word in ("-ex", f"call (int)close({link})")]
        subprocess.run(["gdb", "-p", str(self.process.pid), "-batch", *closes], check=True, **QUIET)
        if not links or self.links():
            self.end()
            raise RuntimeError("the recorder's programs could not be taken over")

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

    def attach(self, wanted):
        if wanted and not self.attached:
            self.attached = [bpf(BPF_LINK_CREATE, program, 0, BPF_TRACE_RAW_TP, 0) for program in self.programs]
        elif not wanted:
            for link in self.attached:
                os.close(link)
            self.attached = []

    def end(self):
        self.attach(False)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


class Pgbench:
    """PostgreSQL under pgbench with 4 clients; its log tells when each transaction ended."""

    def __init__(self, folder):
        self.folder = folder
        tools = sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [os.path.dirname(shutil.which("postgres"))]
        self.tools = pathlib.Path(tools[-1])
        shutil.chown(folder, "postgres")
        as_owner = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        data = folder / "data"
        initdb = [self.tools / "initdb", "-U", "bench", "-A", "trust", "--no-sync", "-D", data]
        subprocess.run([*as_owner, *initdb], check=True, **QUIET)
        options = ["listen_addresses=", "fsync=off", "autovacuum=off", "checkpoint_timeout=1d"]
        settings = [word for option in options for word in ("-c", option)]
        server = [self.tools / "postgres", "-D", data, "-k", folder, *settings]
        self.server = subprocess.Popen([*as_owner, *server], **QUIET)
        wait_for(lambda: list(folder.glob(".s.PGSQL.*[0-9]")))
        self.pgbench("-i", "-q", "-s", "5").wait()
        self.pid = int((data / "postmaster.pid").read_text().split()[0])

    def pgbench(self, *options):
        command = [self.tools / "pgbench", "-h", self.folder, "-U", "bench", *options, "postgres"]
        return subprocess.Popen(command, **QUIET)

    def begin(self, seconds):
        log = ["-l", "--log-prefix", self.folder / "log"]
        self.load = self.pgbench("-n", "-c", "4", "-M", "prepared", "-T", str(int(seconds) + WARM_S + 2), *log)

    def turn(self, seconds):
        begun = time.time()
        time.sleep(seconds)
        return begun, time.time()

    def figures(self, turns):
        self.load.wait()
        ends = []
        for file in self.folder.glob("log*"):
            for line in file.read_text().splitlines():
                words = line.split()
                ends.append(int(words[4]) + int(words[5]) / 1e6)
        ends.sort()
        ended_by = lambda instant: bisect.bisect(ends, instant)
        return {"transactions per second": [(ended_by(to) - ended_by(begun)) / (to - begun) for begun, to in turns]}

    def end(self):
        self.server.send_signal(signal.SIGINT)
        self.server.wait(30)


class Redis:
    """redis-server under redis-benchmark's GET with 20 clients; it counts its commands."""

    def __init__(self, folder):
        self.path = str(folder / "socket")
        options = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", self.path]
        self.server = subprocess.Popen(["redis-server", *options], **QUIET)
        wait_for(lambda: os.path.exists(self.path))
        self.pid = self.server.pid

    def begin(self, seconds):
        options = ["-t", "get", "-c", "20", "-P", "1", "-q", "-l"]
        self.load = subprocess.Popen(["redis-benchmark", "-s", self.path, *options], **QUIET)

    def commands(self):
        """When, and how many so far."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.path)
            connection.sendall(b"INFO stats\r\nQUIT\r\n")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        return time.time(), int(re.search(rb"total_commands_processed:(\d+)", answer)[1])

    def turn(self, seconds):
        begun = self.commands()
        time.sleep(seconds)
        return begun, self.commands()

    def figures(self, turns):
        return {"requests per second": [(to[1] - begun[1]) / (to[0] - begun[0]) for begun, to in turns]}

    def end(self):
        self.load.kill()
        self.load.wait()
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(30)


class TestProgram:
    """A test program that prints its figures as a line of JSON: a process of its own for each turn."""

    def __init__(self, command, figures, recorded=True):
        programs = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "programs"
        self.command = [existing(programs / command[0]), *command[1:]]
        self.names = figures
        self.shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.other = None if recorded else subprocess.Popen(["sleep", "infinity"])
        self.pid = (self.other or self.shell).pid

    def begin(self, seconds):
        pass

    def run(self, *arguments):
        words = " ".join(f"'{word}'" for word in (*self.command, *arguments))
        self.shell.stdin.write(words + "\n")
        self.shell.stdin.flush()
        return json.loads(self.shell.stdout.readline())

    def turn(self, seconds):
        return self.run(seconds)

    def figures(self, turns):
        return {name: [turn[key] for turn in turns] for key, name in self.names.items()}

    def end(self):
        self.shell.stdin.close()
        self.shell.wait()
        if self.other:
            self.other.kill()
            self.other.wait()


def wakeup(folder):
    """A thread that is woken from another processor every 200 us."""
    figures = {"p50_ns": "wake-up latency, median, ns", "p99_ns": "wake-up latency, 99th percentile, ns"}
    return TestProgram(["pingpong", "latency"], figures)


def switch(folder, recorded=True):
    """Two threads that do nothing but hand over."""
    return TestProgram(["pingpong", "switch"], {"cpu_ns_per_switch": "CPU time per switch, ns"}, recorded)


def switch_others(folder):
    """The same, while another process is recorded."""
    return switch(folder, recorded=False)


class Iolock(TestProgram):
    """Four threads that hand over by pipe and by mutex, with so much work between that they switch 65 000 times a second."""

    def __init__(self, folder):
        figures = {"round_trips_per_cpu_s": "round trips per CPU-second", "switches_per_s": "switches per second"}
        super().__init__(["iolock"], figures)
        few, many = 1000, 10000
        of_few, of_many = (1e9 / self.run(0.5, steps)["switches_per_s"] for steps in (few, many))
        of_step = (of_many - of_few) / (many - few)
        self.steps = max(0, int(few + (1e9 / 65000 - of_few) / of_step))

    def turn(self, seconds):
        return self.run(seconds, self.steps)


def wait_for(condition):
    """Until it holds."""
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it has not come up in 30 s")
        time.sleep(0.05)


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
    return statistics.median(on / off for on, off in pairs)


def alternate(load, recorder, seconds, turn_s):
    """Turns without the programs and with them: two lists, in which what lies beside each other was beside each other."""
    turns = [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for attached in random.sample([False, True], 2):
            recorder.attach(attached)
            time.sleep(SETTLE_S)
            turns[attached].append(load.turn(turn_s))
    return turns


def main():
    parser = argparse.ArgumentParser(description="What dwell's eBPF programs cost, alternated within one run.")
    loads = {
        "pgbench": Pgbench,
        "redis": Redis,
        "wakeup": wakeup,
        "switch": switch,
        "switch-others": switch_others,
        "iolock": Iolock,
    }
    parser.add_argument("load", choices=loads)
    parser.add_argument("--dwell", type=pathlib.Path, default=ROOT / "target/release/dwell")
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--turn", type=float, default=0.4, help="seconds")
    options = parser.parse_args()
    existing(options.dwell)
    with tempfile.TemporaryDirectory() as folder:
        load = loads[options.load](pathlib.Path(folder))
        recorder = None
        try:
            recorder = Recorder(options.dwell, load.pid, pathlib.Path(folder))
            load.begin(options.seconds)
            time.sleep(WARM_S)
            without, attached = alternate(load, recorder, options.seconds, options.turn)
            recorder.attach(False)
            figures = zip(load.figures(without).items(), load.figures(attached).values())
        finally:
            if recorder:
                recorder.end()
            load.end()
    for (name, off), on in figures:
        pairs = list(zip(on, off))
        print(f"{name}: {statistics.mean(off):.1f} without, {statistics.mean(on):.1f} with the programs; {len(pairs)} pairs")
        for text, of in (("ratio of means", ratio_of_means), ("median of ratios", median_of_ratios)):
            low, high = interval(pairs, of)
            print(f"  {text} {of(pairs):.4f} [{low:.4f}, {high:.4f}]")


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("It needs root: eBPF programs are attached.")
    main()
