#!/usr/bin/env python3
"""Opens a recording with pyarrow and DuckDB, runs every query of docs/queries, checks the answers.

    python3 tests/recording/test_queries.py                       a sample recording, built for it
    python3 tests/recording/test_queries.py --recording X.dwell   any other

Needs the packages duckdb and pyarrow. Every answer is computed a second time in plain Python from
what pyarrow reads, by the rules of docs/recording-format.md.
"""

import argparse
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import duckdb
import pyarrow.parquet

import answers
import schema
from tables import Recording
from weights import Weights

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUERIES = ROOT / "docs" / "queries"
FORMAT = ROOT / "docs" / "recording-format.md"


def connect(path):
    """DuckDB with the views of a recording."""
    connection = duckdb.connect()
    quoted = str(path).replace("'", "''")
    connection.execute(f"SET VARIABLE recording = '{quoted}'")
    connection.execute((QUERIES / "views.sql").read_text())
    return connection


class Case(unittest.TestCase):
    """What all tests share: one recording, opened both ways."""

    path = None
    is_sample = True

    @classmethod
    def setUpClass(cls):
        cls.recording = Recording(cls.path)
        cls.weights = Weights(cls.recording)
        cls.duckdb = connect(cls.path)

    def ask(self, name):
        """The rows of a query, as dictionaries."""
        result = self.duckdb.sql((QUERIES / f"{name}.sql").read_text())
        return [dict(zip(result.columns, row)) for row in result.fetchall()]

    def same(self, got, wanted, what, absolute=0.002, relative=1e-6):
        """Two dictionaries of numbers are the same but for rounding."""
        for key in got.keys() | wanted.keys():
            a, b = got.get(key, 0), wanted.get(key, 0)
            self.assertLessEqual(abs(a - b), absolute + relative * abs(b), f"{what}: {key}: got {a}, wanted {b}")


class Format(Case):
    """What the document says is what is in the files."""

    def test_every_file_has_the_documented_columns(self):
        documented = schema.documented(FORMAT.read_text())
        self.assertEqual(documented.keys(), self.recording.meta["tables"].keys())
        for table, columns in documented.items():
            for path in self.recording.files(table):
                self.assertEqual(schema.found(pyarrow.parquet.read_schema(path)), columns, path)

    def test_the_files_are_those_that_meta_counts(self):
        for table, counted in self.recording.meta["tables"].items():
            files = self.recording.files(table)
            rows = sum(pyarrow.parquet.ParquetFile(path).metadata.num_rows for path in files)
            self.assertEqual((len(files), rows), (counted["files"], counted["rows"]), table)

    def test_duckdb_sees_the_same_rows(self):
        for table, rows in self.recording.tables.items():
            result = self.duckdb.sql(f"SELECT * FROM {table}")
            seen = [dict(zip(result.columns, row)) for row in result.fetchall()]
            text = lambda row: str(sorted(row.items()))
            self.assertEqual(sorted(map(text, seen)), sorted(map(text, rows)), table)

    def test_segments_that_were_never_closed_do_not_count(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "copy's.dwell"
            shutil.copytree(self.path, copy)
            for table in ["samples", "threads"]:
                last = self.recording.files(table)[-1]
                shutil.copy(last, copy / f"{table}-{self.recording.meta['segments']:04}.parquet")
            connection = connect(copy)
            ((count,),) = connection.sql("SELECT count(*) FROM samples").fetchall()
            self.assertEqual(count, len(self.recording.tables["samples"]))
            self.assertEqual(len(Recording(copy).tables["samples"]), count)

    def test_a_complete_recording_has_one_row_per_process_and_thread(self):
        if not self.recording.meta["complete"]:
            self.skipTest("cut short")
        for table in ["processes", "threads"]:
            self.assertEqual(self.recording.meta["tables"][table]["rows"], len(self.recording.tables[table]), table)

    def test_every_id_resolves(self):
        tables = self.recording.tables
        known = {name: {row[name] for row in tables[table]} for name, table in [
            ("process", "processes"), ("thread", "threads"), ("site", "sites"), ("stack", "stacks"), ("frame", "frames"),
            ("futex", "futexes"), ("lock", "locks")]}
        refers = [("threads", "process", "process"), ("mappings", "process", "process"), ("symbols", "frame", "frame"),
                  ("sites", "thread", "thread"), ("sites", "futex", "futex"), ("futexes", "process", "process"),
                  ("locks", "process", "process"),
                  ("lock_blocks", "process", "process"), ("lock_blocks", "lock", "lock"),
                  ("lock_blocks", "frame", "frame"), ("lock_blocks", "release_frame", "frame"),
                  ("kernel_locks", "process", "process"), ("kernel_locks", "stack", "stack"),
                  ("memory_places", "process", "process"),
                  ("site_times", "site", "site"), ("samples", "thread", "thread"),
                  ("samples", "stack", "stack"), ("samples", "site", "site"), ("slices", "thread", "thread"),
                  ("slices", "site", "site"), ("slices", "stack", "stack"), ("slices", "waker_thread", "thread"),
                  ("slices", "waker_stack", "stack"), ("events", "thread", "thread")]
        for table, column, kind in refers:
            missing = {row[column] for row in tables[table]} - known[kind] - {None}
            self.assertFalse(missing, f"{table}.{column}")
        self.assertFalse({stack for row in tables["memory_places"] for stack in row["stacks"]} - known["stack"])
        self.assertFalse({frame for row in tables["stacks"] for frame in row["frames"]} - known["frame"])

    def test_the_sample_has_what_queries_must_get_right(self):
        if not self.is_sample:
            self.skipTest("not the sample")
        wanted = ["running alone", "running pooled", "running without a sample", "site's samples: own",
                  "site's samples: name", "site's samples: process", "site's samples: nobody", "weights of 0",
                  "scaled down", "reason unknown", "split by its stay", "switching", "spinning"]
        self.assertFalse([case for case in wanted if not self.weights.used[case]], dict(self.weights.used))


class Queries(Case):
    """Every query gives the answer that plain loops give."""

    def test_every_query_is_documented_and_says_its_question(self):
        text = FORMAT.read_text()
        files = sorted(QUERIES.glob("*.sql"))
        self.assertGreaterEqual(len(files), 11)
        for path in files:
            self.assertTrue(path.read_text().startswith("-- Question: "), path.name)
            self.assertIn(f"queries/{path.name}", text)
            if path.name != "views.sql":
                self.ask(path.stem)

    def test_weighted_stacks(self):
        rows = self.duckdb.sql("SELECT thread, state, reason, syscall, stack, weight_ns FROM weighted_stacks").fetchall()
        got = {tuple(key): ns / 1e6 for *key, ns in rows}
        wanted = {key: ns / 1e6 for key, ns in self.weights.time.items()}
        self.same(got, wanted, "weighted_stacks")

    def test_closure(self):
        rows = self.ask("closure")
        self.assertEqual(len(rows), len(self.recording.threads))
        for row in rows:
            exact = self.recording.threads[row["thread"]]
            parts = sum(exact[name] for name in ["running_ns", "runnable_ns", "stolen_ns", "blocked_ns", "lost_ns"])
            lifetime = exact["until_ns"] - exact["start_ns"]
            self.assertEqual((row["lifetime_ns"], row["off_ns"]), (lifetime, lifetime - parts), row)
            self.assertTrue(row["closed"] and abs(lifetime - parts) <= 0.001 * lifetime, row)
            self.assertLessEqual(abs(row["weighted_off_ns"] + row["off_ns"]), 10 + 1e-9 * lifetime, row)

    def test_losses(self):
        meta = self.recording.meta
        rows = {row["name"]: row for row in self.ask("losses")}
        self.assertEqual(rows.keys(), meta["losses"].keys() | meta["produced"].keys())
        for name, row in rows.items():
            self.assertEqual((row["produced"], row["lost"]), (meta["produced"].get(name), meta["losses"].get(name, 0)))
            self.assertEqual(row["complete"], meta["complete"])

    def test_longest_waits(self):
        wanted = sorted(self.recording.tables["slices"], key=answers.longest_first)[:20]
        rows = self.ask("longest_waits")
        self.assertEqual(len(rows), len(wanted))
        for row, slice in zip(rows, wanted):
            self.assertEqual(row["blocked_ms"], round(slice["blocked_ns"] / 1e6, 3))
            self.assertEqual((row["waker"], row["waker_tid"]), (slice["waker_name"] or "[nobody]", slice["waker_tid"]))
            for column in ["stack", "waker_stack"]:
                folded = None if slice[column] is None else self.recording.names.folded(slice[column])
                self.assertEqual(row[column], folded)

    def test_chains(self):
        rows = self.ask("waker_chains")
        self.assertEqual([row["waits"] for row in rows], answers.chains(self.recording))
        if self.is_sample:
            self.assertTrue(any(row["hops"] >= 2 for row in rows), "the sample has chains")

    def test_lock_counts(self):
        rows = {row["lock"]: row for row in self.ask("lock_counts")}
        self.assertEqual(len(rows), len(self.recording.tables["locks"]))
        self.assertTrue(rows or not self.is_sample, "the sample has counts")
        waits = answers.waits_by_word(self.recording)
        for lock in self.recording.tables["locks"]:
            row = rows[lock["lock"]]
            self.assertEqual((row["address"], row["kind"]), (f"0x{lock['address']:x}", lock["kind"]))
            self.assertEqual((row["acquired"], row["contended"]), (lock["acquired"], lock["contended"]))
            within = range(lock["address"], lock["address"] + 40)
            found = [waits[process, word] for process, word in waits if process == lock["process"] and word in within]
            self.assertEqual(row["waits"], sum(count for count, _ in found))
            self.assertAlmostEqual(row["waited_ms"], sum(ns for _, ns in found) / 1e6, delta=0.001)
        if self.is_sample:
            self.assertTrue(any(row["waits"] for row in rows.values()), "one of them is waited for")

    def test_lock_blocks(self):
        blamed, waited, unclaimed = {}, {}, {}
        for row in self.recording.tables["lock_blocks"]:
            if row["part"] == "hold":
                key = row["lock"], row["ns_tid"]
                blamed[key] = blamed.get(key, 0) + row["blamed_ns"]
            if row["part"] == "wait":
                lock = row["lock"]
                waited[lock] = waited.get(lock, 0) + row["end_ns"] - row["start_ns"]
                unclaimed[lock] = unclaimed.get(lock, 0) + row["unclaimed_ns"]
        # What nobody owns (a barrier, a semaphore) has a row without an owner.
        owned = {lock for lock, _ in blamed}
        unowned = {lock for lock in waited if lock not in owned}
        rows = self.ask("lock_blocks")
        keys = [(row["lock"], row["owner"]) for row in rows]
        self.assertCountEqual(keys, [*blamed, *((lock, None) for lock in unowned)])
        for row, key in zip(rows, keys):
            of_owner = round(blamed[key] / 1e6, 3) if key in blamed else None
            self.assertEqual(row["blamed_ms"], of_owner)
            self.assertEqual(row["waited_ms"], round(waited[row["lock"]] / 1e6, 3))
            self.assertEqual(row["unclaimed_ms"], round(unclaimed[row["lock"]] / 1e6, 3))
        self.assertEqual(sum(blamed.values()) + sum(unclaimed.values()), sum(waited.values()))
        if self.is_sample:
            self.assertTrue(rows)

    def test_kernel_locks(self):
        wanted = collections.Counter()
        for row in self.recording.tables["kernel_locks"]:
            key = (self.recording.processes[row["process"]]["name"], row["kind"], row["access"], f"0x{row['address']:x}")
            wanted[key] += row["waits"]
        got = collections.Counter()
        for row in self.ask("kernel_locks"):
            got[row["process"], row["kind"], row["access"], row["address"]] += row["waits"]
        self.assertEqual(got, wanted)
        self.assertTrue(got or not self.is_sample, "the sample has some")

    def test_memory(self):
        columns = ["allocated_pages", "freed_pages"]
        wanted = collections.Counter()
        for row in self.recording.tables["memory_places"]:
            kinds = ["anonymous", "copied", "file", "stack", "huge", "populated", "other"]
            faults = row["minor_faults"] + row["major_faults"]
            self.assertEqual(sum(row[f"{kind}_faults"] for kind in kinds), faults, row)
            key = (self.recording.processes[row["process"]]["name"], row["syscall"])
            wanted.update({(*key, column): row[column] for column in columns})
            wanted[*key, "faults"] += faults
        got = collections.Counter()
        for row in self.ask("memory"):
            for column in columns + ["faults"]:
                got[row["process"], row["syscall"], column] += row[column]
        self.assertEqual(got, wanted)
        self.assertTrue(got or not self.is_sample, "the sample has some")

    def test_slept_throughout(self):
        got = {row["tid"] for row in self.ask("slept_throughout")}
        wanted = {row["tid"] for row in self.recording.threads.values() if answers.slept(row)}
        self.assertEqual(got, wanted)
        self.assertTrue(wanted or not self.is_sample)

    def test_tables_of_sums(self):
        for name, columns, wanted in answers.sums(self.recording, self.weights):
            rows = self.ask(name)
            got = {}
            for row in rows:
                *key, value = (row[column] for column in columns)
                got[tuple(key)] = got.get(tuple(key), 0) + float(value)
            limit, largest = answers.LIMITED.get(name, (None, None))
            if len(rows) == limit:
                left_out = [ms for key, ms in wanted.items() if key not in got]
                if columns[-1] == largest:
                    self.assertGreaterEqual(min(got.values()) + 0.002, max(left_out, default=0), name)
                wanted = {key: ms for key, ms in wanted.items() if key in got}
            # Every row of an answer is rounded: to whole ns, or to a thousandth of its unit.
            step = 1 if columns[-1] == "ns" else 0.001
            self.same(got, wanted, name, absolute=step * (1 + len(rows)))


def build_sample(folder):
    """Writes the sample recording with the example of the crate."""
    path = pathlib.Path(folder) / "sample.dwell"
    example = "make_sample_recording"
    # Of the whole workspace, as the tests are built: for one package its dependencies would be compiled anew.
    build = ["cargo", "build", "--quiet", "--locked", "--workspace", "--example", example]
    subprocess.run(build, cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    subprocess.run([target / "debug" / "examples" / example, path], check=True)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recording", type=pathlib.Path, help="a recording to check instead of the sample")
    arguments, rest = parser.parse_known_args()
    folder = tempfile.mkdtemp()
    try:
        Case.is_sample = arguments.recording is None
        Case.path = arguments.recording or build_sample(folder)
        unittest.main(argv=[sys.argv[0], *rest])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
