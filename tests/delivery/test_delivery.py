#!/usr/bin/env python3
"""Delivers recordings to real servers, reads there what came, and compares it with the recording.

    python3 tests/delivery/test_delivery.py --dwell DWELL --programs FOLDER --servers FOLDER

Needs root, chdb (ClickHouse within Python), duckdb, pyarrow and opentelemetry-proto (tools/python-env.sh), an S3 server and
a collector (tools/go-env.sh).
"""

import argparse
import collections
import contextlib
import gzip
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

sys.dont_write_bytecode = True

import duckdb
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not so secret"}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s")


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True


@contextlib.contextmanager
def server(command, port, **options):
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        wait_for(lambda: answers(port), command[0])
        yield
    finally:
        running.kill()
        running.wait()


class Case(unittest.TestCase):
    """What all tests share: a folder, and a recording with its times by state."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.recording = pathlib.Path(cls.shared.name) / "mixed.dwell"
        cls.run_dwell("record", "-q", "-o", cls.recording, "--", cls.programs / "mixed")
        cls.report = json.loads(cls.run_dwell("report", "--json", cls.recording).stdout)

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    @classmethod
    def run_dwell(cls, *arguments, env=None, check=True):
        command = [cls.dwell, *map(str, arguments)]
        done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True)
        if check and done.returncode:
            raise AssertionError(f"{command}: {done.stderr}")
        return done

    def s3(self, port):
        """An S3 server that has the bucket `profiles`, and what a client of it needs."""
        (self.folder / "s3" / "profiles").mkdir(parents=True, exist_ok=True)
        command = [self.servers / "versitygw", "--port", f"127.0.0.1:{port}", "posix", self.folder / "s3"]
        keys = {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}
        return server(command, port, env={**os.environ, **keys})

    def s3_env(self, port):
        return {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}

    def store(self, folder):
        """DuckDB with the views of a store."""
        connection = duckdb.connect()
        connection.execute(f"SET VARIABLE store = '{folder}'")
        connection.execute((ROOT / "docs" / "store.sql").read_text())
        return connection

    def times(self):
        """ns by state, and by reason of what was blocked."""
        total = self.report["total"]
        states = {name: total[f"{name}_ns"] for name in ("running", "spinning", "runnable", "stolen", "blocked", "lost")}
        # There it is a part of the running time.
        states["running"] -= states["spinning"]
        return {name: ns for name, ns in states.items() if ns}, {k: v for k, v in total["blocked_by_reason_ns"].items() if v}


class Stores(Case):
    def test_a_folder(self):
        to = f"file://{self.folder}/store"
        self.run_dwell("send", self.recording, "--store", to)
        # Once more does no harm; and another service.
        self.run_dwell("send", self.recording, "--store", to)
        self.run_dwell("send", self.recording, "--store", to, "--service", "a b/c=d")
        store = self.store(f"{self.folder}/store")
        states, reasons = self.times()
        for service in ("mixed", "a b/c=d"):
            found = store.execute("SELECT state, sum(weight_ns)::BIGINT FROM profile WHERE service = ? GROUP BY 1", [service])
            self.assertEqual(dict(found.fetchall()), states)
            found = store.execute(
                "SELECT reason, sum(weight_ns)::BIGINT FROM profile WHERE service = ? AND reason <> '' GROUP BY 1", [service])
            self.assertEqual(dict(found.fetchall()), reasons)
        # A wait of this program for its mutex, by its stack alone.
        [(waits,)] = store.execute("""
            SELECT sum(weight_ns) FROM profile
            WHERE reason = 'lock' AND service = 'mixed' AND stack LIKE '%;look_up;%pthread_mutex_lock%'""").fetchall()
        self.assertGreater(waits, 1e9)
        # The other tables join by recording and id.
        [(threads, slices)] = store.execute("""
            SELECT count(DISTINCT t.thread), count(*) FROM stored('slices') s
            JOIN stored('threads') t USING (service, host, recording, thread) WHERE service = 'mixed'""").fetchall()
        self.assertGreater(slices, 10)
        self.assertLessEqual(threads, self.report["total"]["threads"])
        rows = store.execute("SELECT DISTINCT target, meta, recording FROM recordings").fetchall()
        [(target, meta, _)] = rows
        self.assertIn("mixed", target)
        self.assertEqual(json.loads(meta)["start_ns"], json.loads((self.recording / "meta.json").read_text())["start_ns"])
        # Only files of what is asked for are read.
        plan = store.execute("EXPLAIN ANALYZE SELECT sum(weight_ns) FROM profile WHERE service = 'mixed'").fetchall()[0][1]
        self.assertIn("Total Files Read: 1", plan)

    def test_s3(self):
        port = free_port()
        env = self.s3_env(port)
        send = ["send", self.recording, "--store", "s3://profiles/some/where", "--service", "the service"]
        down = self.run_dwell(*send, env=env, check=False)
        self.assertNotEqual(down.returncode, 0)
        self.assertIn("does not answer", down.stderr)
        self.assertIn("stays here", down.stderr)
        with self.s3(port):
            self.run_dwell(*send, env=env)
            # Another client reads it there.
            s3 = pyarrow.fs.S3FileSystem(
                access_key=KEYS["AWS_ACCESS_KEY_ID"], secret_key=KEYS["AWS_SECRET_ACCESS_KEY"],
                endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1")
            profile = pyarrow.dataset.dataset("profiles/some/where/profile", filesystem=s3, partitioning="hive")
            rows = profile.to_table(filter=pyarrow.dataset.field("service") == "the service").to_pylist()
            found = collections.Counter()
            for row in rows:
                found[row["state"]] += row["weight_ns"]
            self.assertEqual(dict(found), self.times()[0])
            wrong = self.run_dwell(*send, env={**env, "AWS_SECRET_ACCESS_KEY": "wrong"}, check=False)
            self.assertIn("SignatureDoesNotMatch", wrong.stderr)
            none = self.run_dwell("send", self.recording, "--store", "s3://no-such-bucket", env=env, check=False)
            self.assertIn("NoSuchBucket", none.stderr)
        self.assertNotEqual(0, self.run_dwell(*send, env={"AWS_ACCESS_KEY_ID": ""}, check=False).returncode)

    def test_clickhouse_reads_only_what_is_asked_for(self):
        """The query of docs/continuous.md."""
        port = free_port()
        [query] = [block for block in (ROOT / "docs" / "continuous.md").read_text().split("```") if "FROM s3(" in block]
        with self.s3(port):
            for service in ("api", "other"):
                send = ["send", self.recording, "--store", "s3://profiles/prod", "--service", service]
                self.run_dwell(*send, env=self.s3_env(port))
            [stored] = (self.folder / "s3" / "profiles" / "prod" / "profile" / "service=api").rglob("*.parquet")
            date = next(part.removeprefix("date=") for part in stored.parts if part.startswith("date="))
            for name, value in [("minio:9000", f"127.0.0.1:{port}"), ("2026-11-23", date),
                                ("KEY", KEYS["AWS_ACCESS_KEY_ID"]), ("SECRET", KEYS["AWS_SECRET_ACCESS_KEY"])]:
                self.assertIn(name, query)
                query = query.replace(name, value)
            import chdb  # here: its half GB is else in this process, which the agents record before

            answer = chdb.query(query, "JSON")
        wanted = collections.Counter()
        for row in pyarrow.parquet.read_table(stored, partitioning=None).to_pylist():
            wanted[row["function"]] += row["weight_ns"]
        got = {row["function"]: row["seconds"] for row in json.loads(answer.data())["data"]}
        self.assertEqual(len(got), min(20, len(wanted)))
        for function, seconds in got.items():
            self.assertAlmostEqual(seconds, wanted[function] / 1e9, places=6)
        self.assertEqual(min(got.values()), sorted(wanted.values(), reverse=True)[len(got) - 1] / 1e9)
        self.assertEqual(answer.storage_rows_read(), pyarrow.parquet.read_metadata(stored).num_rows)

    def test_a_folder_that_cannot_be_written(self):
        (self.folder / "file").write_text("")
        done = self.run_dwell("send", self.recording, "--store", f"file://{self.folder}/file/store", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write", done.stderr)


class Servers(Case):
    def test_a_collector(self):
        """What the collector understood, it sends on: that is what is looked at."""
        came = []

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                came.append(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        self.addCleanup(receiver.server_close)
        self.addCleanup(receiver.shutdown)
        port = free_port()
        config = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
            "exporters": {"otlp_http": {"endpoint": f"http://127.0.0.1:{receiver.server_port}"}},
            "service": {
                "pipelines": {"profiles": {"receivers": ["otlp"], "exporters": ["otlp_http"]}},
            },
        }
        command = [self.servers / "collector", "--feature-gates=+service.profilesSupport", f"--config=yaml:{json.dumps(config)}"]
        with server(command, port):
            url = f"http://127.0.0.1:{port}/v1development/profiles"
            self.run_dwell("send", self.recording, "--push", url, "--service", "shop")
            wait_for(lambda: came, "the collector sends it on")
            wrong = self.run_dwell("send", self.recording, "--push", f"http://127.0.0.1:{port}/x/v1development/profiles", check=False)
            self.assertIn("answered 404", wrong.stderr)
        request = profiles_service_pb2.ExportProfilesServiceRequest.FromString(came[0])
        strings = request.dictionary.string_table
        names = request.dictionary.attribute_table
        states = collections.Counter()
        for resource in request.resource_profiles:
            # The collector itself writes them as numbers of strings.
            told = {
                a.key or strings[a.key_strindex]: a.value.string_value or strings[a.value.string_value_strindex]
                for a in resource.resource.attributes
            }
            self.assertEqual(told["service.name"], "shop")
            for sample in (s for scope in resource.scope_profiles for p in scope.profiles for s in p.samples):
                told = {strings[names[i].key_strindex]: names[i].value for i in sample.attribute_indices}
                states[told["thread.state"].string_value] += sum(sample.values)
        self.assertEqual(dict(states), self.times()[0])


    def test_pyroscope(self):
        pyroscope = self.servers / "pyroscope"
        if not pyroscope.exists():
            self.skipTest("Pyroscope could not be built here (tools/go-env.sh)")
        port, grpc, gossip = free_port(), free_port(), free_port()
        config = {
            "server": {
                "http_listen_address": "127.0.0.1", "http_listen_port": port,
                "grpc_listen_address": "127.0.0.1", "grpc_listen_port": grpc,
            },
            "analytics": {"reporting_enabled": False},
            "self_profiling": {"disable_push": True},
            "storage": {"backend": "filesystem", "filesystem": {"dir": str(self.folder / "blocks")}},
            "pyroscopedb": {"data_path": str(self.folder / "data")},
            "memberlist": {"bind_addr": ["127.0.0.1"], "advertise_addr": "127.0.0.1", "bind_port": gossip},
        }
        (self.folder / "pyroscope.yaml").write_text(json.dumps(config))
        rings = ["compactor.ring", "distributor.ring", "query-frontend", "query-scheduler.ring", "store-gateway.sharding-ring",
                 "overrides-exporter.ring"]
        command = [pyroscope, "-config.file=pyroscope.yaml", *(f"-{ring}.instance-addr=127.0.0.1" for ring in rings)]
        command += ["-ingester.lifecycler.addr=127.0.0.1", "-ingester.min-ready-duration=0s"]

        def ask(path, **message):
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}{path}", json.dumps(message).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)

        def is_ready():
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).status == 200

        def total(**labels):
            selector = ",".join(f'{name}="{value}"' for name, value in labels.items())
            now = int(time.time() * 1000)
            found = ask(
                "/querier.v1.QuerierService/SelectMergeStacktraces", start=now - 3600_000, end=now + 60_000,
                profileTypeID="wall:wall:nanoseconds:wall:nanoseconds", labelSelector="{" + selector + "}")
            return int(found["flamegraph"]["total"])

        with server(command, port, cwd=self.folder):
            wait_for(is_ready, "Pyroscope is ready", 60)
            self.run_dwell("send", self.recording, "--push", f"http://127.0.0.1:{port}/ingest", "--service", "shop")
            states, reasons = self.times()
            for state, ns in states.items():
                self.assertEqual(total(service_name="shop", process="mixed", state=state), ns, state)
            self.assertEqual(total(service_name="shop", reason="lock"), reasons["lock"])
            self.assertEqual(total(service_name="shop"), sum(states.values()))


class Agents(Case):
    """`dwell agent`, with windows of a second."""

    def start(self, *options, env=None, max_cpu=1000):
        command = [self.dwell, "agent", "--window", "1s", "--max-cpu", str(max_cpu), "--spool", self.folder / "spool", *options]
        agent = subprocess.Popen(command, env={**os.environ, **(env or {})}, stderr=subprocess.PIPE, text=True)

        def end():
            agent.kill()
            agent.wait()
            agent.stderr.close()

        self.addCleanup(end)
        return agent

    def status(self):
        with contextlib.suppress(OSError):
            return json.loads((self.folder / "spool" / "status.json").read_text())
        return collections.defaultdict(int)

    def recordings(self, folder):
        """Names and windows, from the store's own table."""
        found = self.store(folder).execute("SELECT recording, start_ns, end_ns, complete FROM recordings ORDER BY start_ns")
        return found.fetchall()

    def test_a_store_that_is_down_gets_everything_later(self):
        port = free_port()
        agent = self.start(
            "--store", "s3://profiles/x", "--store", f"file://{self.folder}/store", env=self.s3_env(port))
        wait_for(lambda: self.status()["recordings"] >= 3, "three recordings")
        told = self.status()
        self.assertGreaterEqual(told["waiting"], 2)
        self.assertIn("does not answer", told["destinations"][0]["failing"])
        text = self.run_dwell("agent", "--status", "--spool", self.folder / "spool").stdout
        for wanted in ("running since", "failing: s3://profiles/x/ does not answer", "wait ("):
            self.assertIn(wanted, text)
        second = self.run_dwell("agent", "--store", f"file://{self.folder}/x", "--spool", self.folder / "spool", check=False)
        self.assertIn("another agent's", second.stderr)
        with self.s3(port):
            wait_for(lambda: self.status()["destinations"][0]["delivered"] >= 3, "deliveries")
            agent.send_signal(signal.SIGTERM)
            self.assertEqual(agent.wait(30), 0)
        told = self.status()
        self.assertEqual(told["waiting"], 0)
        self.assertEqual([d["delivered"] for d in told["destinations"]], [told["recordings"]] * 2)
        self.assertEqual([told["failed"], told["dropped"]], [0, 0])
        errors = agent.stderr.read()
        self.assertEqual(errors.count("does not answer"), 1, errors)
        self.assertIn("takes recordings again", errors)
        kept = self.recordings(self.folder / "store")
        self.assertEqual(kept, self.recordings(self.folder / "s3" / "profiles" / "x"))
        self.assertEqual(len(kept), told["recordings"])
        self.assertTrue(all(complete for *_, complete in kept))
        for (_, _, end, _), (_, start, _, _) in zip(kept, kept[1:]):
            self.assertLess(end, start)
        recorded = sum(end - start for _, start, end, _ in kept)
        print(f"\n{len(kept)} windows of 1 s cover {100 * recorded / (kept[-1][2] - kept[0][1]):.0f} % of the time", end=" ")

    def test_a_full_spool_drops_the_oldest_and_says_so(self):
        agent = self.start("--push", "http://127.0.0.1:9/ingest", "--spool-size", "500K")
        wait_for(lambda: self.status()["dropped"] >= 2, "something is dropped", 60)
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(30), 0)
        told = self.status()
        waiting = sorted((self.folder / "spool" / "waiting").iterdir())
        self.assertEqual(told["recordings"], told["dropped"] + len(waiting))
        size = sum(f.stat().st_size for f in (self.folder / "spool" / "waiting").rglob("*") if f.is_file())
        self.assertLessEqual(size, 500 << 10)
        self.assertIn("are dropped", agent.stderr.read())

    def test_a_killed_agent_loses_nothing_that_was_made(self):
        dead = self.start("--store", "s3://profiles/x", env=self.s3_env(free_port()))
        wait_for(lambda: self.status()["recordings"] >= 2, "two recordings")
        making = self.folder / "spool" / "making"
        wait_for(lambda: any(making.glob("*/meta.json")), "a third one")
        dead.kill()
        dead.wait()
        # Its recorder ends by itself.
        children = lambda: subprocess.run(["pgrep", "-f", str(making)], capture_output=True).stdout
        wait_for(lambda: not children(), "the recorder ends")
        before = sorted(path.name for path in (self.folder / "spool" / "waiting").iterdir())
        agent = self.start("--store", f"file://{self.folder}/store")
        wait_for(lambda: self.status()["recordings"] >= 1 and self.status()["destinations"][0]["delivered"] >= 4, "deliveries")
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(30), 0)
        kept = self.recordings(self.folder / "store")
        self.assertGreaterEqual(len(kept), len(before) + 2)
        self.assertEqual(list((self.folder / "spool" / "waiting").iterdir()), [])

    def test_the_cost_has_a_limit(self):
        """It pauses until what a recording cost is within its share."""
        agent = self.start("--store", f"file://{self.folder}/store", max_cpu=20)
        wait_for(lambda: self.status()["recordings"] >= 3, "three recordings", 120)
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(30), 0)
        kept = self.recordings(self.folder / "store")
        # From the first begin to the third's, two windows and their pauses.
        took = (kept[2][1] - kept[0][1]) / 1e9
        told = self.status()
        self.assertLessEqual(told["cpu_s"] / told["recordings"] * 2, 0.2 * took * 1.5)

    def test_what_cannot_work_is_said_at_once(self):
        for options, wanted in [
            ([], "name a store"),
            (["--store", f"file://{self.folder}/s", "--cgroup", "no/such"], "no/such"),
            (["--store", "/srv"], "file:///FOLDER"),
            (["--push", "http://127.0.0.1:4040"], "/ingest"),
        ]:
            agent = self.start(*options)
            self.assertNotEqual(agent.wait(20), 0)
            self.assertIn(wanted, agent.stderr.read())


    def test_the_unit_is_right(self):
        unit = self.folder / "dwell-agent.service"
        unit.write_text(self.run_dwell("agent", "--unit").stdout)
        self.assertIn(f"ExecStart={self.dwell} agent", unit.read_text())
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        checked = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
        said = [line for line in checked.stderr.splitlines() if "dwell-agent" in line]
        self.assertEqual((checked.returncode, said), (0, []))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("dwell", "programs", "servers"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    arguments, rest = parser.parse_known_args()
    for name, path in vars(arguments).items():
        setattr(Case, name, path.resolve())
    unittest.main(argv=[sys.argv[0], *rest])
