"""A recording read with pyarrow alone: the oracle's view of it, knowing nothing of the queries."""

import collections
import json
import pathlib
import re

import pyarrow.parquet

KEYS = {
    "processes": ("process",),
    "threads": ("thread",),
    "frames": ("frame",),
    "symbols": ("frame", "depth"),
    "stacks": ("stack",),
    "futexes": ("futex",),
    "locks": ("lock",),
    "sites": ("site",),
}


class Recording:
    """`tables[name]` are rows as dictionaries, later rows of a key having replaced earlier ones."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.meta = json.loads((self.path / "meta.json").read_text())
        self.tables = {name: self._rows(name) for name in self.meta["tables"]}
        self.threads = {row["thread"]: row for row in self.tables["threads"]}
        self.processes = {row["process"]: row for row in self.tables["processes"]}
        self.sites = {row["site"]: row for row in self.tables["sites"]}
        self.names = StackNames(self.tables)

    def files(self, table):
        """The files that count, by number."""
        counted = self.meta["tables"][table]
        numbered = []
        for path in self.path.glob(f"{table}-*.parquet"):
            number = int(re.fullmatch(rf"{table}-(\d+)\.parquet", path.name)[1])
            if counted["first"] <= number <= counted["last"]:
                numbered.append((number, path))
        return [path for _, path in sorted(numbered)]

    def _rows(self, table):
        rows = []
        for path in self.files(table):
            rows += pyarrow.parquet.ParquetFile(path).read().to_pylist()
        if table not in KEYS:
            return rows
        last = {}
        for row in rows:
            last[tuple(row[column] for column in KEYS[table])] = row
        return [row for _, row in sorted(last.items())]


class StackNames:
    """Function names of stacks, outermost first."""

    def __init__(self, tables):
        named = collections.defaultdict(list)
        for row in sorted(tables["symbols"], key=lambda row: -row["depth"]):
            named[row["frame"]].append(row["function"])
        frames = {
            row["frame"]: named.get(row["frame"]) or [f"{row['module']}+0x{row['address']:x}"]
            for row in tables["frames"]
        }
        self.functions = {None: ["[no stack taken]"]}
        self.ends = {None: "not_taken"}
        for row in tables["stacks"]:
            names = [name for frame in row["frames"] for name in frames.get(frame, ["[unknown frame]"])]
            self.functions[row["stack"]] = names or [f"[{row['end']}]"]
            self.ends[row["stack"]] = row["end"]

    def folded(self, stack):
        """The usual text form."""
        return ";".join(self.functions[stack])
