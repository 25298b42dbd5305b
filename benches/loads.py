"""Servers under a load that does not end, for measuring what dwell does to them while they run."""
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from multiprocessing import Process
from threading import Thread


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server under a load that does not end; `count` tells how much it has done."""

    figures = ("operations/s",)
    turn_s = 0.1
    load = None

    def window(self, seconds):
        begin, before = time.monotonic(), self.count()
        time.sleep(seconds)
        after = self.count()
        return [(after - before) / (time.monotonic() - begin)]

    def start(self, command, **options):
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)

    def connect(self):
        for _ in range(200):
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise SystemExit("the server does not answer")

    def end(self):
        for process in [*self.load, self.process]:
            process.terminate()
        for process in [*self.load, self.process]:
            process.join() if isinstance(process, Process) else process.wait()


class Memcached(Server):
    """Four threads, four clients, gets and sets in batches."""

    def __init__(self, _):
        self.port = free_port()
        self.process = self.start(["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(self.port), "-t", "4"])
        self.pid = self.process.pid
        self.talk = self.connect()
        self.load = [Process(target=self.ask, args=(n,), daemon=True) for n in range(4)]
        for client in self.load:
            client.start()
        time.sleep(0.5)

    def ask(self, number):
        talk = self.connect()
        batch = b"".join(b"set k%d 0 0 8\r\nabcdefgh\r\n" % n + b"get k%d\r\n" % n * 9 for n in range(number, number + 20))
        talk.sendall(batch)
        expected = 0
        for n in range(number, number + 20):
            expected += len(b"STORED\r\n") + 9 * len(b"VALUE k%d 0 8\r\nabcdefgh\r\nEND\r\n" % n)
        while True:
            left = expected
            while left:
                left -= len(talk.recv(left))
            talk.sendall(batch)

    def count(self):
        self.talk.sendall(b"stats\r\n")
        text = b""
        while not text.endswith(b"END\r\n"):
            text += self.talk.recv(65536)
        numbers = dict(line.split()[1:3] for line in text.splitlines() if line.startswith(b"STAT"))
        return int(numbers[b"cmd_get"]) + int(numbers[b"cmd_set"])


class Redis(Server):
    """GET by 20 clients."""

    def __init__(self, _):
        self.port = free_port()
        self.process = self.start(["redis-server", "--port", str(self.port), "--save", "", "--io-threads", "2"])
        self.pid = self.process.pid
        self.talk = self.connect()
        self.load = [self.start(["redis-benchmark", "-p", str(self.port), "-t", "get", "-c", "20", "-l"])]
        time.sleep(0.5)

    def count(self):
        self.talk.sendall(b"INFO stats\r\n")
        text = b""
        while b"total_commands_processed" not in text or not text.endswith(b"\r\n"):
            text += self.talk.recv(65536)
        line = next(l for l in text.splitlines() if l.startswith(b"total_commands_processed:"))
        return int(line.split(b":")[1])


class MariaDb(Server):
    """sysbench's oltp_update_index, 8 clients."""

    def __init__(self, _):
        self.folder = tempfile.mkdtemp(prefix="dwell-distortion-")
        data, self.path = os.path.join(self.folder, "data"), os.path.join(self.folder, "socket")
        install = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"]
        subprocess.run([*install, "--auth-root-authentication-method=normal"], check=True, capture_output=True)
        options = ["--no-defaults", "--user=root", "--skip-networking", f"--datadir={data}", f"--socket={self.path}"]
        self.process = self.start(["mariadbd", *options, "--innodb-flush-log-at-trx-commit=0"])
        self.pid = self.process.pid
        while not os.path.exists(self.path):
            time.sleep(0.05)
        bench = ["sysbench", "oltp_update_index", "--mysql-user=root", "--mysql-db=mysql", "--tables=1"]
        bench += ["--table-size=1000", f"--mysql-socket={self.path}"]
        subprocess.run([*bench, "prepare"], check=True, capture_output=True)
        self.load = [self.start([*bench, "--threads=8", "--time=0", "run"])]
        time.sleep(1)

    def count(self):
        query = ["mariadb", "-uroot", "-S", self.path, "-Nse", "show global status like 'Com_update'"]
        return int(subprocess.run(query, check=True, capture_output=True, text=True).stdout.split()[1])

    def end(self):
        super().end()
        shutil.rmtree(self.folder)


class SysbenchThreads(Server):
    """sysbench's threads that take eight mutexes and yield, which says every second how much they did."""

    def __init__(self, _):
        command = ["sysbench", "threads", "--threads=4", "--thread-yields=10", "--time=0", "--report-interval=1", "run"]
        self.lines, self.load = [], []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        Thread(target=self.listen, daemon=True).start()
        time.sleep(2)

    def listen(self):
        for line in self.process.stdout:
            if "eps:" in line:
                self.lines.append(float(line.split("eps:")[1].split()[0]))

    def window(self, seconds):
        # The first one that comes began before.
        begin = len(self.lines) + 1
        while len(self.lines) < begin + seconds:
            time.sleep(0.05)
        return [statistics.mean(self.lines[begin:])]


class Postgres(Server):
    """pgbench, 4 clients; dwell follows the server and all its processes. As it is installed, each transaction is on the disk
    before it is over, and each statement is parsed anew; else neither, so that the processors alone decide."""

    def __init__(self, _, as_installed=False):
        self.folder = tempfile.mkdtemp(prefix="dwell-distortion-")
        shutil.chown(self.folder, "postgres")
        data = os.path.join(self.folder, "data")
        self.as_server = ["setpriv", "--reuid=postgres", "--clear-groups"]
        binaries = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True).stdout.strip()
        program = lambda name: shutil.which(name, path=f"{binaries}:{os.environ['PATH']}")
        install = [program("initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-N"]
        subprocess.run([*self.as_server, *install], check=True, capture_output=True, cwd="/")
        server = [program("postgres"), "-D", data, "-k", self.folder, "-c", "listen_addresses="]
        server += [] if as_installed else ["-c", "fsync=off"]
        self.process = self.start([*self.as_server, *server], cwd="/")
        while not os.path.exists(os.path.join(self.folder, ".s.PGSQL.5432")):
            time.sleep(0.05)
        self.bench = [program("pgbench"), "-h", self.folder, "-U", "postgres"]
        time.sleep(0.5)
        subprocess.run([*self.bench, "-i", "-s", "5", "postgres"], check=True, capture_output=True)
        psql = [program("psql"), "-h", self.folder, "-U", "postgres", "-At"]
        self.psql = subprocess.Popen(psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.load = [self.start([*self.bench, "-c", "4", "-M", "simple" if as_installed else "prepared", "-T", "100000", "postgres"])]
        time.sleep(1)
        self.pid = ",".join(str(pid) for pid in [self.process.pid, *self.backends()])

    def backends(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as children:
            return children.read().split()

    def count(self):
        # Of each transaction that writes, as pgbench's do; the server's statistics come up to a second late.
        self.psql.stdin.write("select pg_snapshot_xmax(pg_current_snapshot());\n")
        return int(self.psql.stdout.readline())

    def end(self):
        self.psql.stdin.close()
        self.psql.wait()
        super().end()
        shutil.rmtree(self.folder)
